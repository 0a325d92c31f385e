"""The indices of a proof: their ranges, indices that are data, substitution and inequalities.

Names say what an index is, and sort in this order: ``%b`` bound by a sum, ``%i`` of the element
that is looked at, ``%l`` of a function of whole arrays, ``<`` an index that is read from an array.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dlvm.gen.loops.index import step_of
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import (
    Call,
    Range,
    at_least,
    bounds,
    canonical,
    divide_exactly,
    maximum,
    minimum,
    product,
    substitute,
    symbol,
    symbols,
    terms_of,
)
from dlvm.ir.sizes.dims import floordiv as divided_by
from dlvm.ir.sizes.dims import mod as rest_of
from dlvm.ir.sizes.equations import when_positive
from dlvm.ir.sizes.positions import recombine

from .terms import MOST, Factor, Form, Term, TooLong, shown

Values = Mapping[str, Dim]
UNKNOWN: Range = (-math.inf, math.inf)
ELEMENT = "%i"


class Scope:
    """The extents of indices, each of which is at least 0 and below its extent, and data."""

    def __init__(self) -> None:
        self.extents: dict[str, Dim] = {}
        self.data: dict[str, tuple[Form, str, Range]] = {}

    def fresh(self, extent: Dim) -> str:
        """A new bound index."""
        return self.index(f"%b.{len(self.extents)}", extent)

    def index(self, name: str, extent: Dim) -> str:
        """An index with this name."""
        self.extents[name] = extent
        return name

    def position(self, name: str) -> Dim:
        """The index itself; 0 along an axis of one element."""
        return 0 if self.extents[name] == 1 else symbol(name)

    def read(self, form: Form, how: str, within: Range) -> Dim:
        """An index that is data: the value of a form, made an index in this way."""
        name = f"<{shown(form)}|{how}>"
        self.data[name] = (form, how, within)
        return symbol(name)

    def height(self, part: Dim | Factor) -> int:
        """How deep forms are nested; names of bound indices hold it, so that none is taken."""
        if isinstance(part, Factor):
            inside = (
                1 + self.height(f) for form in part.arguments for t in form for f in t.factors
            )
            return max((*inside, *map(self.height, part.index)), default=0)
        forms = (self.data[n][0] for n in symbols(part) if n in self.data)
        inside = (1 + self.height(f) for form in forms for t in form for f in t.factors)
        return max(inside, default=0)

    # -- substitution -----------------------------------------------------------------------------

    def names(self, part: Dim | Factor | Form) -> set[str]:
        """The indices in a part of a form, bound ones and those in data included."""
        if isinstance(part, tuple):
            return set[str]().union(*(self.names(f) for t in part for f in t.factors))
        if isinstance(part, Factor):
            inside = (self.names(x) for x in (*part.index, *part.arguments))
            return set[str]().union(*inside)
        found = set(symbols(part))
        return found.union(*(self.names(self.data[n][0]) for n in found if n in self.data))

    def put(self, d: Dim, values: Values) -> Dim:
        """An index expression after substitution, in data as well."""
        read = {n: self._put_in_data(n, values) for n in set(symbols(d)) if n in self.data}
        return substitute(d, {**values, **read})

    def _put_in_data(self, name: str, values: Values) -> Dim:
        form, how, within = self.data[name]
        if self.names(form).isdisjoint(values):
            return values.get(name, symbol(name))
        return self.read(self.put_in_form(form, values), how, within)

    def put_in_factor(self, f: Factor, values: Values) -> Factor:
        """A factor after substitution."""
        index = tuple(self.put(d, values) for d in f.index)
        return replace(
            f, index=index, arguments=tuple(self._argument(a, values) for a in f.arguments)
        )

    def _argument(self, form: Form, values: Values) -> Form:
        return form if self.names(form).isdisjoint(values) else self.put_in_form(form, values)

    def put_in_form(self, form: Form, values: Values) -> Form:
        """A form after substitution; bound indices keep their names."""
        return tuple(
            replace(t, factors=tuple(self.put_in_factor(f, values) for f in t.factors))
            for t in form
        )

    def multiply(self, x: Form, y: Form) -> Form:
        """The product of two forms; indices that both bind are renamed in the second."""
        if len(x) * len(y) > MOST:
            raise TooLong
        return tuple(self._product(a, b) for a in x for b in y)

    def _product(self, a: Term, b: Term) -> Term:
        new = {n: self.fresh(self.extents[n]) for n in b.bound if n in a.bound}
        values = {n: symbol(m) for n, m in new.items()}
        factors = tuple(self.put_in_factor(f, values) for f in b.factors) if new else b.factors
        bound = tuple(new.get(n, n) for n in b.bound)
        return Term(a.coefficient * b.coefficient, a.factors + factors, a.bound + bound)

    # -- inequalities -----------------------------------------------------------------------------

    def never_negative(self, d: Dim) -> bool:
        """Whether an index expression is proved to be at least 0."""
        ranges = self._ranges(d)
        if bounds(d, ranges)[0] >= 0:
            return True
        for name in dict.fromkeys(symbols(d)):
            step = step_of(d, name) if name in self.extents else None
            if isinstance(step, int):
                d = substitute(d, {name: 0 if step >= 0 else self.extents[name] - 1})
        return at_least(d, 0, ranges)

    def _ranges(self, d: Dim) -> dict[str, Range]:
        """The ranges of what is in an index expression; an axis with an index is not empty."""
        names = set(symbols(d))
        found = {n: self.data[n][2] for n in names if n in self.data}
        for name in (*self.extents,):
            if name in names or name.startswith(ELEMENT):
                extent = self.extents[name]
                found[name] = (0, extent - 1 if isinstance(extent, int) else math.inf)
                found.update(when_positive(extent))
        return found

    # -- index expressions ------------------------------------------------------------------------

    def simple(self, d: Dim) -> Dim:
        """An index expression in which quotients and rests that are known are worked out."""
        if isinstance(d, int) or not any(isinstance(a, Call) for m, _ in d.terms for a, _ in m):
            return d
        out: Dim = 0
        for mono, k in terms_of(d):
            term: Dim = k
            for atom, power in mono:
                worked = self._worked(atom) if isinstance(atom, Call) else symbol(atom)
                term = term * product((worked,) * power)
            out = out + term
        return recombine(out)

    def _worked(self, call: Call) -> Dim:
        lhs, rhs = self.simple(call.lhs), self.simple(call.rhs)
        if call.function not in ("floordiv", "mod"):
            return minimum(lhs, rhs) if call.function == "min" else maximum(lhs, rhs)
        quotient, rest = _parts(lhs, rhs)
        if self.never_negative(rest) and self.never_negative(rhs - 1 - rest):
            return quotient if call.function == "floordiv" else rest
        return divided_by(lhs, rhs) if call.function == "floordiv" else rest_of(lhs, rhs)


def _parts(lhs: Dim, rhs: Dim) -> tuple[Dim, Dim]:
    """``(q, r)`` with ``lhs == q * rhs + r``, term by term."""
    quotient: Dim = 0
    for mono, k in terms_of(lhs):
        whole = divide_exactly(canonical({mono: k}), rhs) if rhs != 0 else None
        if whole is None and isinstance(rhs, int) and rhs > 0:
            whole = canonical({mono: k // rhs})
        quotient = quotient + (whole if whole is not None else 0)
    return quotient, lhs - quotient * rhs


def cuts(d: Dim) -> Iterator[tuple[str, Dim]]:
    """Each index that is divided, and what by."""
    for mono, _ in terms_of(d):
        for atom, _ in mono:
            if isinstance(atom, Call):
                yield from _cuts(atom)


def _cuts(call: Call) -> Iterator[tuple[str, Dim]]:
    yield from cuts(call.lhs)
    if call.function in ("floordiv", "mod"):
        mono, k = terms_of(call.lhs)[0] if len(terms_of(call.lhs)) == 1 else ((), 0)
        if k == 1 and len(mono) == 1 and isinstance(mono[0][0], str):
            yield mono[0][0], call.rhs
