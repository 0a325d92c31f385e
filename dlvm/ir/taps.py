"""Who listens to the values that a call gives out on its way, and how they are printed.

A tap in a program is a name; what happens to its values is said where the program is called.
Without a listener they go nowhere. Listeners are those of the thread that makes the call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from .types import Array

Taps = dict[str, list[Array]]
_listening: ContextVar[tuple[Taps, ...]] = ContextVar("listening", default=())


@contextmanager
def taps() -> Generator[Taps]:
    """Collect what calls made inside give out: for each name the values, in their order."""
    found: Taps = defaultdict(list)
    token = _listening.set((*_listening.get(), found))
    try:
        yield found
    finally:
        _listening.reset(token)


def record(name: str, value: Array) -> None:
    """Tell everybody who listens, each with a copy of its own."""
    for listener in _listening.get():
        listener[name].append(value.copy())


def say(text: str) -> None:
    """Print a line that is seen whatever happens next."""
    print(text, flush=True)
