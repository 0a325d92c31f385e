"""Every local decision of a pass is asked for before it is carried out.

Nobody listens as a rule. Whoever looks for the guilty one lets a pass decide only so often, and
finds by halving how often it takes until the answer changes (LLVM calls it ``opt-bisect-limit``).
A pass that is refused leaves what it asked about as it is, and its program remains a program.
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

    ``values`` take the place of the results of a single one, where it is replaced; ``told`` says
    in words what else is done.
    """

    law: Callable[..., Any]
    ops: tuple[Op, ...]
    values: tuple[Value, ...] | None = None
    told: str = ""


Overseer = Callable[[Decision], bool]
"""Is asked before each decision; those that it refuses don't happen."""
_overseer: ContextVar[Overseer | None] = ContextVar("overseer", default=None)


@contextmanager
def overseen(by: Overseer | None) -> Generator[None]:
    """While it lasts ``by`` is asked; None listens to nobody, inside of what was allowed."""
    token = _overseer.set(by)
    try:
        yield
    finally:
        _overseer.reset(token)


def listens() -> bool:
    """Whether anybody is asked."""
    return _overseer.get() is not None


def allowed(law: Callable[..., Any], ops: Iterable[Op], told: str = "") -> bool:
    """Whether a pass may do what it is about to do with some operations."""
    overseer = _overseer.get()
    return overseer is None or overseer(Decision(law, tuple(ops), None, told))


def may_replace(law: Callable[..., Any], op: Op, values: Iterable[Value]) -> bool:
    """Whether an operation may be replaced by other values."""
    overseer = _overseer.get()
    return overseer is None or overseer(Decision(law, (op,), tuple(values)))
