"""``dlvm.debug``: what is looked at while programs run, and in which calls.

It is said by a context (``with dlvm.debug(nans=True):``), by a function's own ``debug=`` or by
``DLVM_CHECK``; what several of them ask for is all looked at. Nothing here looks at anything.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass

from dlvm.base import environment

from .errors import UserError

NAMES = ("nans", "infs", "bounds")


@dataclass(frozen=True, slots=True)
class Looks:
    """Results without NaN, results without infinities, every access to memory."""

    nans: bool = False
    infs: bool = False
    bounds: bool = False

    @staticmethod
    def named(names: tuple[str, ...], option: str) -> Looks:
        """The looks of these names."""
        for name in names:
            if name not in NAMES:
                raise UserError(
                    f"{option}: there is nothing called {name!r} to look for",
                    remedy=f"it can be {', '.join(NAMES)}",
                )
        return Looks(*(n in names for n in NAMES))

    def __or__(self, other: Looks) -> Looks:
        return Looks(self.nans or other.nans, self.infs or other.infs, self.bounds or other.bounds)

    @property
    def at_numbers(self) -> bool:
        """Whether results are looked at."""
        return self.nans or self.infs


NOTHING = Looks()
contexts: list[object] = []
"""Every context that some thread is in: calls take no short cuts while there is one."""
_active: ContextVar[tuple[debug, ...]] = ContextVar("dlvm_looks", default=())


class debug:
    """Look at what programs do: ``with dlvm.debug(nans=True): step(x)``.

    ``nans`` and ``infs`` say which operation first made a NaN or an infinity that a result shows,
    with its line and the range of its operands. Programs run as under ``numerics="strict"``
    meanwhile, so that no law hides such a number; they are compiled again for that. ``bounds``
    compiles programs in which every access to memory is checked. A thread that is started inside
    looks where it is given the context:
    ``Thread(target=contextvars.copy_context().run, args=(work,))``.
    """

    def __init__(self, *, nans: bool = False, infs: bool = False, bounds: bool = False) -> None:
        self.looks = Looks(nans, infs, bounds)
        self._tokens: list[Token[tuple[debug, ...]]] = []

    def __enter__(self) -> debug:
        self._tokens.append(_active.set((*_active.get(), self)))
        contexts.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        contexts.remove(self)
        _active.reset(self._tokens.pop())


def _around() -> Looks:
    """What the contexts look at that are around this call, and still open."""
    found = NOTHING
    for context in _active.get():
        if context in contexts:  # one that was given to a thread may have been left since
            found = found | context.looks
    return found


def looks(own: tuple[str, ...] = ()) -> Looks:
    """What is looked at in a call of a function with these names in its ``debug=``."""
    said = environment.value("DLVM_CHECK")
    found = _around() | Looks.named(own, "debug=") if own else _around()
    if not said:
        return found
    names = tuple(n.strip() for n in said.split(",") if n.strip())
    return found | Looks.named(names, "DLVM_CHECK")
