"""Taps: listeners for the values that a running call reports, and printing.

A tap in a program has a name only; the code around the call decides what happens to its values.
Without a listener the values are dropped. Listeners belong to the thread that makes the call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from .sharding.ranks import speaks
from .types import Array

Taps = dict[str, list[Array]]
Listener = Callable[[str, Array], None]
_listening: ContextVar[tuple[Listener, ...]] = ContextVar("listening", default=())


class Line(str):
    """A printed line, a label followed by a value, that remembers both."""

    label: str
    value: Array

    def __new__(cls, label: str, value: Array) -> Line:
        """The label directly followed by the value."""
        line = super().__new__(cls, f"{label}{value}")
        line.label, line.value = label, value
        return line


@contextmanager
def listening(listener: Listener) -> Generator[None]:
    """Inside the context, calls ``listener`` with a name and a copy of each reported value."""
    token = _listening.set((*_listening.get(), listener))
    try:
        yield
    finally:
        _listening.reset(token)


@contextmanager
def taps() -> Generator[Taps]:
    """Collects the values that calls inside the context report: a list for each name, in order."""
    found: Taps = defaultdict(list)
    with listening(lambda name, value: found[name].append(value)):
        yield found


def record(name: str, value: Array) -> None:
    """Passes a value to every listener, each with a copy of its own; of ranks the first does."""
    if not speaks():
        return
    for listener in _listening.get():
        listener(name, value.copy())


def say(text: str) -> None:
    """Prints a line at once, so that it is seen even if the process dies afterwards.

    Of the ranks of a mesh the first one does.
    """
    if speaks():
        print(text, flush=True)
