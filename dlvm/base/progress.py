"""Tells users what a long compile is doing, in the log ``dlvm.compile``.

A compile runs inside ``compiling``, and its stages call ``doing`` as often as they like. The first
line is written after a second, and each later one when the time since the start has doubled, so
that a compile of five minutes writes nine lines. Lines about large programs are warnings, which
Python shows by default; others are of the level INFO.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

FIRST = 1.0
"""Seconds after which the first line is written."""
LARGE_PROGRAM = 5000
"""Operations above which a program is large: its progress is shown by default."""


@dataclass
class _Compile:
    label: str
    start: float
    due: float


_running: ContextVar[_Compile | None] = ContextVar("dlvm_compiling", default=None)


@contextmanager
def compiling(label: str) -> Generator[None]:
    """Reports the stages inside as those of this function, unless a compile around it does."""
    if _running.get() is not None:
        yield
        return
    token = _running.set(_Compile(label, time.perf_counter(), FIRST))
    try:
        yield
    finally:
        _running.reset(token)


def doing(stage: str, operations: Callable[[], int]) -> None:
    """Writes a line about the running compile if one is due; counts operations only then."""
    compile = _running.get()
    if compile is None or (passed := time.perf_counter() - compile.start) < compile.due:
        return
    while compile.due <= passed:
        compile.due *= 2
    import logging  # takes long, and few compiles do

    count = operations()
    logging.getLogger("dlvm.compile").log(
        logging.WARNING if count >= LARGE_PROGRAM else logging.INFO,
        "compiling %s: %s, %s operations, %.0f s so far",
        *(compile.label, stage, f"{count:,}", passed),
    )
