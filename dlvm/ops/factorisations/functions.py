"""Functions of symmetric matrices, whose derivatives need divided differences of the function.

For ``A = V diag(w) V'`` a function f of numbers gives ``f(A) = V diag(f(w)) V'``. The derivative in
a direction G is ``V (D o V'GV) V'``, where ``D[i,j]`` is the divided difference of f at ``w[i]``
and ``w[j]`` (Daleckii and Krein 1965); its own derivative has divided differences at three places.
These exist at equal eigenvalues, where derivatives of the eigenvectors do not. The operations get
tables of divided differences as operands; who makes them knows f.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import ShapeError
from dlvm.ir import Array, Dim, TensorType, Value
from dlvm.ir.properties import Of, Properties
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.sums import Broadcast, Sum
from dlvm.ops.families import Factorisation


def _demand(op: Factorisation, a: TensorType, *found: tuple[Value, int]) -> None:
    """Each operand has the element type and the batch of ``a``, and as many sizes as is stated."""
    for x, rank in found:
        expected = a.with_shape((*a.shape[:-2], *(a.shape[-1],) * rank))
        if x.type != expected:
            raise ShapeError(
                f"{op.name}: expected an operand of the type {expected}, found {x.type}"
            )


def _inside(v: Value, x: Value) -> Value:
    """``V' X V``: a matrix seen from the eigenvectors."""
    return Matmul(Matmul(transposed(v), x), v)


def _outside(v: Value, x: Value) -> Value:
    """``V X V'``."""
    return Matmul(Matmul(v, x), transposed(v))


def _symmetric(x: Value) -> Value:
    return (x + transposed(x)) * 0.5


class Spectral(Factorisation):
    """``V diag(values) V'`` as a function of ``a``, whose eigenvectors are ``v``.

    ``values``, ``slopes`` and ``curvatures`` are divided differences of the function at one, two
    and three eigenvalues. They and ``v`` say what the function is; it depends on ``a`` alone.
    """

    name = "spectral"
    a: Value
    v: Value
    values: Value
    slopes: Value
    curvatures: Value

    def infer(self) -> TensorType:
        """The type of ``a``."""
        a = self.matrix(self.a)
        tables = (self.values, 1), (self.slopes, 2), (self.curvatures, 3)
        _demand(self, a, (self.v, 2), *tables)
        return a

    def properties_of_result(self, index: int, of: Of) -> Properties:
        """Symmetric, as the matrix is."""
        return frozenset(("symmetric",))

    def reference(self, *operands: Array) -> Any:
        _, v, values, *_ = operands
        return np.matmul(v * values[..., None, :], np.swapaxes(v, -1, -2))

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``V (D o V'GV) V'`` for a symmetric G."""
        g = _symmetric(dy[0])
        da = SpectralSlope(self.a, self.v, g, self.slopes, self.curvatures)
        return _symmetric(da), None, None, None, None

    def lowering(self) -> Value:
        """Scaled columns times rows."""
        rank = self.v.type.rank
        wide = Broadcast(self.values, self.v.shape, (*range(rank - 2), rank - 1))
        return Matmul(self.v * wide, transposed(self.v))

    def flops(self) -> Dim:
        return 2 * self.a.type.size * self.a.shape[-1]


class SpectralSlope(Factorisation):
    """``V (slopes o V'GV) V'``: the derivative of ``Spectral`` in the direction ``g``.

    Its derivative with respect to ``a`` is made of ``v`` and ``curvatures``, and those of higher
    order of what these depend on. The slopes have one for what else they depend on.
    """

    name = "spectral_slope"
    a: Value
    v: Value
    g: Value
    slopes: Value
    curvatures: Value

    def infer(self) -> TensorType:
        """The type of ``a``."""
        a = self.matrix(self.a)
        _demand(self, a, (self.v, 2), (self.g, 2), (self.slopes, 2), (self.curvatures, 3))
        return a

    def reference(self, *operands: Array) -> Any:
        _, v, g, slopes, _ = operands
        turned = np.swapaxes(v, -1, -2)
        inner = np.matmul(np.matmul(turned, g), v) * slopes
        return np.matmul(np.matmul(v, inner), turned)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """For a cotangent C, with ``M = V'GV`` and ``N = V'CV``: for ``g`` the same of C, for the
        slopes ``M o N``, and for ``a``, as the eigenvectors see it, the sum over i of
        ``f[i,j,k] (M[i,j] N[i,k] + N[j,i] M[k,i])``.
        """
        a, v, (c,) = self.a, self.v, dy
        m, n = _inside(v, self.g), _inside(v, c)
        dg = SpectralSlope(a, v, c, self.slopes, self.curvatures)
        first = self._pairs(transposed(m), transposed(n))
        terms = self.curvatures * (first + self._pairs(n, m))
        inner = Sum(terms, (terms.type.rank - 1,))
        return _symmetric(_outside(v, inner)), None, dg, m * n, None

    def _pairs(self, x: Value, y: Value) -> Value:
        """``x[j,i] y[k,i]`` at j, k, i."""
        shape, rank = self.curvatures.shape, self.a.type.rank
        batch = range(rank - 2)
        left = Broadcast(x, shape, (*batch, rank - 2, rank))
        return left * Broadcast(y, shape, (*batch, rank - 1, rank))

    def lowering(self) -> Value:
        """Four products."""
        return _outside(self.v, _inside(self.v, self.g) * self.slopes)

    def flops(self) -> Dim:
        return 8 * self.a.type.size * self.a.shape[-1]
