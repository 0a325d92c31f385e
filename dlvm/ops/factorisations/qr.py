"""The QR factorisation by Householder reflections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.ir import Array, Dim, TensorType, Value
from dlvm.ir.properties import NONE, Of, Properties
from dlvm.ir.sizes.dims import minimum
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.sections import Concat
from dlvm.ops.families import Factorisation

from .panels import PANEL, qr_by_panels
from .triangles import block, mirrored, upper
from .triangular import TriangularSolve


class QR(Factorisation):
    """``Q R = A``: orthonormal columns, as many as the smaller size, and an upper triangle.

    Each diagonal element of ``R`` has the sign opposite to that of the element which its
    reflection starts from, as LAPACK has it; where all below that element are zero there is no
    reflection, and it stays as it is. So ``Q`` and ``R`` are the same in every run.
    """

    name = "qr"
    orthonormal_columns = (0,)
    a: Value

    def infer(self) -> tuple[TensorType, ...]:
        """``Q`` of m x k and ``R`` of k x n, for the smaller k of m and n."""
        a = self.matrix(self.a, square=False)
        (m, n), batch = a.shape[-2:], a.shape[:-2]
        k = minimum(m, n)
        return a.with_shape((*batch, m, k)), a.with_shape((*batch, k, n))

    def properties_of_result(self, index: int, of: Of) -> Properties:
        """``R`` is an upper triangle, and ``Q`` orthogonal where it is square."""
        q = self.results[0]
        if index == 1:
            return frozenset(("upper",))
        return frozenset(("orthogonal",)) if q.shape[-1] == q.shape[-2] else NONE

    def reference(self, *operands: Array) -> Any:
        return householder(operands[0])

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``(dQ' + Q copyltu(M)) inv(R)'`` with ``M = R dR' - dQ'' Q``; see ``wide``."""
        (q, r), (dq, dr) = self.results, dy
        dr = upper(dr)
        size = q.shape[-1]
        more = r.shape[-1] - size
        first, dfirst = _columns(r, 0, size), _columns(dr, 0, size)
        if more != 0:  # the columns of A beyond the square part depend on Q alone
            dq = dq + Matmul(_columns(self.a, size, more), transposed(_columns(dr, size, more)))
        m = Matmul(first, transposed(dfirst)) - Matmul(transposed(dq), q)
        rows = transposed(dq + Matmul(q, mirrored(m)))
        da = transposed(TriangularSolve(first, rows, False))
        if more == 0:
            return (da,)
        rest = Matmul(q, _columns(dr, size, more))
        return (Concat((da, rest), da.type.rank - 1),)

    def in_blocks(self, size: int) -> tuple[Value, ...]:
        """By panels of columns: the host counts them, so that they need be no wider."""
        return qr_by_panels(self.a, min(size, PANEL))

    def flops(self) -> Dim:
        m, n = self.a.shape[-2:]
        return 4 * self.a.type.size * minimum(m, n)


def _columns(x: Value, start: Dim, count: Dim) -> Value:
    return block(x, (0, x.shape[-2]), (start, count))


def householder(a: Array) -> tuple[Array, Array]:
    """Both factors, by one reflection for each column."""
    x = np.array(a)
    m, n = x.shape[-2:]
    size = min(m, n)
    scales = [_reflector(x, k) for k in range(size)]
    return unitary(x, scales), np.triu(x[..., :size, :])


def unitary(x: Array, scales: Sequence[Array]) -> Array:
    """The first columns of a product of reflections; their reflectors are below the diagonal."""
    m, size = x.shape[-2], len(scales)
    q = np.broadcast_to(np.eye(m, size, dtype=x.dtype), (*x.shape[:-1], size)).copy()
    for k in reversed(range(size)):
        _reflect(q, x[..., k + 1 :, k], scales[k], k, k)
    return q


def _reflector(x: Array, k: int) -> Array:
    """Make column k a multiple of the k-th unit vector, and reflect the columns behind it.

    Below the diagonal the reflector ``v`` is left, whose first element is 1. The factor t of
    ``I - t v v'`` is given. Both are computed from the column divided by its largest element, and
    so match where the column is of subnormal numbers: ``I - t v v'`` is orthogonal for
    ``t = 2 / v'v`` alone.
    """
    column, first = x[..., k + 1 :, k], x[..., k, k].copy()
    largest = np.abs(first)
    for i in range(column.shape[-1]):
        largest = np.maximum(largest, np.abs(column[..., i]))
    largest = np.where(largest == 0, 1, largest).astype(x.dtype)
    below = np.zeros_like(first)
    for i in range(column.shape[-1]):
        part = column[..., i] / largest
        below = below + part * part
    part = first / largest
    none = below == 0
    end = -np.copysign(np.sqrt(part * part + below), part)
    scale = np.where(none, 0, (end - part) / end).astype(x.dtype)
    x[..., k, k] = np.where(none, first, largest * end)
    whole, apart = largest[..., None], (part - end)[..., None]
    x[..., k + 1 :, k] = np.where(none[..., None], 0, column / whole / apart)
    _reflect(x, x[..., k + 1 :, k], scale, k, k + 1)
    return scale


def _reflect(x: Array, v: Array, scale: Array, k: int, start: int) -> None:
    """``X - t v (v' X)`` of the columns from ``start`` on, row by row."""
    total = x[..., k, start:].copy()
    for i in range(v.shape[-1]):
        total += v[..., i, None] * x[..., k + 1 + i, start:]
    total *= scale[..., None]
    x[..., k, start:] -= total
    x[..., k + 1 :, start:] -= v[..., :, None] * total[..., None, :]
