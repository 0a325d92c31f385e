"""Starts ranks, and starts them again after one was killed, with as many as are left."""

from __future__ import annotations

import itertools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from .logs import Logs
from .starts import Started


@dataclass(frozen=True)
class Ranks:
    """How many ranks are wanted: at least and at most."""

    least: int
    most: int

    def within(self, count: int) -> int:
        """The number nearest to one that there is room for."""
        return max(self.least, min(self.most, count))


def launched(job: Started, ranks: Ranks, restarts: int, folder: Path | None) -> int:
    """Runs a job to its end, started again at most so many times; returns its exit code."""
    count = ranks.within(job.place.room())
    for restart in itertools.count():
        again = f"restart {restart} of {restarts}: " if restart else ""
        name = os.path.basename(job.script)
        say(f"{again}{count} rank{'s' * (count > 1)} of {name}")
        logs = Logs(folder) if folder else None
        end = job.run(count, logs)
        if end.why:
            say(end.why)
        if logs and end.rank is not None:
            say(logs.tail(end.rank))
        if not end.dies or restart == restarts:
            return end.code
        count = ranks.within(job.place.left(count))
    raise AssertionError


def say(text: str) -> None:
    """Tells the user something between what the ranks write."""
    print(f"dlvm launch: {text}", file=sys.stderr, flush=True)
