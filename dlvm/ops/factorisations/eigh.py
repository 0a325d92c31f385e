"""The eigenvalues and eigenvectors of symmetric matrices.

Small ones, and those of which all digits are requested, become diagonal by Jacobi rotations, others
by way of three diagonals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.ir import Array, Dim, TensorType, Value
from dlvm.ir.properties import NONE, Of, Properties
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.sums import Broadcast
from dlvm.ops.elements.logic import And
from dlvm.ops.families import Factorisation

from .rotations import (
    SWEEPS,
    angle,
    identities,
    in_order,
    quotient,
    rotate,
    signs,
    signs_of_columns,
    swept,
)
from .rounds import eigenpairs, finite_or_zero, sorted_by, where_solved
from .triangles import diagonal_of, half_diagonal, mirrored, off_diagonal
from .tridiagonal import bound, eigen, scale_of

ROTATED = 6
"""Rows up to which rotations are faster than three diagonals."""


class Eigh(Factorisation):
    """``w`` ascending and orthogonal ``V`` with ``A V = V diag(w)``; of ``a`` the lower triangle.

    Of each column of ``V`` the first element that has at least 3/4 of the largest magnitude is
    positive. A matrix with an infinity or NaN gives NaN throughout, as would one whose sweeps come
    to no end (none is known). Eigenvectors of equal
    eigenvalues are no function of the matrix: cotangents of theirs give NaN. If it is ``accurate``,
    rotations find it at any size, until elements are small beside those of the diagonal in their
    row and column: small eigenvalues of a definite matrix whose rows and columns are scaled then
    have all their digits (Demmel and Veselic 1992).
    """

    name = "eigh"
    a: Value
    accurate: bool = False

    def infer(self) -> tuple[TensorType, ...]:
        """A vector of eigenvalues, and the type of the operand."""
        a = self.matrix(self.a)
        return a.with_shape(a.shape[:-1]), a

    def properties_of_result(self, index: int, of: Of) -> Properties:
        """Eigenvectors are orthogonal."""
        return frozenset(("orthogonal",)) if index == 1 else NONE

    def reference(self, *operands: Array) -> Any:
        shape = operands[0].shape
        n, count = shape[-1], int(np.prod(shape[:-2]))
        x = operands[0].reshape(count, n, n)
        x = np.where(np.tril(np.ones((n, n), bool)), x, np.swapaxes(x, -1, -2))
        finite = np.asarray(np.isfinite(x).all((1, 2)))
        x = np.where(finite[:, None, None], x, np.asarray(0, x.dtype))
        few = _rotated if n <= ROTATED else eigen
        values, rows, ended = (_rotated_to_all_digits if self.accurate else few)(x)
        in_order(values, rows)
        rows = rows * signs(rows)[..., None]
        nan, finite = np.asarray(np.nan, x.dtype), finite & ended
        values = np.where(finite[:, None], values, nan)
        vectors = np.where(finite[:, None, None], np.swapaxes(rows, -1, -2), nan)
        return values.reshape(shape[:-1]), vectors.reshape(shape)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``V (diag(dw) + F o (M - M')/2) V'`` with ``M = V' dV`` and ``F[i,j] = 1/(w[j]-w[i])``.

        It is added to its transpose, as only one triangle is read.
        """
        (w, v), (dw, dv) = self.results, dy
        m = off_diagonal(Matmul(transposed(v), dv))
        rank, last = m.type.rank, m.type.rank - 1
        batch = tuple(range(last - 1))
        apart = Broadcast(w, m.shape, (*batch, rank - 1)) - Broadcast(
            w, m.shape, (*batch, last - 1)
        )
        turning = quotient((m - transposed(m)) * 0.5, apart, m, transposed(m))
        inner = diagonal_of(dw) + off_diagonal(turning)
        full = Matmul(Matmul(v, inner), transposed(v))
        return (half_diagonal(full + transposed(full)),)

    def in_blocks(self, size: int) -> tuple[Value, ...]:
        """By rotations of all rows at once, which have no blocks."""
        x, finite = finite_or_zero(mirrored(self.a))
        values, rows, ended = eigenpairs(x, self.accurate)
        values, rows = sorted_by(values, rows)
        v, solved = transposed(rows), And(finite, ended)
        rank, sign = v.type.rank, signs_of_columns(v)
        v = v * Broadcast(sign, v.shape, (*range(rank - 2), rank - 1))
        return where_solved(solved, values), where_solved(solved, v)

    def flops(self) -> Dim:
        """Of three diagonals, of their reflections, and of rotations of the vectors; or of some
        nine sweeps of rotations of rows and columns.
        """
        return (54 if self.accurate else 9) * self.a.type.size * self.a.shape[-1]


def _rotated(x: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues in no order, their vectors as rows, and whether sweeps came to an end."""
    x, rows = x.copy(), identities(len(x), x.shape[-1], x)
    eps = np.finfo(x.dtype).eps
    limit = np.abs(x).max((1, 2), initial=0) * eps
    ended = np.zeros(len(x), bool)
    for _ in range(SWEEPS):
        beside = np.abs(np.tril(x, -1)).max((1, 2), initial=0)
        ended |= ~(beside > limit)
        left = np.flatnonzero(~ended)
        if not len(left):
            break
        some, turned = x[left], rows[left]
        _sweep(some, turned, False)
        x[left], rows[left] = some, turned
    return np.diagonal(x, 0, 1, 2).copy(), rows, ended


def _rotated_to_all_digits(x: Array) -> tuple[Array, Array, Array]:
    """The same, by sweeps until each element is small beside two of the diagonal."""
    scale = scale_of(np.abs(x).max((1, 2), initial=0))
    x = x / scale[:, None, None]
    rows, ended = swept(x, lambda some, turned: _sweep(some, turned, True))
    return np.diagonal(x, 0, 1, 2) * scale[:, None], rows, ended


def _sweep(x: Array, rows: Array, relative: bool) -> Array:
    """One rotation for each pair of rows and columns; whether there was one.

    If it is ``relative``, there is none where the element of a pair is small beside the root of the
    product of its diagonal elements, or below the smallest normal number: it is then set to zero.
    """
    n, again = x.shape[-1], np.zeros(len(x), bool)
    eps, small = np.finfo(x.dtype).eps, bound(x.dtype, 1)
    for p in range(n):
        for q in range(p + 1, n):
            a, b, c = x[:, p, p].copy(), x[:, q, q].copy(), x[:, p, q].copy()
            if relative:
                roots = np.sqrt(np.abs(a)) * np.sqrt(np.abs(b))
                turns = np.abs(c) > np.maximum(roots * eps, small)
                c = np.where(turns, c, np.asarray(0, x.dtype))
                again |= turns
            cosine, sine, first, second = angle(a, b, c, True)
            rotate(x, p, q, cosine, sine)
            x[:, :, p], x[:, :, q] = x[:, p].copy(), x[:, q].copy()
            x[:, p, p], x[:, q, q] = first, second
            x[:, p, q] = x[:, q, p] = 0
            rotate(rows, p, q, cosine, sine)
    return again
