"""Which sizes the symbols of a function have, given the types that it is called with.

One mechanism for a run (sizes are numbers) and for a call inside a program (sizes are
expressions in the caller's symbols). Each equation with one unknown that stands linearly is
solved; the others wait until enough is known. An error names the equation that fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.base.errors import ShapeError

from .dims import Dim, Expr, as_line, solve, substitute, symbol, symbols
from .types import TensorType


def unify(
    params: Sequence[TensorType], given: Sequence[TensorType], names: Sequence[str] = ()
) -> dict[str, Dim]:
    """The size of each symbol of ``params`` with which they are the types given."""
    if len(params) != len(given):
        raise ShapeError(f"expected {len(params)} arguments, found {len(given)}")
    labels = names or [f"argument {i}" for i in range(len(params))]
    known: dict[str, Dim] = {}
    told: dict[str, str] = {}
    waiting: list[_Equation] = []
    for label, p, g in zip(labels, params, given, strict=True):
        if p.dtype != g.dtype or p.rank != g.rank:
            raise ShapeError(f"{label}: expected {p}, found {g}")
        waiting += [_Equation(label, p, axis, size) for axis, size in enumerate(g.shape)]
    while waiting:
        left = [equation for equation in waiting if not equation.settle(known, told)]
        if len(left) == len(waiting):
            raise ShapeError(
                f"{left[0].label}: the sizes in {left[0].type} can't be solved for their symbols"
            )
        waiting = left
    return known


def solvable(types: Sequence[TensorType]) -> set[str]:
    """The symbols that any sizes of these types tell: those that stand linearly, one at a time."""
    sizes = [d for t in types for d in t.shape if isinstance(d, Expr)]
    known: set[str] = set()
    while True:
        unknown = [(d, set(symbols(d)) - known) for d in sizes]
        new = {s for d, left in unknown if len(left) == 1 for s in left if _is_line(d, s)}
        if not new:
            return known
        known |= new


def _is_line(d: Dim, name: str) -> bool:
    found = as_line(d, name)
    return found is not None and isinstance(found[0], int)


class _Equation:
    """One axis of one parameter has the size given; the symbols of both sides are strangers."""

    def __init__(self, label: str, type_: TensorType, axis: int, size: Dim) -> None:
        self.label, self.type, self.axis, self.size = label, type_, axis, size

    def settle(self, known: dict[str, Dim], told: dict[str, str]) -> bool:
        """Check it, or learn a symbol from it; False while that takes more symbols.

        ``told`` says which axis of which parameter told each symbol.
        """
        pattern = self.type.shape[self.axis]
        unknown = {s for s in symbols(pattern) if s not in known}
        if len(unknown) > 1:
            return False
        found: Dim | None = None
        strange = {s: symbol(f"?{s}") for s in unknown}
        rest = substitute(pattern, {**known, **strange})
        if not unknown:
            found = rest if rest == self.size else None
        for name in unknown:
            if as_line(rest, f"?{name}") is None:
                return False
            found = solve(rest, self.size, f"?{name}")
            if found is not None:
                known[name], told[name] = found, f"axis {self.axis} of {self.label}, {self.type}"
        if found is None:
            sides = (pattern, self.size)
            notes = tuple(f"{s} = {known[s]}: {told[s]}" for s in symbols(pattern) if s in told)
            raise ShapeError(
                self.violated(known), remedy=self._remedy(), notes=notes[:2], sides=sides
            )
        return True

    def _remedy(self) -> str | None:
        if not isinstance(self.type.shape[self.axis], Expr):
            return None
        return "equal letters are equal sizes: write another one if they differ"

    def violated(self, known: dict[str, Dim]) -> str:
        """What this axis must be, and what it is."""
        pattern = self.type.shape[self.axis]
        values = ", ".join(f"{k} = {v}" for k, v in sorted(known.items()))
        where = f" where {values}" if isinstance(pattern, Expr) and values else ""
        axis = f"{self.label}: axis {self.axis} of {self.type}"
        return f"{axis} must be {pattern}{where}, found {self.size}"
