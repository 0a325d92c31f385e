"""Unification: the sizes of a function's symbols, from the types of its arguments.

The same code serves a run, in which sizes are numbers, and a call inside a program, in which sizes
are expressions in the caller's symbols. An equation with one unknown, in which that unknown is
linear, is solved; the other equations wait until enough symbols are known. An error names the
equation that fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.base.errors import ShapeError

from .sizes.dims import Dim, Expr, substitute, symbol, symbols
from .sizes.equations import as_clamped, as_line, is_solvable, solve
from .types import TensorType


def unify(
    params: Sequence[TensorType], given: Sequence[TensorType], names: Sequence[str] = ()
) -> dict[str, Dim]:
    """The size of each symbol of ``params`` for which the parameter types equal the types given."""
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
        if len(left) == len(waiting):  # a minimum says less than any other equation
            clamped = next((e for e in waiting if e.settle(known, told, clamped=True)), None)
            left = [equation for equation in waiting if equation is not clamped]
        if len(left) == len(waiting):
            raise ShapeError(
                f"{left[0].label}: the symbols in {left[0].type} can't be determined",
                remedy="add a parameter whose shape has each of these symbols as a size of its own",
            )
        waiting = left
    return known


def solvable(types: Sequence[TensorType]) -> set[str]:
    """The symbols that arguments of these types determine.

    Each is determined by an equation that is linear in it, or in a minimum that holds it.
    """
    sizes = [d for t in types for d in t.shape if isinstance(d, Expr)]
    known: set[str] = set()
    while True:
        unknown = [(d, set(symbols(d)) - known) for d in sizes]
        new = {s for d, left in unknown if len(left) == 1 for s in left if _is_line(d, s)}
        if not new:
            return known
        known |= new


def _is_line(d: Dim, name: str) -> bool:
    clamp = as_clamped(d, name)
    if clamp is not None:
        return _is_line(clamp[0], name)
    found = as_line(d, name)
    return found is not None and isinstance(found[0], int)


class _Equation:
    """The equation of one axis of a parameter with its given size.

    Symbols of the two sides are different even if they have the same name.
    """

    def __init__(self, label: str, type_: TensorType, axis: int, size: Dim) -> None:
        self.label, self.type, self.axis, self.size = label, type_, axis, size

    def settle(self, known: dict[str, Dim], told: dict[str, str], *, clamped: bool = False) -> bool:
        """Checks the equation or solves it for its symbol; False if it has several unknowns.

        Only with ``clamped`` is it solved for a symbol in a minimum. ``told`` records for each
        symbol the axis and parameter that determined it.
        """
        pattern = self.type.shape[self.axis]
        unknown = {s for s in symbols(pattern) if s not in known}
        if len(unknown) > 1:
            return False
        solution: Dim | None = None
        strange = {s: symbol(f"?{s}") for s in unknown}
        rest = substitute(pattern, {**known, **strange})
        if not unknown:
            solution = rest if rest == self.size else None
        for name in unknown:
            if not is_solvable(rest, f"?{name}", clamped=clamped):
                return False
            solution = solve(rest, self.size, f"?{name}")
            if solution is not None:
                known[name], told[name] = solution, f"axis {self.axis} of {self.label}, {self.type}"
        if solution is None:
            sides = (pattern, self.size)
            notes = tuple(f"{s} = {known[s]}: {told[s]}" for s in symbols(pattern) if s in told)
            raise ShapeError(
                self.violated(known), remedy=self._remedy(), notes=notes[:2], sides=sides
            )
        return True

    def _remedy(self) -> str | None:
        if not isinstance(self.type.shape[self.axis], Expr):
            return None
        return "a letter means one size everywhere: use another letter for a size that differs"

    def violated(self, known: dict[str, Dim]) -> str:
        """The message that says what this axis must be and what it is."""
        pattern = self.type.shape[self.axis]
        values = ", ".join(f"{k} = {v}" for k, v in sorted(known.items()))
        where = f" where {values}" if isinstance(pattern, Expr) and values else ""
        axis = f"{self.label}: axis {self.axis} of {self.type}"
        return f"{axis} must be {pattern}{where}, found {self.size}"
