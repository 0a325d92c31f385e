"""``dlvm.debug``: which numeric and memory checks are requested, and in which calls.

Checks are requested by a context (``with dlvm.debug(nans=True):``), by a function's own ``debug=``
or by ``DLVM_CHECK``; a call runs all of those requested. This file only records the requests.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from dataclasses import dataclass

from dlvm.base import environment

from .errors import UserError

NAMES = ("nans", "infs", "bounds", "assumptions")


@dataclass(frozen=True, slots=True)
class Looks:
    """The requested checks: for NaN in results, infinities, accesses out of bounds, assumptions."""

    nans: bool = False
    infs: bool = False
    bounds: bool = False
    assumptions: bool = False

    @staticmethod
    def named(names: tuple[str, ...], option: str) -> Looks:
        """The checks with these names."""
        for name in names:
            if name not in NAMES:
                raise UserError(
                    f"{option}: expected {', '.join(NAMES)}, found {name!r}",
                    remedy=f"name one or more of {', '.join(NAMES)}",
                )
        return Looks(*(n in names for n in NAMES))

    def __or__(self, other: Looks) -> Looks:
        return Looks(*(getattr(self, n) or getattr(other, n) for n in NAMES))

    @property
    def at_numbers(self) -> bool:
        """Whether results are checked for NaN or infinities."""
        return self.nans or self.infs

    @property
    def at_values(self) -> bool:
        """Whether a call looks at arguments or results, and takes no short cut."""
        return self.at_numbers or self.assumptions


NOTHING = Looks()
contexts: list[object] = []
"""The contexts that any thread is in; while there is one, calls take no fast path."""
_references: ContextVar[bool] = ContextVar("dlvm_references", default=False)
by_references = _references.get
"""Whether ``dlvm.debug(references=True)`` is around this call."""
_active: ContextVar[tuple[debug, ...]] = ContextVar("dlvm_looks", default=())


class debug:
    """Look at what programs do: ``with dlvm.debug(nans=True): step(x)``.

    ``nans`` and ``infs`` say which operation first made a NaN or an infinity that a result shows,
    with its line and the range of its operands. Programs run as under ``numerics="strict"``
    meanwhile, so that no law hides such a number; they are compiled again for that. ``bounds``
    compiles programs in which every access to memory is checked. ``assumptions`` checks what
    ``dlvm.assume`` states of matrices. ``references`` computes calls of public functions outside of
    staged functions step by step, by the NumPy references of their operations, and with no
    compiled program; what is staged, by ``dlvm.function`` or by a transformation such as
    ``dlvm.grad``, runs as it does otherwise. A thread that is started inside looks where it is
    given the context:
    ``Thread(target=contextvars.copy_context().run, args=(work,))``.
    """

    def __init__(
        self,
        *,
        nans: bool = False,
        infs: bool = False,
        bounds: bool = False,
        assumptions: bool = False,
        references: bool = False,
    ) -> None:
        self.looks = Looks(nans, infs, bounds, assumptions)
        self._by_references = references
        self._tokens: list[tuple[Token[tuple[debug, ...]], Token[bool]]] = []

    def __enter__(self) -> debug:
        active = _active.set((*_active.get(), self))
        asked = _references.set(_references.get() or self._by_references)
        self._tokens.append((active, asked))
        if self.looks != NOTHING:
            contexts.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self.looks != NOTHING:
            contexts.remove(self)
        active, asked = self._tokens.pop()
        _references.reset(asked)
        _active.reset(active)


def _around() -> Looks:
    """The checks of the contexts around this call that are still open."""
    found = NOTHING
    for context in _active.get():
        if context in contexts:  # a context copied to a thread may have been left since
            found = found | context.looks
    return found


def looks(own: tuple[str, ...] = ()) -> Looks:
    """The checks for a call of a function with these names in its ``debug=``."""
    said = environment.value("DLVM_CHECK")
    found = _around() | Looks.named(own, "debug=") if own else _around()
    if not said:
        return found
    names = tuple(n.strip() for n in said.split(",") if n.strip())
    return found | Looks.named(names, "DLVM_CHECK")
