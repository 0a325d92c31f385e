"""The real Schur form of square matrices, by Francis's implicit QR.

Reflections leave one diagonal below the main one, and sweeps with two shifts at once take that
apart into blocks of one or two rows (Golub and Van Loan, 7.4 and 7.5). Machine code takes the same
steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dlvm.ir import Array, Dim, TensorType, Value
from dlvm.ir.properties import NONE, Of, Properties
from dlvm.ops.families import Factorisation

from .tridiagonal import TINY, dot, reflector, scale_of

MOST = 40
"""Sweeps and cuts for each row, at most: they need some 4."""
ODD = 10
"""After so many sweeps that cut nothing the next one takes shifts that are no eigenvalues."""


class Schur(Factorisation):
    """Orthogonal ``Z`` and ``T`` with ``A = Z T Z'``; ``T`` has blocks on its diagonal, and zeros
    below.

    A block is one real eigenvalue, or two rows ``[[a, b], [c, a]]`` with ``b c < 0``, whose
    eigenvalues are ``a`` and plus and minus ``sqrt(-b c)`` times the imaginary unit. A matrix with
    an infinity or NaN gives NaN throughout, as would one whose sweeps come to no end.
    """

    name = "schur"
    nondifferentiable = (
        "the order of its blocks and the basis of each are no function of the matrix"
    )
    a: Value

    def infer(self) -> tuple[TensorType, ...]:
        """Twice the type of the operand."""
        a = self.matrix(self.a)
        return a, a

    def properties_of_result(self, index: int, of: Of) -> Properties:
        """``Z`` is orthogonal."""
        return frozenset(("orthogonal",)) if index == 1 else NONE

    def reference(self, *operands: Array) -> Any:
        shape = operands[0].shape
        n, count = shape[-1], int(np.prod(shape[:-2]))
        x = operands[0].reshape(count, n, n)
        t, z = np.full_like(x, np.nan), np.full_like(x, np.nan)
        for i in np.flatnonzero(np.isfinite(x).all((1, 2))):
            found = decomposed(x[i])
            if found is not None:
                t[i], z[i] = found
        return t.reshape(shape), z.reshape(shape)

    def flops(self) -> Dim:
        """As LAPACK counts: of the reflections, the sweeps and the vectors."""
        return 25 * self.a.type.size * self.a.shape[-1]


def decomposed(x: Array) -> tuple[Array, Array] | None:
    """``T`` and ``Z`` of one finite matrix, or nothing where sweeps come to no end."""
    n = len(x)
    scale = scale_of(np.abs(x).max(initial=0))
    h = np.zeros((n + 2, n + 2), x.dtype)
    h[:n, :n] = x / scale
    least = np.abs(h).max(initial=0) * x.dtype.type(np.finfo(x.dtype).eps / TINY)
    rows = np.zeros((n + 1, n), x.dtype)
    rows[:n] = np.eye(n, dtype=x.dtype)
    for k in range(n - 2):
        _hessenberg(h, rows, k, n, least)
    left, idle = n, 0
    for _ in range(MOST * n):
        if left == 0:
            break
        first, last = _cut(h, left, least), left - 1
        if first == last:
            left, idle = left - 1, 0
        elif first == last - 1:
            _standardised(h, rows, first, n)
            left, idle = left - 2, 0
        else:
            idle += 1
            _sweep(h, rows, (first, last), n, idle % ODD == 0)
    return None if left else (h[:n, :n] * scale, rows[:n].T.copy())


def _hessenberg(h: Array, rows: Array, k: int, n: int, least: Array) -> None:
    """Column k loses what is below the element that follows the diagonal."""
    inside = slice(k + 1, n)
    vs, scales, ends = reflector(h[None, inside, k], least[None])
    v, scale = vs[0], scales[0]
    for x in (h[inside, k + 1 : n], rows[inside]):
        total = np.add.accumulate(v[:, None] * x, 0)[-1] * scale
        x -= v[:, None] * total
    x = h[:n, inside]
    total = dot(x, v[None]) * scale
    x -= total[:, None] * v
    h[inside, k] = 0
    h[k + 1, k] = ends[0]


def _cut(h: Array, left: int, least: Array) -> int:
    """The first row of the last block of the rows that are left; what is small becomes zero."""
    at = np.arange(1, left)
    size = np.abs(np.diagonal(h))
    limits = np.maximum(least, np.finfo(h.dtype).eps * (size[at - 1] + size[at]))
    small = at[np.abs(h[at, at - 1]) <= limits]
    h[small, small - 1] = 0
    return int(small[-1]) if len(small) else 0


class Reflection(NamedTuple):
    """``I - [1, q, r]' [x, y, z]`` of three rows."""

    q: Any
    r: Any
    x: Any
    y: Any
    z: Any


def _reflection(p: Any, q: Any, r: Any) -> tuple[Reflection, Any]:
    """What makes ``[end, 0, 0]`` of three numbers, and the end."""
    zero = p.dtype.type(0)
    beside = np.abs(q) + np.abs(r)
    if beside == 0:
        return Reflection(zero, zero, zero, zero, zero), p
    most = np.abs(p) + beside
    p, q, r = p / most, q / most, r / most
    s = np.copysign(np.sqrt(p * p + q * q + r * r), p)
    p = p + s
    return Reflection(q / p, r / p, p / s, q / s, r / s), -(s * most)


def _sweep(h: Array, rows: Array, block: tuple[int, int], n: int, odd: bool) -> None:
    """One sweep of reflections with two shifts over the rows of a block."""
    first, last = block
    turning, _ = _reflection(*_shifted(h, first, last, odd))
    for k in range(first, last):
        _from_left(h, turning, k, slice(k, n))
        _from_left(rows, turning, k, slice(0, n))
        _from_right(h, turning, k, min(k + 4, last + 1))
        zero = h.dtype.type(0)
        q = h[k + 2, k] if k + 2 <= last else zero
        r = h[k + 3, k] if k + 3 <= last else zero
        turning, end = _reflection(h[k + 1, k], q, r)
        h[k + 1 : k + 4, k] = end, zero, zero


def _shifted(h: Array, first: int, last: int, odd: bool) -> tuple[Any, Any, Any]:
    """A multiple of the first column of ``(H - s)(H - s')``, for two shifts.

    They are the eigenvalues of the last two rows or, if both are real, twice the nearer one.
    """
    two, half, zero = (h.dtype.type(i) for i in (2, 0.5, 0))
    a, b = h[last - 1, last - 1], h[last - 1, last]
    c, d = h[last, last - 1], h[last, last]
    if odd:
        size = np.abs(c) + np.abs(h[last - 1, last - 2])
        a = d = h.dtype.type(0.75) * size + d
        b, c = h.dtype.type(-0.4375) * size, size
    size = np.abs(a) + np.abs(b) + np.abs(c) + np.abs(d)
    size = size if size != 0 else h.dtype.type(1)
    a, b, c, d = a / size, b / size, c / size, d / size
    mean = (a + d) * half
    product = (a - mean) * (d - mean) - b * c
    root = np.sqrt(np.abs(product))
    high, low = mean + root, mean - root
    near = high if np.abs(high - d) <= np.abs(low - d) else low
    real = (mean if product >= 0 else near) * size
    imaginary = (root if product >= 0 else zero) * size
    at, below = h[first, first], h[first + 1, first]
    apart = at - real
    size = np.abs(apart) + np.abs(imaginary) + np.abs(below)
    part = below / size
    p = part * h[first, first + 1] + apart * (apart / size) + imaginary * (imaginary / size)
    q = part * (at + h[first + 1, first + 1] - two * real)
    return p, q, part * h[first + 2, first + 1]


def _from_left(x: Array, by: Reflection, k: int, columns: slice) -> None:
    """Three rows from k on."""
    total = x[k, columns] + by.q * x[k + 1, columns] + by.r * x[k + 2, columns]
    x[k, columns] -= total * by.x
    x[k + 1, columns] -= total * by.y
    x[k + 2, columns] -= total * by.z


def _from_right(x: Array, by: Reflection, k: int, rows: int) -> None:
    """Three columns from k on, of the first rows."""
    total = by.x * x[:rows, k] + by.y * x[:rows, k + 1] + by.z * x[:rows, k + 2]
    x[:rows, k] -= total
    x[:rows, k + 1] -= total * by.q
    x[:rows, k + 2] -= total * by.r


def _standardised(h: Array, rows: Array, k: int, n: int) -> None:
    """Two rows that are a block become two blocks, or one with equal diagonal elements."""
    new, c, s = rotation(h[k, k], h[k, k + 1], h[k + 1, k], h[k + 1, k + 1])
    for x, columns in ((h, slice(k + 2, n)), (rows, slice(0, n))):
        here, below = x[k, columns].copy(), x[k + 1, columns].copy()
        x[k, columns], x[k + 1, columns] = c * here + s * below, c * below - s * here
    here, beside = h[:k, k].copy(), h[:k, k + 1].copy()
    h[:k, k], h[:k, k + 1] = c * here + s * beside, c * beside - s * here
    h[k, k], h[k, k + 1], h[k + 1, k], h[k + 1, k + 1] = new


def rotation(a: Any, b: Any, c: Any, d: Any) -> tuple[tuple[Any, Any, Any, Any], Any, Any]:
    """The standard form of ``[[a, b], [c, d]]``, and the cosine and sine that lead to it."""
    one, half, zero = (a.dtype.type(i) for i in (1, 0.5, 0))
    p = (a - d) * half
    product = b * c
    square = p * p + product
    if square >= 0:
        z = p + np.copysign(np.sqrt(square), p)
        length = np.sqrt(c * c + z * z)
        low = product / z if z != 0 else zero
        return (d + z, b - c, zero, d - low), z / length, c / length
    total, apart = b + c, a - d
    length = np.sqrt(total * total + apart * apart)
    plain = length == 0
    length = one if plain else length
    cosine = one if plain else np.sqrt(half * (one + np.abs(total) / length))
    sine = -(p / (length * cosine)) * np.copysign(one, total)
    aa, bb = a * cosine + b * sine, b * cosine - a * sine
    cc, dd = c * cosine + d * sine, d * cosine - c * sine
    mean = ((aa * cosine + cc * sine) + (dd * cosine - bb * sine)) * half
    b, c = bb * cosine + dd * sine, cc * cosine - aa * sine
    if b * c < 0:
        return (mean, b, c, mean), cosine, sine
    if np.abs(c) <= np.abs(b):
        return (mean, b, zero, mean), cosine, sine
    return (mean, -c, zero, mean), -sine, cosine
