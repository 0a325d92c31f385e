"""The LU factorisation with row exchanges, and solves with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ir import I64, Array, Dim, TensorType, Value, splat, zeros
from dlvm.ir.sizes.dims import at_least, floordiv
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.extremes import Max
from dlvm.ops.arrays.indexing import Gather, ScatterAdd
from dlvm.ops.arrays.movement import Diagonal
from dlvm.ops.arrays.sections import Concat, Slice
from dlvm.ops.arrays.sums import Broadcast
from dlvm.ops.elements.logic import Equal, Select
from dlvm.ops.families import Factorisation
from dlvm.ops.literals import Iota

from .triangles import block, lower, spans, upper
from .triangular import TriangularSolve, in_groups, substituted


class LU(Factorisation):
    """``L`` and ``U`` in one matrix, and the order of rows with ``A[order] = L U``.

    There are at least as many rows as columns, and a program has square matrices only: passes make
    others. ``U`` is the upper triangle and ``L`` lies below the diagonal, which is 1 in it. In
    each step the row with the largest pivot comes next, of equal ones the first, and NaN is none.
    A column of zeros below the diagonal stays as it is, with a zero in ``U``: its determinant is 0.
    """

    name = "lu"
    a: Value

    def infer(self) -> tuple[TensorType, ...]:
        """The type of the operand, and an i64 for each row."""
        a = self.matrix(self.a, square=False)
        rows, columns = a.shape[-2:]
        if rows != columns and not at_least(rows, columns):
            raise ShapeError(f"lu: expected at least as many rows as columns, found {a}")
        return a, TensorType(I64, a.shape[:-1])

    def reference(self, *operands: Array) -> Any:
        shape = operands[0].shape
        m, n = shape[-2:]
        x = np.array(operands[0]).reshape(math.prod(shape[:-2]), m, n)
        order: Array = np.zeros((len(x), m), np.int64) + np.arange(m, dtype=np.int64)
        each = np.arange(len(x))
        for k in range(n):
            _exchange(x, order, each, k, k + _largest(x[:, k:, k]))
            pivot = x[:, k, k, None]
            column = np.where(pivot == 0, x[:, k + 1 :, k], x[:, k + 1 :, k] / pivot)
            x[:, k + 1 :, k] = column
            x[:, k + 1 :, k + 1 :] -= column[:, :, None] * x[:, k, None, k + 1 :]
        return x.reshape(shape), order.reshape(shape[:-1])

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``P' inv(L)' (tril(L' dL, -1) + triu(dU U')) inv(U)'``.

        Rows below the square part are ``L2 = A2 inv(U)``: ``dA2 = dL2 inv(U)'``, and ``-L2' dA2``
        comes to ``dU``.
        """
        packed, order = self.results
        (top, more), (d, dmore) = map(_square_and_more, (packed, dy[0]))
        dl, du, last = lower(d, -1), upper(d), self.a.type.rank - 1
        dmore = transposed(TriangularSolve(top, transposed(dmore), False))
        if dmore.shape[-2] != 0:
            du = du - upper(Matmul(transposed(more), dmore))
        below = lower(Matmul(transposed(lower(top, -1)), dl) + dl, -1)
        above = upper(Matmul(du, transposed(upper(top))))
        left = TriangularSolve(top, below + above, True, True, True)
        rows: Value = transposed(TriangularSolve(top, transposed(left), False))
        if dmore.shape[-2] != 0:
            rows = Concat((rows, dmore), last - 1)
        return (_back(rows, order),)

    def in_blocks(self, size: int) -> tuple[Value, ...]:
        """A panel of columns after the other: its factors as a whole, then all rows in its order,
        by substitution the rows that are done, and those left less a product.
        """
        m, n, last = self.a.shape[-2], int(self.a.shape[-1]), self.a.type.rank - 1
        order: Value = Broadcast(Iota(m, I64), self.a.shape[:-1], (last - 1,))
        left, done, orders = self.a, list[Value](), list[Value]()
        for start, width in spans(n, size):
            here, below = (0, width), (width, m - start - width)
            before, after = (0, start), (start + width, n - start - width)
            panel, places = LU(block(left, (0, m - start), (start, width))).results
            left = Gather(left, places, last - 1, last - 1, "clip")
            order = Gather(order, places, last - 1, last - 1, "clip")
            above, under = block(panel, here, here), block(panel, below, here)
            row = [block(left, here, before), above]
            rest = [block(left, below, before), under]
            if after[1] > 0:
                row.append(in_groups(above, block(left, here, after), size, True, False, True))
                rest.append(block(left, below, after) - Matmul(under, row[-1]))
            some = slice(0 if start else 1, None)  # nothing is before the first panel
            done.append(Concat(tuple(row[some]), last))
            left = Concat(tuple(rest[some]), last)
            orders.append(_rows(order, here))
            order = _rows(order, below)
        if m != n:
            done.append(left)
            orders.append(order)
        return Concat(tuple(done), last - 1), Concat(tuple(orders), last - 1)

    def flops(self) -> Dim:
        return floordiv(2 * self.a.type.size * self.a.shape[-1], 3)


class Solve(Factorisation):
    """``X`` with ``A X = B``, or ``A' X = B`` if ``transposed``, by the LU factors of ``A``.

    ``packed`` and ``order`` are those of ``LU(a)`` and only say how: the derivative is that of
    ``inv(A) B`` with respect to ``a`` and ``b``, and needs no derivative of the factors. Where
    ``U`` has a zero on its diagonal, ``A`` is singular and all of its ``X`` is NaN.
    """

    name = "solve"
    lowered_late = True
    a: Value
    packed: Value
    order: Value
    b: Value
    transposed: bool = False

    def infer(self) -> TensorType:
        """The type of ``b``."""
        a, b = self.matrix(self.a), self.matrix(self.b, square=False)
        rows = TensorType(I64, a.shape[:-1])
        if self.packed.type != a or self.order.type != rows:
            found = f"{self.packed.type} and {self.order.type}"
            raise ShapeError(f"{self.name}: expected the factors {a} and {rows}, found {found}")
        if a.dtype != b.dtype:
            raise DTypeError(f"{self.name}: expected one element type, found {a} and {b}")
        if a.rank != b.rank or a.shape[:-1] != b.shape[:-1]:
            said = f"{self.name}: expected as many rows and the same batch axes, found {a} and {b}"
            raise ShapeError(said)
        return b

    def reference(self, *operands: Array) -> Any:
        _, packed, order, b = operands
        singular = (np.diagonal(packed, axis1=-2, axis2=-1) == 0).any(-1)[..., None, None]
        return np.where(singular, np.asarray(np.nan, b.dtype), self._substituted(packed, order, b))

    def _substituted(self, packed: Array, order: Array, b: Array) -> Array:
        rows = np.clip(order, 0, max(b.shape[-2] - 1, 0)).astype(np.int64)[..., None]
        if not self.transposed:
            x = substituted(packed, np.take_along_axis(b, rows, -2), True, False, True)
            return substituted(packed, x, False, False, False)
        x = substituted(packed, b, False, True, False)
        x = substituted(packed, x, True, True, True)
        out = np.zeros_like(x)
        np.put_along_axis(out, rows, x + 0, -2)  # added to zeros, so that none is negative
        return out

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``dB = inv(A)' G`` and ``dA = -dB X'``."""
        turned = not self.transposed
        db = Solve(self.a, self.packed, self.order, dy[0], turned)
        left, right = (self, db) if self.transposed else (db, self)
        return -Matmul(left, transposed(right)), None, None, db

    def lowering(self) -> Value:
        """Two triangular solves, before or after which rows are put in order."""
        zero = Equal(Diagonal(self.packed), zeros(self.order.type.with_dtype(self.b.dtype)))
        batch = tuple(range(self.type.rank - 2))
        singular = Broadcast(Max(zero, (len(batch),)), self.type.shape, batch)
        return Select(singular, splat(math.nan, self.type), self._substitutions())

    def _substitutions(self) -> Value:
        p = self.packed
        if self.transposed:
            x = TriangularSolve(p, self.b, False, True)
            return _back(TriangularSolve(p, x, True, True, True), self.order)
        last = self.b.type.rank - 2
        x = Gather(self.b, self.order, last, last, "clip")
        return TriangularSolve(p, TriangularSolve(p, x, True, False, True), False)

    def flops(self) -> Dim:
        return 2 * self.type.size * self.a.shape[-1]


def _square_and_more(x: Value) -> tuple[Value, Value]:
    """The first rows, as many as there are columns, and those below."""
    (m, n), columns = x.shape[-2:], (0, x.shape[-1])
    return block(x, (0, n), columns), block(x, (n, m - n), columns)


def _rows(order: Value, rows: tuple[Dim, Dim]) -> Value:
    """Some elements of an order: the first of them, and how many."""
    batch, rank = order.shape[:-1], order.type.rank
    return Slice(order, (*(0,) * (rank - 1), rows[0]), (*batch, rows[1]), (1,) * rank)


def _back(rows: Value, order: Value) -> Value:
    """Rows that were put in an order, where they were before."""
    axis = rows.type.rank - 2
    return ScatterAdd(zeros(rows.type), order, rows, axis, axis, "clip")


def _largest(column: Array) -> Any:
    """The place of the first largest magnitude; NaN counts only where it stands first."""
    size = np.abs(column)
    size[size != size] = -1
    size[column[:, 0] != column[:, 0], 0] = np.inf
    return np.argmax(size, -1)


def _exchange(x: Array, order: Array, each: Array, k: int, p: Any) -> None:
    """Exchange rows k and p of each matrix."""
    for rows in (x, order):
        rows[each, k], rows[each, p] = rows[each, p], rows[each, k].copy()
