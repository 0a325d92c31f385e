"""Index arithmetic: between positions along axes, positions in memory, and back.

Offsets are kept as polynomials as long as that is possible, because an offset that is linear in
a loop variable becomes a vector load. This file knows sizes, not kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dlvm.ir import Dim, Expr
from dlvm.ir.dims import (
    Atom,
    Call,
    Monomial,
    at_least,
    canonical,
    floordiv,
    minimum,
    mod,
    product,
    substitute,
    symbol,
    symbols,
    terms_of,
)

Index = tuple[Dim, ...]


def step_of(d: Dim, name: str) -> Dim | None:
    """How far an index moves when a variable grows by one, if always as far."""
    if name not in symbols(d):
        return 0
    moving = canonical({m: k for m, k in terms_of(d) if any(_is_in(name, atom) for atom, _ in m)})
    step = substitute(moving, {name: symbol(name) + 1}) - moving
    return None if name in symbols(step) else step


def _is_in(name: str, atom: Atom) -> bool:
    return atom == name if isinstance(atom, str) else name in atom.names()


def exact(size: int) -> Iterator[tuple[int, int]]:
    """Pieces of a short row that fill vectors: where each starts, and its size, a power of two."""
    start = 0
    while start < size:
        width = 1 << (size - start).bit_length() - 1
        yield start, width
        start += width


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
        found = next((e for e in _recombined(d) if len(_atoms(e)) < len(_atoms(d))), None)
    return d


def _recombined(d: Dim) -> Iterable[Dim]:
    for call, factor in _remainders(d):
        x, step = call.lhs, call.rhs
        without = d - factor * mod(x, step)
        ahead = floordiv(x, step)
        whole = without - factor * step * ahead + factor * x
        if _atoms(whole).isdisjoint(_atoms(ahead)):
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


def calls_of(d: Dim, name: str) -> bool:
    """Whether there is a quotient, rest, minimum or maximum of an index in a size."""
    return any(name in symbols(c.lhs) or name in symbols(c.rhs) for c in _atoms(d))


def _atoms(d: Dim) -> set[Call]:
    terms = d.terms if isinstance(d, Expr) else ()
    return {atom for mono, _ in terms for atom, _ in mono if isinstance(atom, Call)}


def reshaped(index: Index, new: Index, old: Index) -> Index:
    """Where in shape ``old`` the element lies that has this index in shape ``new``.

    Axes are matched in the smallest groups of equal size, so that only what is really cut or
    merged costs arithmetic.
    """
    out: list[Dim] = []
    i = j = 0
    while i < len(new) or j < len(old):
        a, b = _group(new, old, i, j)
        inside = flatten(index[i:a], new[i:a])
        out += (inside,) if b - j == 1 else split(inside, old[j:b])
        i, j = a, b
    return tuple(out)


def _group(new: Index, old: Index, i: int, j: int) -> tuple[int, int]:
    ends = [(a, b) for a in range(i, len(new) + 1) for b in range(j, len(old) + 1)]
    for a, b in sorted(ends[1:], key=sum):
        if product(new[i:a]) == product(old[j:b]):
            return a, b
    return len(new), len(old)


def guarded(where: Index, *conditions: Dim) -> Index:
    """These conditions (each >= 0) as well, without what always holds or stands there."""
    fresh = (c for c in conditions if c not in where and not at_least(c, 0))
    return (*where, *dict.fromkeys(fresh))


def ceildiv(a: Dim, b: int) -> Dim:
    """How many pieces of size ``b`` cover ``a``."""
    return floordiv(a + (b - 1), b)


def piece(size: int, extent: Dim, turn: Dim) -> Dim:
    """How long the piece is that a turn takes of an extent, ``size`` at most.

    An extent that is one piece is taken whole, and of one that is made of whole pieces each is as
    long as the others: their lengths don't depend on the turn.
    """
    if at_least(size, extent):
        return extent
    return size if mod(extent, size) == 0 else minimum(size, extent - size * turn)
