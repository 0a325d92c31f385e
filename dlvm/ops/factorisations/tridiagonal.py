"""Eigenvalues of symmetric matrices by three diagonals, as NumPy takes the steps.

Reflections of rows and columns leave three diagonals (Golub and Van Loan, 8.3), and implicit QL
with Wilkinson's shift makes these one, as LAPACK's ``steqr`` does. Machine code takes the same
steps, of large matrices in other orders. Matrices stand one behind the other in the first axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.ir import Array

from .qr import unitary

MOST = 32
"""Sweeps for each row, at most: they need some 1.7. It is a multiple of those that machine code
takes together."""
LANES = 8
"""Sums that a sum of products is made of."""
TINY = 64
"""Elements beside the diagonal that are this much less than a rounding error of the largest one
are nothing."""


def eigen(x: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues of full symmetric matrices in no order, their vectors as rows, and whether
    sweeps came to an end.
    """
    scale = scale_of(np.abs(x).max((1, 2), initial=0))
    x = x / scale[:, None, None]
    least = np.abs(x).max((1, 2), initial=0) * np.asarray(np.finfo(x.dtype).eps / TINY, x.dtype)
    d, e, rows = _reduced(x, least)
    ended = [_ql(d[i], e[i], rows[i], least[i]) for i in range(len(x))]
    return d * scale[:, None], rows, np.array(ended, bool)


def scale_of(most: Array, root: int = 8) -> Array:
    """What a matrix is divided by: 1, where no square of a part of it over- or underflows."""
    low = bound(most.dtype, root)
    one = np.asarray(1, most.dtype)
    ordinary = (low <= most) & (most <= one / low)
    return np.where(ordinary | (most == 0), one, most)


def bound(dtype: Any, root: int = 8) -> Any:
    """A root of the smallest normal number, to a power of two."""
    return np.asarray(2.0 ** (np.finfo(dtype).minexp // root), dtype)


def _reduced(x: Array, least: Array) -> tuple[Array, Array, Array]:
    """The diagonals, and the transpose of the product of the reflections."""
    count, n = x.shape[:2]
    e, reflectors = np.zeros((count, n), x.dtype), np.zeros_like(x)
    scales = [np.zeros(count, x.dtype)]
    for k in range(n - 1):
        v, scale, e[:, k] = reflector(x[:, k, k + 1 :], least)
        reflectors[:, k + 2 :, k + 1] = v[:, 1:]
        scales.append(scale)
        _both_sides(x[:, k + 1 :, k + 1 :], v, scale)
    rows = np.swapaxes(unitary(reflectors, scales), -1, -2).copy()
    return np.diagonal(x, 0, 1, 2).copy(), e, rows


def reflector(x: Array, least: Array) -> tuple[Array, Array, Array]:
    """The reflector of a vector, its factor, and the multiple of the first unit that is left."""
    first, zero = x[:, 0], np.zeros((len(x), 1), x.dtype)
    below = dot(x[:, 1:], x[:, 1:])
    none = below <= least * least
    end = -np.copysign(np.sqrt(first * first + below), first)
    v = np.where(none[:, None], zero, x / (first - end)[:, None])
    v[:, 0] = 1
    return v, np.where(none, zero[:, 0], (end - first) / end), np.where(none, first, end)


def dot(x: Array, y: Array) -> Array:
    """Sums of products along rows: ``LANES`` chains, their sum, and then what is left of a row."""
    products = x * y
    *batch, count = products.shape
    whole = count // LANES * LANES
    zero = np.zeros((*batch, 1, LANES), x.dtype)
    lanes = np.concatenate((zero, products[..., :whole].reshape(*batch, count // LANES, LANES)), -2)
    chains = np.add.accumulate(lanes, -2)[..., -1, :]
    return np.add.accumulate(np.concatenate((chains, products[..., whole:]), -1), -1)[..., -1]


def _both_sides(x: Array, v: Array, scale: Array) -> None:
    """``X - v w' - w v'`` with ``w = t X v - (t^2/2) (v' X v) v`` for a factor t."""
    p = np.add.accumulate(v[:, :, None] * x, 1)[:, -1]
    half = scale * np.asarray(0.5, x.dtype) * dot(v, p)
    w = scale[:, None] * (p - half[:, None] * v)
    x -= v[:, :, None] * w[:, None, :]
    x -= w[:, :, None] * v[:, None, :]


def _ql(d: Array, e: Array, rows: Array, least: Array) -> bool:
    """Make one matrix diagonal, and say whether it is."""
    n, first = len(d), 0
    for _ in range(MOST * n):
        first, last = block(d, e, least, first)
        if first == n:
            return True
        _sweep(d, e, rows, first, last)
    return n == 0


def block(d: Array, e: Array, least: Array, start: int) -> tuple[int, int]:
    """The first row that is not cut from the next, and the last one below that is not."""
    size = np.abs(d)
    limits = np.maximum(least, np.finfo(d.dtype).eps * (size[start:-1] + size[start + 1 :]))
    whole = ~(np.abs(e[start : len(d) - 1]) <= limits)
    if not whole.any():
        return len(d), 0
    first = int(np.argmax(whole))
    return start + first, start + first + int(np.argmin([*whole[first:], False]))


def _sweep(d: Array, e: Array, rows: Array, first: int, last: int) -> None:
    """One sweep of rotations, from the last row of a block to its first."""
    one, two, zero = (d.dtype.type(i) for i in (1, 2, 0))
    slope = (d[first + 1] - d[first]) / (two * e[first])
    below = slope + np.copysign(np.sqrt(slope * slope + one), slope)
    g = d[last] - d[first] + e[first] / below
    p, s, c = zero, one, one
    for i in reversed(range(first, last)):
        f, b = s * e[i], c * e[i]
        c, s, e[i + 1] = turn(g, f)
        high = d[i + 1] - p
        r = (d[i] - high) * s + two * (c * b)
        p = s * r
        d[i + 1], g = high + p, c * r - b
        rotate_up(rows, i, c, s)
    d[first], e[first], e[last] = d[first] - p, g, zero


def turn(f: Array, g: Array) -> tuple[Array, Array, Array]:
    """Cosine and sine of the rotation that makes ``[r, 0]`` of ``[f, g]``, and r; none if tiny."""
    info, square = np.finfo(f.dtype), f * f + g * g
    if square < f.dtype.type(info.tiny / info.eps):
        return f.dtype.type(1), f.dtype.type(0), f.dtype.type(0)
    root = np.sqrt(square)
    over = f.dtype.type(1) / root
    return f * over, g * over, root


def rotate_up(rows: Array, i: int, c: Array, s: Array) -> None:
    """Row i + 1 and row i become sums of both."""
    here, after = rows[i].copy(), rows[i + 1].copy()
    rows[i + 1], rows[i] = c * after + s * here, c * here - s * after
