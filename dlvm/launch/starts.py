"""One start of the ranks, from the launcher's first process to how the last one ended."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlvm.base import environment

from .hydra import of_rank
from .logs import Logs
from .places import Place

PAUSE = 0.1
"""Seconds between two looks at the ranks."""
PATIENCE = 5.0
"""Seconds in which the launcher ends what it was asked to end."""
SIGNALLED = 128
"""What a shell adds to the number of a signal that ended a process, for its exit code."""


@dataclass(frozen=True)
class End:
    """How a start ended: its exit code, the rank that ended it, if known, and a sentence.

    ``dies`` is whether a rank was killed, after which another start may go better; a program that
    ends by itself would do so again.
    """

    code: int
    why: str = ""
    rank: int | None = None
    dies: bool = False


@dataclass(frozen=True)
class Started:
    """A script, its arguments, and where its ranks run."""

    place: Place
    script: str
    arguments: Sequence[str]

    def run(self, count: int, logs: Logs | None) -> End:
        """Runs so many ranks to their end."""
        with tempfile.TemporaryDirectory(prefix="dlvm-launch-") as folder:
            notes = Path(folder)
            more = {"DLVM_THREADS": str(self.place.threads(count))}
            if logs:  # lines are seen as they are printed, and not lost by a kill
                more["PYTHONUNBUFFERED"] = "1"
            command = of_rank(notes, self.script, self.arguments)
            told = [*(logs.options() if logs else ()), "-n", str(count), *command]
            banners = subprocess.DEVNULL if logs else None  # all that it writes beside logs
            process = self.place.start(told, environment.of_child(**more), banners)
            with passed_on(process) as asked:
                self._wait(process, logs)
            end = ended(notes, process.returncode)
            return End(end.code, end.why, end.rank) if asked else end

    def _wait(self, process: subprocess.Popen[Any], logs: Logs | None) -> None:
        try:
            while not ends_within(process, PAUSE):
                if logs:
                    logs.show()
        except KeyboardInterrupt:  # a terminal sends it to the launcher as well
            if not ends_within(process, PATIENCE):
                process.terminate()
            raise
        if logs:
            logs.show()


def ends_within(process: subprocess.Popen[Any], seconds: float) -> bool:
    """Whether a process ends before so many seconds have passed."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@contextmanager
def passed_on(process: subprocess.Popen[Any]) -> Generator[list[int]]:
    """Passes SIGTERM on to all ranks, which may save and leave, and lists it once it came."""
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        came.append(number)
        process.send_signal(number)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


def ended(notes: Path, code: int) -> End:
    """How a start ended, by the note of the first rank that failed, or else the launcher's code."""
    failed = list[tuple[float, int, int]]()
    for note in notes.glob("ended-*[0-9]"):
        told, when = note.read_text("utf8").split()
        if int(told):
            failed.append((float(when), int(note.name.partition("-")[2]), int(told)))
    if not failed:
        return End(code, f"the launcher ended with code {code}" if code else "")
    _, rank, told = min(failed)
    if told > 0:
        return End(told, f"rank {rank} ended with code {told}", rank)
    name = signal.Signals(-told).name
    return End(SIGNALLED - told, f"rank {rank} was killed by {name}", rank, dies=True)
