"""Canonical forms: sums over conditions are carried out, bound indices named, equal terms added.

Each step replaces a term by an equal one, so forms that become the same are equal. Forms that stay
different say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from math import gcd

from dlvm.gen.loops.index import step_of
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import canonical as as_dim
from dlvm.ir.sizes.dims import divide_exactly, product, symbol, symbols, terms_of

from .scope import Scope, cuts
from .terms import IS_ZERO, MOST, NOT_NEGATIVE, Factor, Form, Term, TooLong, is_zero, not_negative

TRIED = 5
"""Bound indices of a term of which every order is tried."""


def canonical(form: Form, scope: Scope) -> Form:
    """The form that equal forms share, as far as these steps see that they are equal."""
    pending, terms = list(form), dict[tuple[tuple[str, ...], tuple[str, ...]], Term]()
    steps = 0
    while pending:
        steps += 1
        if steps > 20 * MOST:
            raise TooLong
        term = _settled(pending.pop(), scope)
        if term is None:
            continue
        if parts := _oriented(term, scope):
            pending += parts
            continue
        named = _named(term, scope)
        key = tuple(map(str, named.factors)), tuple(sorted(named.bound))
        before = terms[key].coefficient if key in terms else 0
        terms[key] = replace(named, coefficient=named.coefficient + before)
    return tuple(t for _, t in sorted(terms.items()) if t.coefficient)


def _settled(term: Term, scope: Scope) -> Term | None:
    """A term to which no step applies any more; None if it is 0."""
    for _ in range(MOST):
        tidy = _without_known(term, scope)
        if tidy is None:
            return None
        term = _summed_over_condition(tidy, scope) or _divided(tidy, scope) or tidy
        if term is tidy:
            term = _with_equal_indices(tidy, scope)
        if term == tidy:
            return _without_unused(term, scope)
    raise TooLong


def _without_known(term: Term, scope: Scope) -> Term | None:
    """Conditions that always hold are 1 and are left out; with one that never does, it is 0."""
    if any(scope.extents[n] == 0 for n in term.bound):
        return None
    ones = {n: 0 for n in term.bound if scope.extents[n] == 1}
    kept: list[Factor] = []
    for f in term.factors:
        f = scope.put_in_factor(f, ones) if ones else f
        f = _at_most_zero(replace(f, index=tuple(map(scope.simple, f.index))), scope)
        match _known(f, scope):
            case False:
                return None
            case None if not (f.choice and f in kept):
                kept.append(_reduced(f))
            case _:
                pass
    bound = tuple(n for n in term.bound if n not in ones)
    return _combined(replace(term, factors=tuple(kept), bound=bound))


def _at_most_zero(f: Factor, scope: Scope) -> Factor:
    """``d >= 0`` is ``d = 0`` where d is at most 0."""
    at_end = f.name == NOT_NEGATIVE and scope.never_negative(-f.index[0])
    return is_zero(f.index[0]) if at_end else f


def _known(f: Factor, scope: Scope) -> bool | None:
    """Whether a condition holds, where that is known for every index."""
    if f.name not in (NOT_NEGATIVE, IS_ZERO):
        return None
    (d,) = f.index
    if f.name == NOT_NEGATIVE:
        return True if scope.never_negative(d) else False if scope.never_negative(-d - 1) else None
    if d == 0:
        return True
    apart = scope.never_negative(d - 1) or scope.never_negative(-d - 1)
    return False if apart or _never_divides(d) else None


def _never_divides(d: Dim) -> bool:
    """Whether the constant term is no multiple of what divides every other one."""
    constant = sum(k for mono, k in terms_of(d) if not mono)
    others = [k for mono, k in terms_of(d) if mono]
    return bool(others) and constant % gcd(*others) != 0


def _reduced(f: Factor) -> Factor:
    """``n d = 0`` is ``d = 0``, which is ``-d = 0``."""
    if f.name != IS_ZERO:
        return f
    (d,) = f.index
    common = gcd(*(k for _, k in terms_of(d)))
    sign = 1 if terms_of(d)[0][1] > 0 else -1
    return is_zero(as_dim({mono: sign * k // common for mono, k in terms_of(d)}))


def _combined(term: Term) -> Term | None:
    """Of two bounds on one expression the tighter one stays; opposite ones contradict or equate."""
    kept = list(term.factors)
    limits = [f for f in kept if f.name == NOT_NEGATIVE]
    for i, f in enumerate(limits):
        for g in limits[i + 1 :]:
            if f not in kept or g not in kept:
                continue
            apart, total = f.index[0] - g.index[0], f.index[0] + g.index[0]
            if isinstance(apart, int):
                kept.remove(f if apart >= 0 else g)
            elif isinstance(total, int) and total < 0:
                return None
            elif total == 0:
                kept.remove(g)
                kept[kept.index(f)] = _reduced(is_zero(f.index[0]))
    return replace(term, factors=tuple(kept))


def _summed_over_condition(term: Term, scope: Scope) -> Term | None:
    """``sum over k of [k = e] f(k) = [0 <= e < n] f(e)``."""
    for f in term.factors:
        for name in term.bound if f.name == IS_ZERO else ():
            value = _solved(f.index[0], name, scope)
            if value is None:
                continue
            others = (scope.put_in_factor(g, {name: value}) for g in term.factors if g is not f)
            inside = (not_negative(value), not_negative(scope.extents[name] - 1 - value))
            bound = tuple(n for n in term.bound if n != name)
            return replace(term, factors=(*others, *inside), bound=bound)
    return None


def _divided(term: Term, scope: Scope) -> Term | None:
    """An index k that is divided by n is ``n q + r``: a sum over q and r."""
    for name in term.bound:
        found = {n for f in term.factors for d in _dims(f) for k, n in cuts(d) if k == name}
        for n in sorted(found, key=str):
            count = divide_exactly(scope.extents[name], n) if n != 0 else None
            if count is None or count == 1 or scope.extents[name] == 0:
                continue
            q, r = scope.fresh(count), scope.fresh(n)
            value = symbol(q) * n + symbol(r)
            factors = tuple(scope.put_in_factor(f, {name: value}) for f in term.factors)
            bound = tuple(m for m in term.bound if m != name)
            return replace(term, factors=factors, bound=(*bound, q, r))
    return None


def _dims(f: Factor) -> Iterator[Dim]:
    yield from f.index
    for form in f.arguments:
        for term in form:
            for inner in term.factors:
                yield from _dims(inner)


def _with_equal_indices(term: Term, scope: Scope) -> Term:
    """Where ``i = e`` is a condition, the other factors hold e for i."""
    for at, f in enumerate(term.factors):
        found = _free_index(f, term, scope) if f.name == IS_ZERO else None
        if found is not None:
            others = (scope.put_in_factor(g, found) for g in term.factors)
            factors = tuple(f if i == at else g for i, g in enumerate(others))
            if factors != term.factors:
                return replace(term, factors=factors)
    return term


def _free_index(f: Factor, term: Term, scope: Scope) -> dict[str, Dim] | None:
    """An index that is data, or bound by no sum, and what a condition says it is."""
    (d,) = f.index
    known = {n for n in symbols(d) if n in scope.extents or n in scope.data} - {*term.bound}
    for name in sorted(known, reverse=True):  # data comes last in this order
        value = _solved(d, name, scope)
        if value is not None:
            return {name: value}
    return None


def _solved(d: Dim, name: str, scope: Scope) -> Dim | None:
    """What an index is where an expression is 0."""
    step = step_of(d, name)
    if step not in (1, -1):
        return None
    value = symbol(name) - d * step
    return None if name in scope.names(value) else value


def _without_unused(term: Term, scope: Scope) -> Term:
    """A sum over an index that no factor holds is a multiple."""
    used = set[str]().union(*map(scope.names, term.factors))
    unused = [n for n in term.bound if n not in used and isinstance(scope.extents[n], int)]
    count = product(tuple(scope.extents[n] for n in unused))
    assert isinstance(count, int)
    bound = tuple(n for n in term.bound if n not in unused)
    return replace(term, coefficient=term.coefficient * count, bound=bound)


def _oriented(term: Term, scope: Scope) -> list[Term]:
    """``[d >= 0] = 1 - [-d - 1 >= 0]``: for a first coefficient below 0."""
    for f in term.factors:
        if f.name == NOT_NEGATIVE and terms_of(f.index[0])[0][1] < 0:
            others = tuple(g for g in term.factors if g is not f)
            opposite = not_negative(-f.index[0] - 1)
            one = replace(term, factors=others)
            return [one, Term(-term.coefficient, (*others, opposite), term.bound)]
    return []


def _named(term: Term, scope: Scope) -> Term:
    """The term whose bound indices have the names that give the first text of all."""
    level = max(map(scope.height, term.factors), default=0)
    tried = permutations(term.bound) if len(term.bound) <= TRIED else [term.bound]
    return min((_with_names(term, order, level, scope) for order in tried), key=_text)


def _text(term: Term) -> tuple[str, ...]:
    return (*map(str, term.factors), *sorted(term.bound))


def _with_names(term: Term, order: tuple[str, ...], level: int, scope: Scope) -> Term:
    extents = [scope.extents[n] for n in order]
    names = [scope.index(f"%b{level}.{i}:{n}", n) for i, n in enumerate(extents)]
    values = dict(zip(order, map(symbol, names), strict=True))
    put = (scope.put_in_factor(f, values) for f in term.factors)
    factors = [_renamed(f, scope) for f in put] if values else [*term.factors]
    return Term(term.coefficient, tuple(sorted(factors, key=str)), tuple(names))


def _renamed(f: Factor, scope: Scope) -> Factor:
    """The factor with its arguments in their canonical order again."""
    if not f.arguments:
        return f
    return replace(f, arguments=tuple(canonical(a, scope) for a in f.arguments))
