"""Positions in arrays: from an index along axes to a place in row-major order, and back.

All in sizes, so an index may be a number, a loop variable, or what was computed from both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from .dims import Call, Dim, Expr, Monomial, floordiv, mod, product, terms_of

Index = tuple[Dim, ...]
T = TypeVar("T")


def flatten(index: Sequence[Dim], shape: Sequence[Dim]) -> Dim:
    """The row-major position of an index."""
    position: Dim = 0
    for i, size in zip(index, shape, strict=True):
        position = position * size + i
    return recombine(position)


def split(position: Dim, shape: Sequence[Dim]) -> Index:
    """The index of a row-major position, which lies inside."""
    index: list[Dim] = []
    outermost = next((a for a, size in enumerate(shape) if size != 1), len(shape))
    for axis, size in enumerate(shape):
        ahead = floordiv(position, product(tuple(shape[axis + 1 :])))
        index.append(0 if size == 1 else ahead if axis == outermost else mod(ahead, size))
    return tuple(index)


def recombine(d: Dim) -> Dim:
    """Undo splits: ``P*(x//P) + x%P = x`` and ``P*((x//P)%N) + x%P = x%(N*P)``."""
    found: Dim | None = d
    while found is not None:
        d = found
        found = next((e for e in _recombined(d) if len(calls_in(e)) < len(calls_in(d))), None)
    return d


def _recombined(d: Dim) -> Iterable[Dim]:
    for call, factor in _remainders(d):
        x, step = call.lhs, call.rhs
        without = d - factor * mod(x, step)
        ahead = floordiv(x, step)
        whole = without - factor * step * ahead + factor * x
        if calls_in(whole).isdisjoint(calls_in(ahead)):
            yield whole
        for outer, _ in _remainders(without):
            if outer.lhs == ahead:
                merged = mod(x, outer.rhs * step)
                yield without - factor * step * mod(ahead, outer.rhs) + factor * merged


def _remainders(d: Dim) -> Iterable[tuple[Call, Dim]]:
    """Each ``x % n`` that stands linearly in a size, with all that it is multiplied by."""
    factors: dict[Call, Dim] = {}
    for mono, k in d.terms if isinstance(d, Expr) else ():
        for atom, power in mono:
            if isinstance(atom, Call) and atom.function == "mod" and power == 1:
                rest: Monomial = tuple(pair for pair in mono if pair[0] != atom)
                factors[atom] = factors.get(atom, 0) + (Expr(((rest, k),)) if rest else k)
    return factors.items()


def calls_in(d: Dim) -> set[Call]:
    """The quotients, rests, minima and maxima that stand in a size."""
    terms = d.terms if isinstance(d, Expr) else ()
    return {atom for mono, _ in terms for atom, _ in mono if isinstance(atom, Call)}


def reshaped(index: Index, new: Index, old: Index) -> Index:
    """Where in shape ``old`` the element lies that has this index in shape ``new``.

    Axes are matched in the smallest groups of equal size, so that only what is really cut or
    merged costs arithmetic.
    """
    out: list[Dim] = []
    for mine, theirs in groups(new, old):
        inside = flatten(index[mine], new[mine])
        sizes = old[theirs]
        out += (inside,) if len(sizes) == 1 else split(inside, sizes)
    return tuple(out)


def groups(new: Index, old: Index) -> Iterator[tuple[slice, slice]]:
    """The smallest runs of axes of two shapes that have equally many elements, in order."""
    i = j = 0
    while i < len(new) or j < len(old):
        a, b = _group(new, old, i, j)
        yield slice(i, a), slice(j, b)
        i, j = a, b


def _group(new: Index, old: Index, i: int, j: int) -> tuple[int, int]:
    ends = [(a, b) for a in range(i, len(new) + 1) for b in range(j, len(old) + 1)]
    for a, b in sorted(ends[1:], key=sum):
        if product(new[i:a]) == product(old[j:b]):
            return a, b
    return len(new), len(old)


def valued(
    d: Dim,
    named: Callable[[str], T],
    number: Callable[[int], T],
    functions: Mapping[str, Callable[[T, T], T]],
) -> T:
    """A size computed in things other than numbers, by their ``functions``, ``add`` and ``mul``."""
    total: T | None = None
    for mono, k in terms_of(d):
        term = number(k) if k != 1 or not mono else None
        for atom, power in mono:
            if isinstance(atom, Call):
                sides = (valued(x, named, number, functions) for x in (atom.lhs, atom.rhs))
                factor = functions[atom.function](*sides)
            else:
                factor = named(atom)
            for _ in range(power):
                term = factor if term is None else functions["mul"](term, factor)
        if term is not None:
            total = term if total is None else functions["add"](total, term)
    return number(0) if total is None else total
