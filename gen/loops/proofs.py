"""Proofs that an index stays in its bounds, for every value of the symbols.

What is known are the loops that are open (``0 <= var < extent``, and so ``extent >= 1``),
indices bound by construction, and guards. A claim ``d >= 0`` is reduced step by step: a variable
or quotient in it is replaced by the bound that makes d smallest, until an interval shows the
rest. The search is small and may fail on true claims; it never holds for a false one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from dlvm.ir import Dim, Expr
from dlvm.ir.sizes.dims import (
    Call,
    Monomial,
    Range,
    at_least,
    bounds,
    canonical,
    divide_exactly,
    floordiv,
    substitute,
    symbol,
    symbols,
)
from dlvm.ir.sizes.positions import recombine

from .counterexamples import is_false
from .index import step_of

SEARCH_STEPS, DEEPEST = 400, 50
FEW_STEPS = 20
"""Steps of a search after which it is asked whether there is a counterexample."""


Shown: TypeAlias = dict[tuple[Dim, int], bool]
"""Whether a size could be shown to be >= 0, in so many steps."""


@dataclass(slots=True)
class Facts:
    """What holds here: variables with their highest value, innermost last; sizes >= 0.

    All facts that are derived from the same ones share what was proven so far: most claims about
    a kernel are made of several pairs of its accesses.
    """

    highest: dict[str, Dim] = field(default_factory=dict[str, Dim])
    holds: tuple[Dim, ...] = ()
    proven: dict[Hashable, Shown] = field(
        default_factory=dict[Hashable, Shown], repr=False, compare=False
    )
    shown: Shown = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = (*self.highest.items(), *self.holds)
        self.shown = self.proven.setdefault(known, {})

    def with_variable(self, name: str, highest: Dim, *more: Dim) -> Facts:
        """Also ``0 <= name <= highest``, and these >= 0."""
        return Facts({**self.highest, name: highest}, self.holds, self.proven).given(*more)

    def given(self, *more: Dim) -> Facts:
        """Also these >= 0."""
        implied = (g for f in more for g in _implied(f))
        says = (f for f in (*self.holds, *more, *implied) if not isinstance(f, int) or f < 0)
        return Facts(self.highest, tuple(dict.fromkeys(says)), self.proven)

    def nonnegative(self, d: Dim, effort: int = SEARCH_STEPS) -> bool:
        """Whether ``d >= 0`` could be proven in so many steps, or that one never gets here."""
        found = self.shown.get((d, effort))
        if found is None:
            found = self.shown[d, effort] = self._can_be_shown(d, effort)
        return found

    def _can_be_shown(self, d: Dim, effort: int) -> bool:
        search = _Search(self, min(effort, FEW_STEPS))
        if any(bounds(f, search.ranges)[1] < 0 for f in self.holds) or search.holds(d):
            return True
        if (
            search.left
            or effort <= FEW_STEPS
            or is_false(d, (tuple(self.highest.items()), self.holds))
        ):
            return False
        return _Search(self, effort).holds(d)

    def upper(self, name: str) -> list[Dim]:
        """Known upper bounds of a variable, numbers last: what is around it says more."""
        own = [self.highest[name]] if name in self.highest else []
        found = own + [f + symbol(name) for f in self.holds if step_of(f, name) == -1]
        return sorted(found, key=lambda bound: isinstance(bound, int))

    def lower(self, name: str) -> list[Dim]:
        """Known lower bounds of a variable."""
        return [0, *(symbol(name) - f for f in self.holds if step_of(f, name) == 1)]

    def known(self, call: Call, side: int) -> Iterator[Dim]:
        """Bounds that guards give for a call: from below (1) or above (-1)."""
        for f in self.holds:
            if isinstance(f, Expr) and _factor(f, call) == side:
                yield _atom(call) - f if side == 1 else f + _atom(call)

    def ranges(self) -> dict[str, Range]:
        """Intervals of single symbols."""
        intervals: dict[str, Range] = {}
        for name, high in self.highest.items():
            intervals[name] = (0, high if isinstance(high, int) else math.inf)
        for f in self.holds:
            if isinstance(f, Expr) and len(names := set(symbols(f))) == 1:
                name = names.pop()
                low, high = intervals.get(name, (0.0, math.inf))
                rest = f - symbol(name)
                if isinstance(rest, int):
                    intervals[name] = (max(low, -rest), high)
        return intervals


def _implied(f: Dim) -> Iterator[Dim]:
    """``x//n <= c`` says ``x <= n*c + n - 1``, ``x//n >= c`` says ``x >= n*c``.

    Where a product of sizes is at least 1, so is each of them; where the smaller of two is at least
    a number, both are.
    """
    if not isinstance(f, Expr):
        return
    yield from _factors(f)
    for call in _calls(f):
        if call.function == "min" and _factor(f, call) == 1:
            yield from (f - _atom(call) + side for side in (call.lhs, call.rhs))
        if call.function == "floordiv" and (factor := _factor(f, call)) in (1, -1):
            rest = f - factor * _atom(call)
            if factor == -1:
                yield rest * call.rhs + call.rhs - 1 - call.lhs
            else:
                yield (whole := call.lhs + rest * call.rhs)
                yield from _implied(whole)


def _factors(f: Dim) -> Iterator[Dim]:
    """Each size that is at least 1 where a multiple of their product is."""
    match f.terms if isinstance(f, Expr) else ():
        case ((), rest), (mono, _) if rest < 0 and len(mono) > 1:
            pass
        case (mono, _), ((), rest) if rest < 0 and len(mono) > 1:
            pass
        case _:
            return
    yield from (symbol(a) - 1 for a, _ in mono if isinstance(a, str))


class _Search:
    def __init__(self, facts: Facts, effort: int) -> None:
        self.facts, self.ranges = facts, facts.ranges()
        self.left, self.deep = effort, 0
        self.failed: set[Dim] = set()
        self.products = tuple(f for f in facts.holds if _has_products(f))

    def holds(self, d: Dim) -> bool:
        d = recombine(d)
        if at_least(d, 0, self.ranges):
            return True
        if self.left <= 0 or self.deep == DEEPEST or d in self.failed or not isinstance(d, Expr):
            return False
        self.left -= 1
        self.deep += 1
        facts = self.products if self.is_steep(d) else self.facts.holds
        found = any(at_least(d - f, 0, self.ranges) for f in facts)
        found = found or any(all(map(self.holds, smaller)) for smaller in self.smaller(d))
        self.deep -= 1
        if not found:
            self.failed.add(d)
        return found

    def is_steep(self, d: Expr) -> bool:
        """Whether products of variables go below any number: then so they do beside sums."""
        products = canonical({mono: k for mono, k in d.terms if _degree(mono) > 1})
        inside = (_has_products(side) for call in _calls(d) for side in (call.lhs, call.rhs))
        return bounds(products, self.ranges)[0] == -math.inf and not any(inside)

    def smaller(self, d: Expr) -> Iterator[tuple[Dim, ...]]:
        """Ways to show d >= 0: each is claims that together imply it."""
        for name in reversed(self.facts.highest):
            slope = step_of(d, name) if name in symbols(d) else 0
            if slope is None or slope == 0:
                continue
            if at_least(slope, 0, self.ranges):
                limits = self.facts.lower(name)
            elif at_least(-slope, 0, self.ranges):
                limits = self.facts.upper(name)
            else:
                continue
            for bound in limits:
                if name not in symbols(bound):
                    yield (substitute(d, {name: bound}),)
        for call in sorted(_calls(d), key=lambda call: call.function in ("floordiv", "mod")):
            yield from self.without(d, call)

    def without(self, d: Expr, call: Call) -> Iterator[tuple[Dim, ...]]:
        """The same with a call replaced by its bounds; it must stand linearly."""
        factor = _factor(d, call)
        if factor is None:
            return
        rest = d - factor * _atom(call)
        if at_least(factor, 0, self.ranges):
            yield from self.with_least(rest, factor, call)
        elif at_least(-factor, 0, self.ranges):
            yield from self.with_most(rest, factor, call)

    def with_least(self, rest: Dim, factor: Dim, call: Call) -> Iterator[tuple[Dim, ...]]:
        """The call as small as it can be."""
        x, n = call.lhs, call.rhs
        yield from ((rest + factor * low,) for low in self.facts.known(call, 1))
        match call.function:
            case "min":
                yield rest + factor * x, rest + factor * n
            case "max":
                yield (rest + factor * x,)
                yield (rest + factor * n,)
            case "floordiv":
                if (part := _part(factor, n)) is not None:
                    yield (rest + part * (x - n + 1),)
                for low in self.limits(x, 1, 2):
                    yield (rest + factor * floordiv(low, n),)
                yield rest, x
            case _:
                yield (rest,)

    def with_most(self, rest: Dim, factor: Dim, call: Call) -> Iterator[tuple[Dim, ...]]:
        """The call as large as it can be."""
        x, n = call.lhs, call.rhs
        yield from ((rest + factor * high,) for high in self.facts.known(call, -1))
        match call.function:
            case "max":
                yield rest + factor * x, rest + factor * n
            case "min":
                yield (rest + factor * x,)
                yield (rest + factor * n,)
            case "floordiv":
                if (part := _part(factor, n)) is not None:
                    yield (rest + part * x,)
                if factor == -1:  # x//n <= r where x < (r + 1)*n
                    yield (rest + 1) * n - 1 - x, n - 1
                for top in self.limits(x, -1, 2):
                    whole = divide_exactly(top + 1, n)
                    quotient = floordiv(top, n) if whole is None else whole - 1
                    yield (rest + factor * quotient,)
            case _:
                yield (rest + factor * (n - 1),)
                yield rest + factor * x, x

    def limits(self, x: Dim, side: int, depth: int) -> Iterator[Dim]:
        """Bounds of an index from below (1) or above (-1), with fewer variables."""
        if not depth or not isinstance(x, Expr):
            return
        for name in (n for n in reversed(self.facts.highest) if n in symbols(x)):
            slope = step_of(x, name)
            if slope is None or not at_least(slope, 0, self.ranges):
                continue
            for limit in self.facts.lower(name) if side == 1 else self.facts.upper(name):
                if name not in symbols(limit):
                    bound = substitute(x, {name: limit})
                    yield bound
                    yield from self.limits(bound, side, depth - 1)
        for call in _calls(x):
            factor = _factor(x, call)
            if factor is not None and at_least(factor, 0, self.ranges):
                ends = call.function == ("max" if side == 1 else "min")
                for limit in (
                    *self.facts.known(call, side),
                    *((call.lhs, call.rhs) if ends else ()),
                ):
                    yield x + factor * (limit - _atom(call))


def _degree(mono: Monomial) -> int:
    return sum(power for _, power in mono)


def _has_products(d: Dim) -> bool:
    """Whether variables are multiplied in a size, or in a call in it."""
    if not isinstance(d, Expr):
        return False
    sides = (side for call in _calls(d) for side in (call.lhs, call.rhs))
    return any(_degree(mono) > 1 for mono, _ in d.terms) or any(map(_has_products, sides))


def _calls(d: Expr) -> list[Call]:
    return [a for mono, _ in d.terms for a, _ in mono if isinstance(a, Call)]


def _atom(call: Call) -> Expr:
    return Expr(((((call, 1),), 1),))


def _factor(d: Expr, call: Call) -> Dim | None:
    """What a call is multiplied by, where it stands only so."""
    found = [(mono, k) for mono, k in d.terms if any(a == call for a, _ in mono)]
    if any(p != 1 for mono, _ in found for a, p in mono if a == call):
        return None
    total: Dim = 0
    for mono, k in found:
        rest = tuple(pair for pair in mono if pair[0] != call)
        total = total + (Expr(((rest, k),)) if rest else k)
    return total


def _part(factor: Dim, n: Dim) -> Dim | None:
    """``factor / n`` where that is whole."""
    if isinstance(factor, int) and isinstance(n, int):
        return factor // n if n and factor % n == 0 else None
    part = floordiv(factor, n)
    return part if part * n == factor else None
