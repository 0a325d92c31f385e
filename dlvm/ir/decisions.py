"""Oversight of passes: every local decision of a pass is submitted before it is carried out.

Normally there is no overseer, and everything is allowed. To find the decision that makes a program
wrong, an overseer allows only the first n decisions, and bisects n until the answer changes, as
LLVM's ``opt-bisect-limit`` does. A pass whose decision is refused leaves those operations as they
are, and its result is still a correct program.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .core import Op, Value


@dataclass(frozen=True, slots=True)
class Decision:
    """What a law or a pass is about to do with some operations.

    ``values`` are the replacements of the results, if a single operation is replaced; ``told``
    describes any other change in words, or what the replacement saves.
    """

    law: Callable[..., Any]
    ops: tuple[Op, ...]
    values: tuple[Value, ...] | None = None
    told: str = ""


Overseer = Callable[[Decision], bool]
"""Called before each decision; returns whether it may be carried out."""
_overseer: ContextVar[Overseer | None] = ContextVar("overseer", default=None)


@contextmanager
def overseen(by: Overseer | None) -> Generator[None]:
    """Inside the context ``by`` is asked before each decision; None allows everything again."""
    token = _overseer.set(by)
    try:
        yield
    finally:
        _overseer.reset(token)


def listens() -> bool:
    """Whether there is an overseer."""
    return _overseer.get() is not None


def allowed(law: Callable[..., Any], ops: Iterable[Op], told: str = "") -> bool:
    """Whether a pass may make a change to these operations."""
    overseer = _overseer.get()
    return overseer is None or overseer(Decision(law, tuple(ops), None, told))


def may_replace(law: Callable[..., Any], op: Op, values: Iterable[Value], told: str = "") -> bool:
    """Whether an operation may be replaced by these values; ``told`` says what for."""
    overseer = _overseer.get()
    return overseer is None or overseer(Decision(law, (op,), tuple(values), told))
