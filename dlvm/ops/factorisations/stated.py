"""Results that factors give, with derivatives that need none of the factors.

The factors say only how a result was computed. Its derivative is that of the function of the matrix
itself, which also exists where that of the factors does not.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dlvm.base.errors import ShapeError
from dlvm.ir import I64, Array, Dim, TensorType, Value, splat
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.sums import Broadcast
from dlvm.ops.families import Factorisation

from .lu import Solve
from .triangles import diagonal_of


class Stated(Factorisation):
    """Is one of its operands, whose derivative it states."""

    given: ClassVar[int] = -1
    """Which one."""

    def reference(self, *operands: Array) -> Any:
        return operands[self.given]

    def lowering(self) -> Value:
        """What it was given."""
        return self.operands[self.given]

    def flops(self) -> Dim:
        return 0


class PseudoInverse(Stated):
    """``p``, which is the pseudo-inverse of ``a`` where its rank does not change.

    Where the rank changes there is no derivative; what is given is that of constant rank.
    """

    name = "pseudo_inverse"
    a: Value
    p: Value

    def infer(self) -> TensorType:
        """The type of ``p``: that of the transpose of ``a``."""
        a, p = self.matrix(self.a, square=False), self.matrix(self.p, square=False)
        turned = a.with_shape((*a.shape[:-2], a.shape[-1], a.shape[-2]))
        if p != turned:
            raise ShapeError(f"{self.name}: expected the transposed type {turned}, found {p}")
        return p

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``-P' G P' + (I - A P) G' P P' + P' P G' (I - P A)`` (Golub and Pereyra 1973)."""
        g, p, a = transposed(dy[0]), transposed(self), self.a
        inner = Matmul(p, Matmul(transposed(g), p))
        right = Matmul(Matmul(g, self), p)
        left = Matmul(p, Matmul(self, g))
        right = right - Matmul(a, Matmul(self, right))
        left = left - Matmul(Matmul(left, self), a)
        return right + left - inner, None


class LeastSquares(Stated):
    """``x``, which is ``p @ b``: the smallest solution of ``a @ x = b`` by least squares.

    ``p`` is the pseudo-inverse of ``a``. Only derivatives are made of it, so a program that takes
    none does not compute it. They are those of matrices of the same rank.
    """

    name = "least_squares"
    a: Value
    b: Value
    p: Value
    x: Value

    def infer(self) -> TensorType:
        """The type of ``x``: a row for each column of ``a``, a column for each one of ``b``."""
        a, b, p, x = (self.matrix(v, square=False) for v in self.operands)
        (m, n), columns, batch = a.shape[-2:], b.shape[-1], a.shape[:-2]
        shapes = ((m, n), (m, columns), (n, m), (n, columns))
        expected = [a.with_shape((*batch, *s)) for s in shapes]
        if [a, b, p, x] != expected:
            said = f"{self.name}: expected operands of the types {expected}, found {[a, b, p, x]}"
            raise ShapeError(said)
        return x

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``dB = P' G`` and ``dA = -dB X' + (B - A X) (P dB)' + P' X (G - A' dB)'``."""
        a, b, p, turned = self.a, self.b, self.p, transposed(self.p)
        db = Matmul(turned, dy[0])
        left = Matmul(b - Matmul(a, self), transposed(Matmul(p, db)))
        right = Matmul(Matmul(turned, self), transposed(dy[0] - Matmul(transposed(a), db)))
        return left + right - Matmul(db, transposed(self)), db, None, None


class OfFactors(Stated):
    """A number ``d`` for each matrix of ``a``, which its factors gave."""

    lowered_late = True
    given = 3
    a: Value
    packed: Value
    order: Value
    d: Value

    def infer(self) -> TensorType:
        """A number for each matrix."""
        a, d = self.matrix(self.a), self.a.type.with_shape(self.a.shape[:-2])
        found = [x.type for x in self.operands[1:]]
        expected = [a, TensorType(I64, a.shape[:-1]), *(d for _ in found[2:])]
        if found != expected:
            said = f"{self.name}: expected operands of the types {expected}, found {found}"
            raise ShapeError(said)
        return d


class LogDeterminant(OfFactors):
    """``d``, the logarithm of the magnitude of the determinant of ``a``; its gradient is inv(A)'.

    The factors say how the inverse is computed. Derivatives need none of theirs.
    """

    name = "log_determinant"

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``G inv(A)'``."""
        wide = Broadcast(dy[0], self.a.shape, tuple(range(self.a.type.rank - 2)))
        return wide * turned_inverse(self.a, self.packed, self.order), None, None, None


def turned_inverse(a: Value, packed: Value, order: Value) -> Value:
    """``inv(A)'`` by the factors of A."""
    one = diagonal_of(splat(1.0, a.type.with_shape(a.shape[:-1])))
    return Solve(a, packed, order, one, True)


class Determinant(OfFactors):
    """``d``, the determinant of ``a``, whose gradient are the cofactors.

    They are ``near * inv(A)'`` by the factors of a matrix that may differ from ``a`` by rounding
    errors, and so has an inverse; ``near`` is its determinant. So derivatives of every order are
    also right where ``a`` is singular.
    """

    name = "determinant"
    near: Value

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``G near inv(A)'``."""
        a, packed, order = self.a, self.packed, self.order
        turned = turned_inverse(a, packed, order)
        size = dy[0] * Determinant(a, packed, order, self.near, self.near)
        wide = Broadcast(size, a.shape, tuple(range(a.type.rank - 2)))
        return wide * turned, None, None, None, None
