"""Solves with triangular matrices, by substitution."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ir import Array, Dim, TensorType, Value
from dlvm.ir.sizes.equations import unequal
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.families import Factorisation

from .triangles import lower, upper


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

    def flops(self) -> Dim:
        return self.type.size * self.t.shape[-1]


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
