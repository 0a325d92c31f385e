"""The Cholesky factor of a symmetric positive definite matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm.ir import Array, Dim, TensorType, Value, splat, zeros
from dlvm.ir.properties import Of, Properties
from dlvm.ir.sizes.dims import floordiv
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.movement import Reshape
from dlvm.ops.arrays.sections import Concat
from dlvm.ops.arrays.sums import Broadcast
from dlvm.ops.elements.logic import Select
from dlvm.ops.elements.magnitude import IsNan
from dlvm.ops.families import Factorisation

from .triangles import block, half_diagonal, lower, spans
from .triangular import TriangularSolve, in_groups


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

    def in_blocks(self, size: int) -> tuple[Value, ...]:
        """Column by column of blocks: the factor of the block on the diagonal, what lies below, by
        substitution, and the rest of the matrix less a product. NaN of a block gets to all later
        ones, so the last element says whether all pivots were positive.
        """
        n, last = int(self.type.shape[-1]), self.type.rank - 1
        left, columns, batch = self.a, list[Value](), self.type.shape[:-2]
        for start, width in spans(n, size):
            here, rest = (0, width), (width, n - start - width)
            column: list[Value] = [Cholesky(block(left, here, here))]
            if rest[1] > 0:
                turned = in_groups(column[-1], transposed(block(left, rest, here)), size)
                below = transposed(turned)
                left = block(left, rest, rest) - Matmul(below, turned)
                column.append(below)
            above = [zeros(self.type.with_shape((*batch, start, width)))] if start else []
            columns.append(Concat((*above, *column), last - 1))
        whole = Concat(tuple(columns), last)
        corner = Reshape(block(whole, (n - 1, 1), (n - 1, 1)), batch)
        failed = Broadcast(IsNan(corner), whole.shape, tuple(range(last - 1)))
        return (Select(failed, splat(math.nan, whole.type), whole),)

    def flops(self) -> Dim:
        return floordiv(self.type.size * self.type.shape[-1], 3)
