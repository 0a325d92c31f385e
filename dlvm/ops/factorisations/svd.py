"""The singular value decomposition: rotations of few columns, two diagonals of more."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.ir import Array, Builder, Dim, Param, TensorType, Value, splat
from dlvm.ir.core import as_tuple
from dlvm.ir.properties import NONE, Of, Properties
from dlvm.ir.sizes.dims import at_least, minimum, product
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.movement import Diagonal
from dlvm.ops.arrays.sums import Broadcast, Sum
from dlvm.ops.elements.logic import And
from dlvm.ops.elements.magnitude import CopySign
from dlvm.ops.elements.transcendental import Sqrt
from dlvm.ops.families import Factorisation

from .bidiagonal import singular
from .panels import PANEL, qr_by_panels
from .qr import QR, householder
from .rotations import (
    angle,
    in_order,
    quotient,
    rotate,
    signs,
    signs_of_columns,
    swept,
)
from .rounds import finite_or_zero, orthogonal_rows, sorted_by, where_solved
from .triangles import diagonal_of, off_diagonal
from .tridiagonal import bound, scale_of

ROOT = 4
"""Of the smallest normal number: squares of elements are computed, and no more."""
ROTATED = 8
"""Columns up to which rotations are faster than two diagonals."""
TALL = 8, 5
"""From 8/5 times as many rows as columns on, a QR factorisation before others saves time."""


class Svd(Factorisation):
    """``U``, ``s`` descending, and ``V'`` with ``U diag(s) V' = A``, of the smaller size of ``A``.

    Of each column of ``U``, or of each row of ``V'`` if not ``left``, the first element that has at
    least 3/4 of the largest magnitude is positive. A matrix with an infinity or NaN gives NaN
    throughout, as would one whose sweeps come to no end (none is known). Singular vectors of equal
    or zero singular values are no function of the matrix: cotangents of theirs give NaN. If it is
    ``accurate``, rotations of columns find it at any size: small singular values of a matrix whose
    columns, or rows, have very different lengths then have all their digits.
    """

    name = "svd"
    orthonormal_columns = (0,)
    orthonormal_rows = (2,)
    a: Value
    left: bool = True
    accurate: bool = False

    def infer(self) -> tuple[TensorType, ...]:
        """Orthonormal columns, the singular values, and orthonormal rows."""
        a = self.matrix(self.a, square=False)
        (m, n), batch = a.shape[-2:], a.shape[:-2]
        k = minimum(m, n)
        return tuple(a.with_shape((*batch, *s)) for s in ((m, k), (k,), (k, n)))

    def properties_of_result(self, index: int, of: Of) -> Properties:
        """Singular values are not negative; square vectors are orthogonal."""
        shape = self.results[index].shape
        if index == 1:
            return frozenset(("nonnegative",))
        return frozenset(("orthogonal",)) if shape[-1] == shape[-2] else NONE

    def reference(self, *operands: Array) -> Any:
        *batch, m, n = operands[0].shape
        k, count = min(m, n), int(np.prod(batch))
        a = operands[0].reshape(count, m, n)
        finite = np.asarray(np.isfinite(a).all((1, 2)))
        x = np.where(finite[:, None, None], a, np.asarray(0, a.dtype))
        x = x if n <= m else np.swapaxes(x, -1, -2)
        rotated = self.accurate or k <= ROTATED
        values, *sides, ended = (_by_columns if rotated else singular)(x)
        finite &= ended
        values = -values
        in_order(values, *sides)
        first, second = sides if n <= m else reversed(sides)
        sign = signs(first if self.left else second)[..., None]
        found = np.swapaxes(first * sign, -1, -2), -values, second * sign
        shapes, nan = ((m, k), (k,), (k, n)), np.asarray(np.nan, a.dtype)
        return tuple(
            np.where(finite.reshape(len(finite), *(1,) * len(s)), y, nan).reshape(*batch, *s)
            for y, s in zip(found, shapes, strict=True)
        )

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``U (diag(ds) + K) V' + (I - U U') dU inv(S) V' + U inv(S) dV' (I - V V')``.

        ``K = (P S + S Q) / E`` with ``P = U' dU - dU' U``, ``Q = V' dV - dV' V`` and
        ``E[i,j] = (s[j] - s[i]) (s[j] + s[i])``, by which is divided factor by factor.
        """
        (u, s, vt), (du, ds, dvt) = self.results, dy
        m, n = off_diagonal(Matmul(transposed(u), du)), off_diagonal(Matmul(vt, transposed(dvt)))
        rank, last = m.type.rank, m.type.rank - 1
        batch = tuple(range(last - 1))
        row = Broadcast(s, m.shape, (*batch, last - 1))
        column = Broadcast(s, m.shape, (*batch, rank - 1))
        turns = (m - transposed(m)) * column + row * (n - transposed(n))
        touched = m, transposed(m), n, transposed(n)
        part = quotient(turns, column - row, *touched)
        inner = diagonal_of(ds) + off_diagonal(quotient(part, column + row, *touched))
        da = Matmul(Matmul(u, inner), vt)
        if u.shape[-1] != u.shape[-2]:
            da = da + Matmul(_over(_beyond(u, du), s), vt)
        if vt.shape[-1] != vt.shape[-2]:
            rest = _over(_beyond(transposed(vt), transposed(dvt)), s)
            da = da + Matmul(u, transposed(rest))
        return (da,)

    def in_blocks(self, size: int) -> tuple[Value, ...]:
        """By rotations of all columns at once, or of all rows where these are fewer.

        Their lengths are the singular values, and their directions those of a QR factorisation,
        which also finds directions where there are no lengths.
        """
        a, finite = finite_or_zero(self.a)
        m, n = map(int, a.shape[-2:])
        x, turned, scale, ended = orthogonal_rows(transposed(a) if n <= m else a)
        rank = x.type.rank
        batch, kept = tuple(range(rank - 2)), (*range(rank - 2), rank - 1)
        lengths = Sqrt(Sum(x * x, (rank - 1,)))
        keys, x, turned = sorted_by(-lengths, x, turned)
        q, r = qr_by_panels(transposed(x), min(size, PANEL))
        ahead = CopySign(splat(1.0, keys.type), Diagonal(r))
        q = q * Broadcast(ahead, q.shape, kept)
        u, vt = (q, turned) if n <= m else (transposed(turned), transposed(q))
        sign = signs_of_columns(u if self.left else transposed(vt))
        u = u * Broadcast(sign, u.shape, kept)
        vt = vt * Broadcast(sign, vt.shape, tuple(range(rank - 1)))
        s = -keys * Broadcast(scale, keys.shape, batch)
        solved = And(finite, ended)
        return where_solved(solved, u), where_solved(solved, s), where_solved(solved, vt)

    def flops(self) -> Dim:
        """Of two diagonals, of their reflections, and of rotations of both vectors; or of some nine
        sweeps of rotations of columns.
        """
        return (81 if self.accurate else 18) * self.a.type.size * minimum(*self.a.shape[-2:])


class TallSvd(Svd):
    """``Svd`` of a matrix with many more rows than columns, by way of its QR factorisation.

    The results are those of ``Svd`` up to rounding errors. Reflections and rotations of both sides
    are then as long as the shorter side, and the left vectors are one product.
    """

    name = "tall_svd"

    def reference(self, *operands: Array) -> Any:
        """The references of what it is lowered to."""
        a = Param(self.a.type.with_shape(operands[0].shape), "a")
        with Builder() as steps:
            results = TallSvd(a, self.left, self.accurate).lowering()
        values: dict[Value, Any] = {a: operands[0]}
        for op in steps.ops[1:]:
            found = op.reference(*(values[x] for x in op.operands))
            values.update(zip(op.results, as_tuple(found), strict=True))
        return tuple(values[r] for r in results)

    def lowering(self) -> tuple[Value, ...]:
        """``U = Q U_R`` for ``R = U_R diag(s) V'``, with the signs of ``U``."""
        q, r = QR(self.a).results
        inner, s, vt = Svd(r, self.left, self.accurate).results
        u = Matmul(q, inner)
        if not self.left:
            return u, s, vt
        turned, rank = signs_of_columns(u), vt.type.rank
        batch = tuple(range(rank - 2))
        columns = Broadcast(turned, u.shape, (*batch, rank - 1))
        rows = Broadcast(turned, vt.shape, (*batch, rank - 2))
        return u * columns, s, vt * rows

    def flops(self) -> Dim:
        """Of QR, of the product, and of what ``Svd`` takes for the triangle."""
        m, n = self.a.shape[-2:]
        k = minimum(m, n)
        return self.a.type.size * 6 * k + product(self.a.shape[:-2]) * 18 * k * k * n


def decomposed(a: Value, left: bool = True, accurate: bool = False) -> tuple[Value, ...]:
    """The decomposition by the class that suits the shape, as far as that is known.

    An accurate one has no QR factorisation before it, which loses digits of rows that are small.
    """
    rows, columns = a.shape[-2:]
    many = at_least(rows * TALL[1], columns * TALL[0]) and at_least(columns, ROTATED + 1)
    return (TallSvd if many and not accurate else Svd)(a, left, accurate).results


def _by_columns(x: Array) -> tuple[Array, Array, Array, Array]:
    """Values in no order, and the vectors of both sides as rows, by rotations of columns; whether
    sweeps came to an end.
    """
    scale = scale_of(np.abs(x).max((1, 2), initial=0), ROOT)
    columns = np.swapaxes(x / scale[:, None, None], -1, -2).copy()
    rows, ended = swept(columns, _sweep)
    values = -np.sqrt(_dot(columns, columns))
    in_order(values, columns, rows)
    u, r = householder(np.swapaxes(columns, -1, -2))
    one = np.asarray(1, x.dtype)
    u = u * np.copysign(one, np.diagonal(r, 0, 1, 2))[:, None, :]
    return -values * scale[:, None], np.swapaxes(u, -1, -2).copy(), rows, ended


def _beyond(u: Value, du: Value) -> Value:
    """``(I - U U') dU``."""
    return du - Matmul(u, Matmul(transposed(u), du))


def _over(x: Value, s: Value) -> Value:
    """``X inv(S)``, of zeros zero."""
    rank = x.type.rank
    below = Broadcast(s, x.shape, (*range(rank - 2), rank - 1))
    return quotient(x, below, x)


def _dot(x: Array, y: Array) -> Array:
    """Sums of products along rows, from the first element to the last."""
    if x.shape[-1] == 0:
        return np.zeros(x.shape[:-1], x.dtype)
    return np.add.accumulate(x * y, -1)[..., -1]


def _sweep(x: Array, rows: Array) -> Array:
    """One rotation for each pair of rows that is not orthogonal; whether there was one.

    Sweeps would come to no end over products and squares of lengths that are below the smallest
    normal number, as these have few digits, and over angles whose squares are.
    """
    n, zero = x.shape[1], np.asarray(0, x.dtype)
    limit = np.sqrt(np.asarray(x.shape[2], x.dtype)) * np.finfo(x.dtype).eps
    again, small = np.zeros(len(x), bool), bound(x.dtype, 1)
    for p in range(n):
        for q in range(p + 1, n):
            a, b, c = _dot(x[:, p], x[:, p]), _dot(x[:, q], x[:, q]), _dot(x[:, p], x[:, q])
            least = np.maximum(small, bound(x.dtype, 2) * np.maximum(a, b))
            sizes = np.sqrt(np.maximum(a, small)) * np.sqrt(np.maximum(b, small))
            turns = np.abs(c) > np.maximum(limit * sizes, least)
            again |= turns
            cosine, sine, *_ = angle(a, b, np.where(turns, c, zero), False)
            rotate(x, p, q, cosine, sine)
            rotate(rows, p, q, cosine, sine)
    return again
