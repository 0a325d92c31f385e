"""Jacobi rotations, as NumPy takes them; the loops of machine code take the same steps.

Matrices stand one behind the other in the first axis. A sweep makes each pair of rows orthogonal
once, in the order of rows, and sweeps repeat until nothing is left to do, at most ``SWEEPS`` times;
they converge quadratically, within some ten for every matrix of doubles that is known.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dlvm.ir import I64, Array, Value, splat, zeros
from dlvm.ops.arrays.extremes import ArgMax, Max
from dlvm.ops.arrays.sums import Broadcast, Sum
from dlvm.ops.elements.logic import And, Equal, LessEqual, Select
from dlvm.ops.elements.magnitude import Abs, CopySign
from dlvm.ops.literals import Iota

SWEEPS = 40
LARGE = 0.75
"""A component is called large from this part of the largest magnitude on."""


def angle(a: Array, b: Array, c: Array, rising: bool) -> tuple[Array, Array, Array, Array]:
    """Cosine and sine of the rotation that makes ``[[a, c], [c, b]]`` diagonal, and the diagonal.

    The cosine is ``1 - sin(x) tan(x/2)``. As one over the root it is more often too large than too
    small, as roots of numbers just above 1 round down, and a thousand rotations add that up. Of
    the two rotations it is the one whose diagonal is rising, or falling: so equal eigenvalues come
    to stand beside one another, without which sweeps converge slowly (van Kempen 1966; de Rijk
    1989 for columns).
    """
    half, one = np.asarray(0.5, a.dtype), np.asarray(1, a.dtype)
    slope = (b * half - a * half) / c
    tangent = np.copysign(one, slope) / (np.abs(slope) + np.sqrt(one + slope * slope))
    tangent = np.where(c == 0, np.asarray(0, a.dtype), tangent)
    root = np.sqrt(one + tangent * tangent)
    sine = tangent / root
    cosine = one - sine * (tangent / (one + root))
    first, second = a - tangent * c, b + tangent * c
    other = (c != 0) & (second < first if rising else first < second)
    turned = np.where(other, sine, cosine), np.where(other, -cosine, sine)
    return *turned, np.where(other, second, first), np.where(other, first, second)


def swept(x: Array, sweep: Callable[[Array, Array], Array]) -> tuple[Array, Array]:
    """Sweeps of matrices in place, until one turned no pair of rows: what takes in their rotations,
    from identities on, and whether sweeps came to an end.

    A sweep says of which matrices it turned a pair.
    """
    rows = identities(len(x), x.shape[1], x)
    left = np.arange(len(x))
    for _ in range(SWEEPS):
        if not len(left):
            break
        some, turned = x[left], rows[left]
        again = sweep(some, turned)
        x[left], rows[left] = some, turned
        left = left[again]
    ended = np.ones(len(x), bool)
    ended[left] = False
    return rows, ended


def rotate(x: Array, p: int, q: int, cosine: Array, sine: Array) -> None:
    """Rows p and q of each matrix become sums of both."""
    c, s = cosine[:, None], sine[:, None]
    first, second = x[:, p].copy(), x[:, q].copy()
    x[:, p] = c * first - s * second
    x[:, q] = s * first + c * second


def in_order(keys: Array, *rows: Array) -> None:
    """Sort by selection: keys ascending, and the rows that belong to them."""
    each = np.arange(len(keys))
    for k in range(keys.shape[-1]):
        p = k + np.argmin(keys[:, k:], -1)
        for x in (keys, *rows):
            x[each, k], x[each, p] = x[each, p], x[each, k].copy()


def signs(rows: Array) -> Array:
    """Of each row the sign of the first element that is large."""
    if rows.shape[-1] == 0:
        return np.ones(rows.shape[:-1], rows.dtype)
    size = np.abs(rows)
    large = size >= size.max(-1, keepdims=True) * np.asarray(LARGE, rows.dtype)
    first = np.argmax(large, -1)[..., None]
    return np.copysign(np.asarray(1, rows.dtype), np.take_along_axis(rows, first, -1))[..., 0]


def signs_of_columns(x: Value) -> Value:
    """Of each column the sign of the first element that is large, in operations."""
    rank = x.type.rank
    rows, kept = rank - 2, (*range(rank - 2), rank - 1)
    size = Abs(x)
    bound = Max(size, (rows,)) * LARGE
    large = LessEqual(Broadcast(bound, x.shape, kept), size)
    places = Broadcast(Iota(x.shape[rows], I64), x.shape, (rows,))
    first = Equal(places, Broadcast(ArgMax(large, (rows,)), x.shape, kept))
    found = Sum(Select(first, x, zeros(x.type)), (rows,))
    return CopySign(splat(1.0, found.type), found)


def identities(count: int, n: int, like: Array) -> Array:
    """An identity for each matrix."""
    return np.broadcast_to(np.eye(n, dtype=like.dtype), (count, n, n)).copy()


def quotient(x: Value, below: Value, *touched: Value) -> Value:
    """``x / below``; where ``below`` is 0, it is 0 if all of ``touched`` are, and NaN if not."""
    zero = zeros(x.type)
    tie = Equal(below, zero)
    idle = Equal(touched[0], zero)
    for other in touched[1:]:
        idle = And(idle, Equal(other, zero))
    parts = x / Select(tie, splat(1.0, x.type), below)
    return Select(tie, Select(idle, zero, splat(float("nan"), x.type)), parts)
