"""What a rank notes of its life in the folder ``DLVM_NOTES``, for those who watch over all ranks.

A rank has a file of three words, ``rank-2``: its process, how many calls it has begun in which
ranks wait for one another, and what it does now. It is mapped into memory, so that a note takes
less than a microsecond. On SIGQUIT the rank writes the lines at which it is into ``trace-2``.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import struct
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import environment

APART, TOGETHER, COMPILING, FAILED = range(4)
"""What a rank does: Python of its own, a call of all ranks, a compile; or it has ended them all."""
WORDS = struct.Struct("<qqq")


@dataclass(frozen=True)
class Life:
    """A rank, its process, the number of calls that it has begun, and what it does now."""

    rank: int
    process: int
    calls: int
    doing: int


class Notes:
    """The notes of this process."""

    def __init__(self, folder: Path, rank: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"rank-{rank}").open("w+b") as file:
            file.write(WORDS.pack(os.getpid(), 0, APART))
            file.flush()
            self._words = mmap.mmap(file.fileno(), WORDS.size)
        if sys.platform != "win32":
            trace = os.open(folder / f"trace-{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            # of all threads, as one that Python does not know may hear the signal
            faulthandler.register(signal.SIGQUIT, trace, all_threads=True)  # which stays open
        self._process, self._calls, self._doing = os.getpid(), 0, APART

    def change(self, doing: int) -> int:
        """Notes what this rank does from now on; what it did before."""
        before, self._doing = self._doing, doing
        self._calls += doing == TOGETHER != before
        WORDS.pack_into(self._words, 0, self._process, self._calls, doing)
        return before


_own: Notes | None = None


def open_notes(rank: int) -> None:
    """Begins the notes of this process, if somebody watches."""
    global _own
    if folder := environment.value("DLVM_NOTES"):
        _own = Notes(Path(folder), rank)


def fail() -> None:
    """Notes that this rank ends all others."""
    if _own is not None:
        _own.change(FAILED)


@contextmanager
def noted(doing: int) -> Generator[None]:
    """Notes what this rank does inside."""
    if _own is None:
        yield
        return
    before = _own.change(doing)
    try:
        yield
    finally:
        _own.change(before)


def lives(folder: Path) -> list[Life]:
    """What the ranks of this machine have noted, in their order."""
    found = list[Life]()
    for path in folder.glob("rank-*"):
        words = path.read_bytes()
        if len(words) == WORDS.size:  # else it is just being made
            found.append(Life(int(path.name.partition("-")[2]), *WORDS.unpack(words)))
    return sorted(found, key=lambda life: life.rank)
