"""Cases of sizes: values of symbols for which what is open in general is known to hold.

``2*floordiv(h,2) == h`` holds for even ``h`` alone. Given a value of ``h`` for which it holds, this
module finds the case ``h = 2*h_1``, in which both sides have one normal form. A type in which the
case is substituted is checked by unification in each call, as all types are. The cases are the
remainders of divisions, bounds from below and from above, and symbols that are made of others.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from .dims import (
    Call,
    Dim,
    at_least,
    atoms_of,
    divide_exactly,
    evaluate,
    floordiv,
    minimum,
    substitute,
    symbol,
    symbols,
    terms_of,
)
from .equations import as_line, when_positive

DEEPEST = 16
"""Most symbols that are replaced one after the other for one equation."""
TRIED = 128
"""Most replacements that are tried for one equation."""
LONGEST = 64
"""Largest divisor whose remainders are cases."""


@dataclass(frozen=True)
class Case:
    """What symbols are in terms of others, and the values of those in one call.

    ``sizes`` has an expression for each symbol of the types that were given at first, ``values``
    the value of each symbol in these expressions.
    """

    sizes: Mapping[str, Dim]
    values: Mapping[str, int]

    @classmethod
    def of(cls, values: Mapping[str, int]) -> Case:
        """All values of these symbols, which have some now."""
        return cls({name: symbol(name) for name in values}, dict(values))

    def substituted(self, d: Dim) -> Dim:
        """A size of the types that were given, in this case."""
        return substitute(d, self.sizes)

    def now(self, d: Dim) -> int:
        """The value of a size in the present call."""
        return evaluate(d, self.values)

    def narrowed(self, name: str, replacement: Dim, values: Mapping[str, int]) -> Case:
        """The part of this case in which a symbol is made of others."""
        sizes = {n: substitute(d, {name: replacement}) for n, d in self.sizes.items()}
        left = {n: v for n, v in self.values.items() if n != name}
        return Case(sizes, {**left, **values})

    def fresh(self, name: str) -> str:
        """A symbol that is not used yet, named after another one."""
        base = name.rstrip("0123456789").rstrip("_")
        used = {*self.sizes, *self.values}
        return next(n for k in range(1, len(used) + 2) if (n := f"{base}_{k}") not in used)


_Step = tuple[str, Dim, Mapping[str, int]]
"""A symbol, what it is in terms of others, and the values of new ones."""


def where_equal(case: Case, a: Dim, b: Dim) -> Case | None:
    """The case in which two sizes that are equal now have one normal form, if there is one."""

    def steps(case: Case, d: Dim) -> Iterator[_Step]:
        step = _eliminated(case, d)
        return _decisions(case, d) if step is None else iter((step,))

    return _first(case, a, b, operator.eq, steps)


def where_at_least(case: Case, a: Dim, b: Dim) -> Case | None:
    """The case in which ``a >= b``, which holds now, is proved, if there is one."""

    def steps(case: Case, d: Dim) -> Iterator[_Step]:
        yield from _raised(case, d)
        yield from _decisions(case, d)

    return _first(case, a, b, at_least, steps)


def _first(
    case: Case,
    a: Dim,
    b: Dim,
    holds: Callable[[Dim, Dim], bool],
    steps: Callable[[Case, Dim], Iterator[_Step]],
) -> Case | None:
    """The first case in depth in which two sizes are shown to be related as they are now.

    If there is none, it is one in which some symbols have the values that they have now.
    """
    if not holds(case.now(a - b), 0):
        return None
    if holds(a, b):
        return case
    found = _searched(case, a, b, holds, steps)
    return _fixed(case, a, b, holds) if found is None else found


def _searched(
    case: Case,
    a: Dim,
    b: Dim,
    holds: Callable[[Dim, Dim], bool],
    steps: Callable[[Case, Dim], Iterator[_Step]],
) -> Case | None:
    pending = [(case, a, b, steps(case, a - b))]
    for _ in range(TRIED):
        if not pending:
            return None
        case, a, b, left = pending[-1]
        step = next(left, None)
        if step is None:
            pending.pop()
            continue
        case = case.narrowed(*step)
        a, b = (substitute(d, {step[0]: step[1]}) for d in (a, b))
        if holds(a, b):
            return case
        if len(pending) < DEEPEST:
            pending.append((case, a, b, steps(case, a - b)))
    return None


def _fixed(case: Case, a: Dim, b: Dim, holds: Callable[[Dim, Dim], bool]) -> Case | None:
    for name in sorted({n for c in _calls(a - b) for n in c.names()}):
        value = case.values[name]
        case = case.narrowed(name, value, {})
        a, b = (substitute(d, {name: value}) for d in (a, b))
        if holds(a, b):
            return case
    return None


def _eliminated(case: Case, d: Dim) -> _Step | None:
    """The symbol of which ``d == 0`` says what it is, in terms of the others.

    A factor of all terms that is not 0 now is left out.
    """
    for factor in atoms_of(d):
        if isinstance(factor, str) and case.values[factor]:
            whole = divide_exactly(d, symbol(factor))
            d = d if whole is None or isinstance(whole, int) else whole
    for name in sorted({*symbols(d)}):
        line = as_line(d, name)
        if line is not None and isinstance(line[0], int):
            found = divide_exactly(-line[1], line[0])
            if found is not None and at_least(found, 0):
                return name, found, {}
    return None


def _raised(case: Case, d: Dim) -> Iterator[_Step]:
    """Bounds of one symbol from which ``d >= 0`` follows; bounds from below come first."""
    lines = [(name, line) for name in sorted({*symbols(d)}) if (line := as_line(d, name))]
    for name, (factor, rest) in lines:
        if factor == 1 and at_least(-rest, 0):
            yield _from(case, name, -rest)
        elif isinstance(factor, int) and isinstance(rest, int) and factor > 0:
            yield _from(case, name, -(rest // factor))
    for name, (least, _) in when_positive(d + 1).items():
        if name in case.values and 0 < least <= case.values[name]:
            yield _from(case, name, int(least))
    for name, (factor, rest) in lines:
        if isinstance(factor, int) and factor < 0 and at_least(rest, 0):
            new = case.fresh(name)
            most = floordiv(rest, -factor)
            yield name, minimum(most, symbol(new)), {new: case.values[name]}


def _from(case: Case, name: str, least: Dim) -> _Step:
    new = case.fresh(name)
    return name, symbol(new) + least, {new: case.values[name] - case.now(least)}


def _decisions(case: Case, d: Dim) -> Iterator[_Step]:
    """Replacements of a symbol by which a call in ``d`` has a polynomial form.

    A bound leaves more sizes open than a remainder, and so comes first.
    """
    calls = [*_calls(d)]
    sides = [step for c in calls if c.function in ("min", "max") for step in _side(case, c)]
    rests = [
        step for c in calls if c.function in ("floordiv", "mod") for step in _remainder(case, c)
    ]
    for step in (*sides, *rests):
        if substitute(d, {step[0]: step[1]}) != _renamed(d, step):
            yield step


def _renamed(d: Dim, step: _Step) -> Dim:
    """``d`` with a new name for the symbol: what a step gives that decides nothing."""
    return substitute(d, {step[0]: symbol(next(iter(step[2]), step[0]))})


def _calls(d: Dim) -> Iterator[Call]:
    for mono, _ in terms_of(d):
        for atom, _ in mono:
            if isinstance(atom, Call):
                yield from _calls(atom.lhs)
                yield from _calls(atom.rhs)
                yield atom


def _remainder(case: Case, call: Call) -> Iterator[_Step]:
    """``s = p*t + r`` of which ``floordiv(k*s + c, n)`` and ``mod(k*s + c, n)`` are lines."""
    n = call.rhs
    if not isinstance(n, int) or not 1 < n <= LONGEST:
        return
    for name in sorted({*symbols(call.lhs)}):
        line = as_line(call.lhs, name)
        if line is None or not isinstance(line[0], int) or line[0] % n == 0:
            continue
        period = n // math.gcd(line[0], n)
        value, new = case.values[name], case.fresh(name)
        yield name, period * symbol(new) + value % period, {new: value // period}


def _side(case: Case, call: Call) -> Iterator[_Step]:
    """Bounds of a symbol by which one side of a minimum or maximum is known to be the one."""
    a, b = call.lhs, call.rhs
    if isinstance(b, int):  # the open side is the one to take where both are equal
        a, b = b, a
    above, below = case.now(a), case.now(b)
    larger = below > above or (below == above and call.function == "max")
    return _raised(case, b - a if larger else a - b)
