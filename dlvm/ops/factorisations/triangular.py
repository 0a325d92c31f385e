"""Solves with triangular matrices, by substitution."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ir import Array, Dim, TensorType, Value
from dlvm.ir.sizes.dims import floordiv
from dlvm.ir.sizes.equations import unequal
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.movement import Permute, Reshape
from dlvm.ops.arrays.sections import Concat, Pad
from dlvm.ops.arrays.sums import Broadcast
from dlvm.ops.families import Factorisation

from .triangles import block, lower, spans, upper


class TriangularSolve(Factorisation):
    """``X`` with ``T X = B``, or ``T' X = B`` if ``transposed``, for a triangular ``T``.

    Of ``t`` the ``lower`` triangle is read, or the upper one; with ``unit`` its diagonal is not
    read either, and taken to be 1. A zero on the diagonal divides as numbers do. Each element of
    ``X`` is one chain of steps in the order of substitution, each product and difference rounded.
    """

    name = "triangular_solve"
    searched = (0,)
    t: Value
    b: Value
    lower: bool = True
    transposed: bool = False
    unit: bool = False

    def infer(self) -> TensorType:
        """The type of ``b``."""
        t, b = self.matrix(self.t), self.matrix(self.b, square=False)
        if t.dtype != b.dtype:
            raise DTypeError(f"{self.name}: expected one element type, found {t} and {b}")
        if t.rank != b.rank or t.shape[:-1] != b.shape[:-1]:
            said = f"{self.name}: expected as many rows and the same batch axes, found {t} and {b}"
            raise ShapeError(said, sides=unequal(t.shape[:-1], b.shape[:-1]))
        return b

    def reference(self, *operands: Array) -> Any:
        t, b = operands
        return substituted(t, b, self.lower, self.transposed, self.unit)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        db = self.rebuild((self.t, dy[0]), transposed=not self.transposed).results[0]
        left, right = (self, db) if self.transposed else (db, self)
        dt = -Matmul(left, transposed(right))
        return (lower(dt, -self.unit) if self.lower else upper(dt, +self.unit)), db

    def in_blocks(self, size: int) -> tuple[Value, ...]:
        """Some rows after the others: those left take in what is solved for, times a block."""
        n, columns = int(self.t.shape[-1]), (0, self.type.shape[-1])
        forward, left, found = self.lower != self.transposed, self.b, list[Value]()
        every = list(spans(n, size))
        for start, count in every if forward else reversed(every):
            here, rest = (
                (start, count),
                (start + count, n - start - count) if forward else (0, start),
            )
            first = 0 if forward else start
            triangle, rows = block(self.t, here, here), block(left, (first, count), columns)
            found.append(in_groups(triangle, rows, size, self.lower, self.transposed, self.unit))
            if rest[1] > 0:
                across = (here, rest) if self.transposed else (rest, here)
                t = block(self.t, *across)
                taken = Matmul(transposed(t) if self.transposed else t, found[-1])
                left = block(left, (count if forward else 0, rest[1]), columns) - taken
        return (Concat(tuple(found if forward else found[::-1]), self.type.rank - 2),)

    def flops(self) -> Dim:
        return self.type.size * self.t.shape[-1]


def in_groups(
    t: Value,
    b: Value,
    size: int,
    lower: bool = True,
    transposed: bool = False,
    unit: bool = False,
) -> Value:
    """A triangular solve of at most ``size`` columns at a time, each group one of a batch."""
    (*batch, n, columns), rank = b.shape, b.type.rank
    if isinstance(columns, int) and columns <= size:
        return TriangularSolve(t, b, lower, transposed, unit)
    groups = floordiv(columns + (size - 1), size)
    left = groups * size - columns
    if left != 0:
        b = Pad(b, (0,) * rank, (*(0,) * (rank - 1), left))
    apart = (*range(rank - 2), rank - 1, rank - 2, rank)  # groups before rows, and back
    wide = Reshape(b, (*batch, n, groups, size))
    each = Broadcast(t, (*batch, groups, n, n), (*range(rank - 2), rank - 1, rank))
    x = TriangularSolve(each, Permute(wide, apart), lower, transposed, unit)
    whole = Reshape(Permute(x, apart), (*batch, n, groups * size))
    return block(whole, (0, n), (0, columns))


def substituted(t: Array, b: Array, lower: bool, transposed: bool, unit: bool) -> Array:
    """What a triangular solve gives, as NumPy computes it."""
    t, x, n = np.swapaxes(t, -1, -2) if transposed else t, np.array(b), t.shape[-1]
    forward = lower != transposed
    for k in range(n) if forward else reversed(range(n)):
        if not unit:
            x[..., k, :] /= t[..., k, k, None]
        left = slice(k + 1, None) if forward else slice(None, k)
        x[..., left, :] -= t[..., left, k, None] * x[..., k, None, :]
    return x
