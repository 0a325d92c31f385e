"""Tells users what a long compile is doing, in the log ``dlvm.compile``.

A compile runs inside ``compiling``, and its stages call ``doing`` as often as they like. The first
line is written after a second, and each later one when the time since the start has doubled, so
that a compile of five minutes writes nine lines. Lines about large programs are warnings, which
Python shows by default; others are of the level INFO. At a terminal and in a notebook one line
on the standard error takes their place: it says the stage and the seconds, and is erased.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from . import environment
from .notes import COMPILING, noted

FIRST = 1.0
"""Seconds after which the first line is written."""
SHOWN_AFTER, AGAIN = 2.0, 0.5
"""Seconds after which the line of a terminal is shown, and after which it is written again."""
LARGE_PROGRAM = 5000
"""Operations above which a program is large: its progress is shown by default."""


@dataclass
class _Compile:
    label: str
    start: float
    due: float
    stage: str = "tracing"


_running: ContextVar[_Compile | None] = ContextVar("dlvm_compiling", default=None)


@contextmanager
def compiling(label: str) -> Generator[None]:
    """Reports the stages inside as those of this function, unless a compile around it does."""
    if _running.get() is not None:
        yield
        return
    compile = _Compile(label, time.perf_counter(), FIRST)
    token, line = _running.set(compile), _Line(compile) if shows_line() else None
    try:
        with noted(COMPILING):
            yield
    finally:
        _running.reset(token)
        if line is not None:
            line.end()


def shows_line() -> bool:
    """Whether a line about a long compile is wanted: at a terminal or in a notebook."""
    stream = sys.stderr
    if stream is None or environment.value("DLVM_PROGRESS") == "0":  # pyright: ignore[reportUnnecessaryComparison]  # None if it was closed
        return False
    with contextlib.suppress(ValueError, OSError):
        return stream.isatty() or "ipykernel" in sys.modules
    return False


class _Line:
    """A line on the standard error while a compile runs, which is erased at its end.

    A thread writes it, so that it also counts the seconds of a stage that takes long.
    """

    def __init__(self, compile: _Compile) -> None:
        import threading

        self.compile, self.shown = compile, 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, name="dlvm progress", daemon=True)
        self.thread.start()

    def end(self) -> None:
        """Erases the line."""
        self.ended.set()
        self.thread.join()
        if self.shown:
            self._write("")
            self._write("")

    def _run(self) -> None:
        wait = SHOWN_AFTER
        while not self.ended.wait(wait):
            passed, wait = time.perf_counter() - self.compile.start, AGAIN
            self._write(f"compiling {self.compile.label}: {self.compile.stage}, {passed:.0f} s")

    def _write(self, text: str) -> None:
        """Writes over what is there: in a notebook, spaces are all that erases."""
        with contextlib.suppress(ValueError, OSError):
            sys.stderr.write(f"\r{text.ljust(self.shown)}")
            sys.stderr.flush()
        self.shown = len(text)


def doing(stage: str, operations: Callable[[], int]) -> None:
    """Writes a line about the running compile if one is due; counts operations only then."""
    compile = _running.get()
    if compile is None:
        return
    compile.stage = stage
    if (passed := time.perf_counter() - compile.start) < compile.due:
        return
    while compile.due <= passed:
        compile.due *= 2
    import logging  # takes long, and few compiles do

    logger = logging.getLogger("dlvm.compile")
    if shows_line() and not logger.hasHandlers():
        return  # the line says it
    count = operations()
    logger.log(
        logging.WARNING if count >= LARGE_PROGRAM else logging.INFO,
        "compiling %s: %s, %s operations, %.0f s so far",
        *(compile.label, stage, f"{count:,}", passed),
    )
