"""Index arithmetic of loops: how an index moves with a variable, and how an extent is cut.

Offsets are kept as polynomials as long as that is possible, because an offset that is linear in
a loop variable becomes a vector load. This file knows sizes, not kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm.ir import Dim
from dlvm.ir.sizes.dims import (
    Atom,
    at_least,
    canonical,
    floordiv,
    minimum,
    mod,
    substitute,
    symbol,
    symbols,
    terms_of,
)
from dlvm.ir.sizes.positions import Index, calls_in


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


def calls_of(d: Dim, name: str) -> bool:
    """Whether there is a quotient, rest, minimum or maximum of an index in a size."""
    return any(name in symbols(c.lhs) or name in symbols(c.rhs) for c in calls_in(d))


def guarded(where: Index, *conditions: Dim) -> Index:
    """These conditions (each >= 0) as well, without what always holds or stands there."""
    fresh = (c for c in conditions if c not in where and not at_least(c, 0))
    return (*where, *dict.fromkeys(fresh))


def border(extent: Dim, size: int, at: Dim) -> Index:
    """What holds (>= 0) of an index inside, in tiles of a size; nothing if all are full."""
    return () if mod(extent, size) == 0 else (extent - 1 - at,)


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
