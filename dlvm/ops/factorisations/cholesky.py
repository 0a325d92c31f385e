"""The Cholesky factor of a symmetric positive definite matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.ir import Array, Dim, TensorType, Value
from dlvm.ir.properties import Of, Properties
from dlvm.ir.sizes.dims import floordiv
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.families import Factorisation

from .triangles import half_diagonal, lower
from .triangular import TriangularSolve


class Cholesky(Factorisation):
    """The lower triangular ``L`` with ``L L' = A`` and a positive diagonal.

    Only the lower triangle of ``a`` is read. Where a pivot is not positive, ``A`` is not positive
    definite as far as floats can tell, and all of its ``L`` is NaN.
    """

    name = "cholesky"
    a: Value

    def infer(self) -> TensorType:
        """The type of the operand."""
        return self.matrix(self.a)

    def properties(self, of: Of) -> Properties:
        """Lower triangular."""
        return frozenset(("lower",))

    def reference(self, *operands: Array) -> Any:
        x = np.tril(operands[0])
        positive = np.ones((*x.shape[:-2], 1, 1), bool)
        for k in range(x.shape[-1]):
            pivot = x[..., k, k, None]
            positive &= (pivot > 0)[..., None]
            root = np.sqrt(pivot)
            x[..., k, k, None] = root
            x[..., k + 1 :, k] /= root
            column = x[..., k + 1 :, k]
            x[..., k + 1 :, k + 1 :] -= column[..., :, None] * column[..., None, :]
        return np.where(positive, np.tril(x), np.asarray(np.nan, x.dtype))

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``S + S' - diag(S)``, lower part, for ``S = inv(L)' Phi(L' G) inv(L)`` made symmetric."""
        inner = half_diagonal(Matmul(transposed(self), lower(dy[0])))
        half = TriangularSolve(self, inner, True, True)
        full = TriangularSolve(self, transposed(half), True, True)
        return (half_diagonal(full + transposed(full)),)

    def flops(self) -> Dim:
        return floordiv(self.type.size * self.type.shape[-1], 3)
