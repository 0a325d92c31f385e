"""One start of the ranks, from the launcher's first process to how the last one ended."""

from __future__ import annotations

import itertools
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dlvm.base import environment
from dlvm.base.notes import FAILED, lives

from . import watching
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
    """A script, its arguments, where its ranks run, and after how long they stand still."""

    place: Place
    script: str
    arguments: Sequence[str]
    stuck: float | None = None

    def run(self, count: int, logs: Logs | None) -> End:
        """Runs so many ranks to their end."""
        with tempfile.TemporaryDirectory(prefix="dlvm-launch-") as folder:
            notes = Path(folder)
            more = {"DLVM_THREADS": str(self.place.threads(count))}
            if logs:  # lines are seen as they are printed, and not lost by a kill
                more["PYTHONUNBUFFERED"] = "1"
            env = {**environment.of_child(**more), "DLVM_NOTES": folder}
            command = of_rank(notes, self.script, self.arguments)
            told = [*(logs.options() if logs else ()), *command]
            banners = subprocess.DEVNULL if logs else None  # all that it writes beside logs
            process = self.place.start(count, told, env, banners)
            with passed_on(process) as asked:
                still = self._wait(process, notes, logs)
            end = first_of(self.place.each(ended, notes), process.returncode)
            if still:  # a stopped rank that tells its lines may go on and end before it is killed
                code = SIGNALLED + signal.SIGKILL
                return replace(end, code=code, why=still, dies=not asked)
            return replace(end, dies=end.dies and not asked)

    def _wait(self, process: subprocess.Popen[Any], notes: Path, logs: Logs | None) -> str:
        """Waits for the end; what was said of ranks that stood still, and were killed."""
        watch, still = watching.Watch(self.stuck) if self.stuck else None, ""
        try:
            while not ends_within(process, PAUSE):
                if logs:
                    logs.show()
                if watch and not still:
                    seen = [*itertools.chain(*self.place.each(watching.look, notes))]
                    if watch.still(seen, time.monotonic()):
                        still = self._killed(seen, notes, logs)
        except KeyboardInterrupt:  # a terminal sends it to the launcher as well
            if not ends_within(process, PATIENCE):
                process.terminate()
            raise
        if logs:
            logs.show()
        return still

    def _killed(self, seen: Sequence[watching.Seen], notes: Path, logs: Logs | None) -> str:
        """Kills ranks that stand still, after they have told where they are."""
        all_lives = [s.life for s in seen]
        where: dict[int, str] = {}
        for found in self.place.each(watching.traces, notes, all_lives):
            where |= found
        if logs:
            logs.keep(where)
        said = watching.told(seen, self.script, where, self.stuck or 0)
        guilty = [s.life for s in watching.culprits(seen)]
        self.place.each(watching.kill, notes, guilty or all_lives)
        return said


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


Failure = tuple[float, int, int]
"""When a rank failed, its number, and its code as Python gives it, less than 0 for a signal."""


def ended(notes: Path) -> list[Failure]:
    """The ranks of this machine that failed by themselves."""
    failed = list[Failure]()
    for note in notes.glob("ended-*[0-9]"):
        code, when = note.read_text("utf8").split()
        if int(code):
            failed.append((float(when), int(note.name.partition("-")[2]), int(code)))
    raised = [life.rank for life in lives(notes) if life.doing == FAILED]
    return failed or [(0.0, rank, 1) for rank in raised]


def first_of(failures: Sequence[Sequence[Failure]], code: int) -> End:
    """How a start ended, by the first rank that failed, or else by the launcher's code."""
    if not any(failures):
        return End(code, f"the launcher ended with code {code}" if code else "")
    _, rank, own = min(itertools.chain(*failures))
    if own > 0:
        return End(own, f"rank {rank} ended with code {own}", rank)
    name = signal.Signals(-own).name
    return End(SIGNALLED - own, f"rank {rank} was killed by {name}", rank, dies=True)
