"""Who listens to the values that a call gives out on its way, and how they are printed.

A tap in a program is a name; what happens to its values is said where the program is called.
Without a listener they go nowhere. Listeners are those of the thread that makes the call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from .types import Array

Taps = dict[str, list[Array]]
Listener = Callable[[str, Array], None]
_listening: ContextVar[tuple[Listener, ...]] = ContextVar("listening", default=())


class Line(str):
    """A line that is printed: a label, then a value, which it remembers."""

    label: str
    value: Array

    def __new__(cls, label: str, value: Array) -> Line:
        """The label and the value beside one another."""
        line = super().__new__(cls, f"{label}{value}")
        line.label, line.value = label, value
        return line


@contextmanager
def listening(listener: Listener) -> Generator[None]:
    """Tell somebody the name and a copy of each value that calls made inside give out."""
    token = _listening.set((*_listening.get(), listener))
    try:
        yield
    finally:
        _listening.reset(token)


@contextmanager
def taps() -> Generator[Taps]:
    """Collect what calls made inside give out: for each name the values, in their order."""
    found: Taps = defaultdict(list)
    with listening(lambda name, value: found[name].append(value)):
        yield found


def record(name: str, value: Array) -> None:
    """Tell everybody who listens, each with a copy of its own."""
    for listener in _listening.get():
        listener(name, value.copy())


def say(text: str) -> None:
    """Print a line that is seen whatever happens next."""
    print(text, flush=True)
