"""Singular values by two diagonals, as NumPy takes the steps.

Reflections of columns and rows leave two diagonals (Golub and Kahan 1965), and implicit QL makes
these one, as LAPACK's ``bdsqr`` does from the last row on. Machine code takes the same steps, of
large matrices in other orders. Matrices stand one behind the other in the first axis, and have no
more columns than rows.
"""

from __future__ import annotations

import numpy as np

from dlvm.ir import Array

from .qr import unitary
from .tridiagonal import MOST, TINY, block, dot, reflector, rotate_up, scale_of, turn


def singular(x: Array) -> tuple[Array, Array, Array, Array]:
    """Singular values in no order, the vectors of both sides as rows, and whether sweeps came to
    an end.
    """
    scale = scale_of(np.abs(x).max((1, 2), initial=0))
    x = x / scale[:, None, None]
    least = np.abs(x).max((1, 2), initial=0) * np.asarray(np.finfo(x.dtype).eps / TINY, x.dtype)
    d, e, left, right = _reduced(x, least)
    ended = [_ql(d[i], e[i], left[i], right[i], least[i]) for i in range(len(x))]
    right *= np.copysign(np.asarray(1, x.dtype), d)[..., None]
    return np.abs(d) * scale[:, None], left, right, np.array(ended, bool)


def _reduced(x: Array, least: Array) -> tuple[Array, Array, Array, Array]:
    """The diagonals, and the transposes of the products of the reflections."""
    count, _, n = x.shape
    d, e = np.zeros((count, n), x.dtype), np.zeros((count, n), x.dtype)
    lefts, rights = np.zeros_like(x), np.zeros((count, n, n), x.dtype)
    outer, inner = list[Array](), [np.zeros(count, x.dtype)]
    for k in range(n):
        v, scale, d[:, k] = reflector(x[:, k:, k], least)
        lefts[:, k + 1 :, k] = v[:, 1:]
        outer.append(scale)
        if k == n - 1:
            break
        part = x[:, k:, k + 1 :]
        y = scale[:, None] * np.add.accumulate(v[:, :, None] * part, 1)[:, -1]
        row = part[:, 0] - y
        u, scale, e[:, k] = reflector(row, least)
        rights[:, k + 2 :, k + 1] = u[:, 1:]
        inner.append(scale)
        z = dot(part[:, 1:], u[:, None]) - v[:, 1:] * dot(y, u)[:, None]
        z *= scale[:, None]
        rest = part[:, 1:]
        rest -= v[:, 1:, None] * y[:, None]
        rest -= z[:, :, None] * u[:, None]
    left, right = (unitary(r, s) for r, s in ((lefts, outer), (rights, inner)))
    return d, e, np.swapaxes(left, -1, -2).copy(), np.swapaxes(right, -1, -2).copy()


def _ql(d: Array, e: Array, left: Array, right: Array, least: Array) -> bool:
    """Make one matrix diagonal, and say whether it is."""
    n, first = len(d), 0
    for _ in range(MOST * n):
        first, last = block(d, e, least, first)
        if first == n:
            return True
        _sweep(d, e, (left, right), (first, last), least)
    return n == 0


def _sweep(
    d: Array, e: Array, rows: tuple[Array, Array], ends: tuple[int, int], least: Array
) -> None:
    """One sweep of pairs of rotations, from the last row of a block to its first."""
    first, last = ends
    zero = d.dtype.type(0)
    f, g = _start(d, e, ends, least), e[last - 1]
    for i in reversed(range(first, last)):
        c, s, e[i + 1] = turn(f, g)
        f, beside = c * d[i + 1] + s * e[i], c * e[i] - s * d[i + 1]
        g, here = s * d[i], c * d[i]
        rotate_up(rows[0], i, c, s)
        c, s, d[i + 1] = turn(f, g)
        f, d[i] = c * beside + s * here, c * here - s * beside
        g, e[i - 1] = s * e[i - 1], c * e[i - 1]
        rotate_up(rows[1], i, c, s)
    e[first], e[last] = f, zero


def _start(d: Array, e: Array, ends: tuple[int, int], least: Array) -> Array:
    """What the first rotation makes zero with the element beside: of a shift from the first rows.

    There is no shift where an element of the diagonal is nothing: the sweep then cuts a row off.
    """
    first, last = ends
    one, two = d.dtype.type(1), d.dtype.type(2)
    x, y, corner = np.abs(d[first]), np.abs(d[first + 1]), d[last]
    small, large = np.minimum(x, y), np.maximum(x, y)
    ratio = np.abs(e[first]) / large
    more, less, square = one + small / large, (large - small) / large, ratio * ratio
    shift = small * (two / (np.sqrt(more * more + square) + np.sqrt(less * less + square)))
    if (np.abs(d[first : last + 1]) <= least).any() or not shift > 0:
        return corner
    return (np.abs(corner) - shift) * (np.copysign(one, corner) + shift / corner)
