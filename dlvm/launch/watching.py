"""When ranks stand still: which of them the others wait for, and at which lines they are.

Ranks that wait look as busy as those that compute. So what is watched is how far each has come:
its position is twice the number of calls of all ranks that it has begun, and one less while it is
in the last of them. While nobody gets further and some rank is in a call, it waits for those of
the lowest position, unless they are in a call as well.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dlvm.base.notes import COMPILING, TOGETHER, Life, lives

ANSWER = 5.0
"""Seconds within which a rank writes where it is."""


@dataclass(frozen=True)
class Seen:
    """What a rank notes, and whether a signal (SIGSTOP) has stopped its process."""

    life: Life
    stopped: bool

    @property
    def position(self) -> int:
        """How far it has come."""
        return 2 * self.life.calls - (self.life.doing == TOGETHER)


def look(notes: Path) -> list[Seen]:
    """The ranks of this machine."""
    return [Seen(life, _is_stopped(life.process)) for life in lives(notes)]


def _is_stopped(process: int) -> bool:
    try:
        said = Path(f"/proc/{process}/stat").read_text("utf8", "replace")
    except OSError:  # it has ended, or this system has no such files
        return False
    return said.rpartition(")")[2].split()[0] == "T"


def culprits(seen: Sequence[Seen]) -> list[Seen]:
    """The ranks that the others wait for, as far as is known."""
    if stopped := [s for s in seen if s.stopped]:
        return stopped
    lowest = min(s.position for s in seen)
    return [s for s in seen if s.position == lowest and s.life.doing != TOGETHER]


class Watch:
    """Says when ranks have stood still for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._before: Sequence[Seen] = ()
        self._since = 0.0

    def still(self, seen: Sequence[Seen], now: float) -> bool:
        """Whether ranks, as they are seen now, have stood still for too long.

        A rank that compiles is at work, however long it takes, and one that is alone in Python
        keeps nobody waiting until another one is in a call.
        """
        waiting = any(s.life.doing == TOGETHER for s in seen)
        at_work = any(s.life.doing == COMPILING for s in seen)
        stands = any(s.stopped for s in seen) or (waiting and not at_work)
        if seen != self._before or not stands:
            self._before, self._since = seen, now
        return now - self._since >= self.seconds


def traces(notes: Path, wanted: Sequence[Life]) -> dict[int, str]:
    """The lines at which ranks of this machine are, by rank, from the innermost call."""
    wanted = _here(notes, wanted)
    for life in wanted:
        for number in (signal.SIGQUIT, signal.SIGCONT):  # one that is stopped hears nothing
            _sent(life, number)
    paths = {life.rank: notes / f"trace-{life.rank}" for life in wanted}
    until, before = time.monotonic() + ANSWER, [0]
    while time.monotonic() < until:
        sizes = [path.stat().st_size for path in paths.values() if path.exists()]
        if sizes == before and all(sizes):  # a trace is written line by line
            break
        before = sizes
        time.sleep(ANSWER / 20)
    return {rank: path.read_text("utf8") for rank, path in paths.items() if path.exists()}


def kill(notes: Path, wanted: Sequence[Life]) -> None:
    """Kills those that are on this machine; the launcher then ends the others."""
    for life in _here(notes, wanted):
        _sent(life, signal.SIGKILL)


def _here(notes: Path, wanted: Sequence[Life]) -> list[Life]:
    """Those of some ranks that are on this machine, where the number of a process is known."""
    return [life for life in wanted if (notes / f"rank-{life.rank}").exists()]


def _sent(life: Life, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(life.process, number)


def line_of(script: str, trace: str) -> str:
    """The innermost line of a script in a trace, as ``train.py:31``, or that it isn't known.

    Python's main thread is the last of a trace, and the first that counts.
    """
    name = re.escape(os.path.basename(script))
    for thread in reversed(trace.split("\n\n")):
        if found := re.search(rf'^  File "(?:[^"]*/)?({name})", line (\d+) in', thread, re.M):
            return f"{found[1]}:{found[2]}"
    return "a line that it did not tell"


def told(seen: Sequence[Seen], script: str, where: dict[int, str], seconds: float) -> str:
    """One sentence about ranks that stand still."""
    guilty = culprits(seen)
    waiting = [s for s in seen if s not in guilty and s.life.doing == TOGETHER]
    others = "; ".join(_stands(s, script, where, "waits") for s in waiting)
    if not guilty:
        return (
            f"for {seconds:g} s no rank came back from a call, and which one keeps the others"
            f" waiting is not known: {others}"
        )
    blamed = "; ".join(_stands(s, script, where, "stands still") for s in guilty)
    return f"{blamed}, for {seconds:g} s{'; ' * bool(others)}{others}"


def _stands(seen: Seen, script: str, where: dict[int, str], verb: str) -> str:
    """What one rank does, and where."""
    stopped = ", stopped by a signal" * seen.stopped
    line = line_of(script, where.get(seen.life.rank, ""))
    return f"rank {seen.life.rank} {verb} at {line}{stopped}"
