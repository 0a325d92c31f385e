"""Which of two sizes is larger for every value of their symbols: proofs that may fail, never lie.

Values of the symbols may refute a claim; else intervals show it, or calls are replaced by their
bounds, one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from .intervals import Range
from .polynomials import (
    Atom,
    Call,
    Dim,
    Expr,
    atom_bounds,
    atoms_of,
    bounds,
    call_of,
    canonical,
    divide_exactly,
    evaluate,
    is_call,
    symbol,
    terms_of,
    with_atoms,
)

_TRIED = ((0, 0), (1, 0), (3, 2), (9, -2), (100, 41), (900, -97))
"""Values of symbols that may refute a size: the one of the first, and how far the next ones lie."""
_DEEPEST = 8
"""Calls that a proof replaces one after the other, at most."""
_LONGEST = 512
"""Sizes that a proof looks at, at most: a size of a hundred calls would take it minutes."""
_PAIRS = 64
"""Pairs of calls, compared with one another, that are as much work as one size."""


def at_least(a: Dim, b: Dim, ranges: Mapping[str, Range] | None = None) -> bool:
    """Whether ``a >= b`` is proved for every value of the symbols; False if it is unproved.

    What is false for some values has no proof, which is only searched for if none of these is met.
    """
    d = a - b
    if bounds(d, ranges)[0] >= 0:
        return True
    if not isinstance(d, Expr) or _refuted(d, ranges or {}):
        return False
    return _counted_from_least(d, ranges or {}) or _Proof(ranges).never_negative(d, _DEEPEST)


def _counted_from_least(d: Expr, ranges: Mapping[str, Range]) -> bool:
    """Whether ``d >= 0`` shows where each factor is counted from its least value on.

    ``a*b + a + b + 1``, of ``a`` and ``b`` from -1 on, is the product of two that are not negative.
    """
    above: dict[str, Range] = {}
    values: dict[Atom, Dim] = {}
    for atom in atoms_of(d):
        least, most = atom_bounds(atom, ranges)
        if math.isinf(least):
            return False
        above[name := f"{atom} from {int(least)}"] = (0, most - least)
        values[atom] = symbol(name) + int(least)
    return bounds(with_atoms(d, values), above)[0] >= 0


def _refuted(d: Expr, ranges: Mapping[str, Range]) -> bool:
    """Whether a size is negative for one of some values of its symbols."""
    names = dict.fromkeys(d.names())
    for first, step in _TRIED:
        values: dict[str, int] = {}
        for i, name in enumerate(names):
            least, most = ranges.get(name, (0, math.inf))
            values[name] = int(min(max(first + step * i, least), most))
        if evaluate(d, values) < 0:
            return True
    return False


class _Proof:
    """Proves ``d >= 0`` by intervals, or by replacing one call after the other by its bounds."""

    def __init__(self, ranges: Mapping[str, Range] | None) -> None:
        self.ranges, self.left = ranges, _LONGEST

    def never_negative(self, d: Dim, effort: int) -> bool:
        """Whether it is found that ``d >= 0``.

        A call that occurs in no other call is replaced first, because the others may then cancel.
        Among those, a minimum or maximum of which both sides must satisfy the inequality is
        preferred, since replacing it by its sides loses nothing. If the proof fails with another
        call, a nested minimum or maximum of that kind is tried.
        """
        self.left -= 1
        if bounds(d, self.ranges)[0] >= 0:
            return True
        if effort == 0 or self.left <= 0:
            return False
        if (rest := self._without_factor(d)) is not None:
            return self.never_negative(rest, effort)
        calls = [(mono[0][0], k) for mono, k in terms_of(d) if is_call(mono)]
        if not calls:
            return False
        self.left -= len(calls) ** 2 // _PAIRS
        outermost = [
            (c, k) for c, k in calls if not any(c is not o and str(c) in str(o) for o, _ in calls)
        ]
        first = max(outermost, key=lambda found: (_splits(*found), len(str(found[0]))))
        if self._replaced(d, first, effort - 1):
            return True
        inner = next((found for found in calls if _splits(*found)), None)
        return not (inner is None or _splits(*first)) and self._replaced(d, inner, effort - 1)

    def _without_factor(self, d: Dim) -> Dim | None:
        """``x`` of ``a*x`` where the factor a is never negative: ``A*m - m*m`` is ``m*(A - m)``."""
        (first, _), *others = terms_of(d)
        for atom, _ in first:
            common = all(any(atom == a for a, _ in mono) for mono, _ in others)
            if common and atom_bounds(atom, self.ranges or {})[0] >= 0:
                return divide_exactly(d, canonical({((atom, 1),): 1}))
        return None

    def _replaced(self, d: Dim, found: tuple[Atom, int], effort: int) -> bool:
        """The same of a size in which a call, with its factor, is replaced by its bounds."""
        call, k = found
        assert isinstance(call, Call)
        rest = d - k * call_of(call.function, call.lhs, call.rhs)
        if call.function == "floordiv" and isinstance(call.rhs, int) and call.rhs > 0:
            bound = call.lhs - (call.rhs - 1) if k > 0 else call.lhs
            above = call.rhs - 1  # a multiple of n above -n is >= 0
            return self.never_negative(rest * call.rhs + k * bound + above, effort)
        if call.function == "mod" and k < 0 and self.never_negative(call.lhs, effort):
            return self.never_negative(rest + k * call.lhs, effort)  # x % n <= x for x >= 0
        if call.function not in ("min", "max"):
            return False
        each = all if _splits(call, k) else any
        return each(self.never_negative(rest + k * x, effort) for x in (call.lhs, call.rhs))


def _splits(atom: Atom, k: int) -> bool:
    """Whether ``k`` times a minimum or maximum is >= 0 only if that holds for both of its sides."""
    return isinstance(atom, Call) and atom.function == ("min" if k > 0 else "max")
