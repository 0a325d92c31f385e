"""Eigenvalues and eigenvectors of square matrices that were computed already, with derivatives.

There are no complex numbers: of values ``w`` has the real parts in its first row and the imaginary
parts in its second; of vectors, which are columns, ``v`` has the real parts in its upper half and
the imaginary parts in its lower one. The vectors may have any lengths and angles. Derivatives say
nothing of these either, and so suit what depends on neither; to what this does, every order is
right. The formulas are those of ``dV = V (F o (inv(V) dA V))`` with ``F[i,j] = 1/(w[j] - w[i])``.
"""

from __future__ import annotations

from dlvm.base.errors import ShapeError
from dlvm.ir import TensorType, Value, splat, zeros
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.movement import Reshape
from dlvm.ops.arrays.sections import Concat, Slice
from dlvm.ops.arrays.sums import Broadcast
from dlvm.ops.elements.logic import Equal, LessEqual, Select
from dlvm.ops.elements.magnitude import Abs

from .lu import LU, Solve
from .rotations import quotient
from .stated import Stated
from .triangles import diagonal_of, off_diagonal

Parts = tuple[Value, Value]


class Eigenpairs(Stated):
    """Is ``w`` or ``v``, of which the matrix ``a`` has these as eigenvalues and eigenvectors."""

    a: Value
    w: Value
    v: Value

    def infer(self) -> TensorType:
        """The type of the operand that it is."""
        a = self.matrix(self.a)
        *batch, n = a.shape[:-1]
        expected = a.with_shape((*batch, 2, n)), a.with_shape((*batch, 2 * n, n))
        if (self.w.type, self.v.type) != expected:
            said = f"{self.w.type} and {self.v.type}"
            raise ShapeError(f"{self.name}: expected the types {expected}, found {said}")
        return expected[0] if self.given == 1 else expected[1]


class Eigenvalues(Eigenpairs):
    """``w``, the eigenvalues of ``a``; derivatives are made of the vectors ``v``."""

    name = "eigenvalues"
    given = 1

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``inv(V)* diag(dw) V*``, for the conjugate transposes."""
        dw = diagonal_of(_row(dy[0], 0)), diagonal_of(_row(dy[0], 1))
        return _turned_back(Eigenvectors(self.a, self, self.v), dw), None, None


class Eigenvectors(Eigenpairs):
    """``v``, eigenvectors of ``a``, without derivatives of their lengths and angles."""

    name = "eigenvectors"
    given = 2

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``inv(V)* (conj(F) o (V* dV)) V*``; of equal eigenvalues NaN, or 0 if no cotangent is."""
        w = Eigenvalues(self.a, self.w, self)
        inner = Matmul(transposed(_wide(self)), dy[0])
        parts = off_diagonal(_half(inner, 0)), off_diagonal(_half(inner, 1))
        return _turned_back(self, _over_conjugate(parts, _differences(w, parts[0]))), None, None


def _row(w: Value, i: int) -> Value:
    """One row of two, as an axis less."""
    *batch, _, n = w.shape
    part = Slice(w, (*(0,) * len(batch), i, 0), (*batch, 1, n), (1,) * w.type.rank)
    return Reshape(part, (*batch, n))


def _half(v: Value, i: int) -> Value:
    """The upper or the lower half."""
    *batch, _, n = v.shape
    return Slice(v, (*(0,) * len(batch), i * n, 0), (*batch, n, n), (1,) * v.type.rank)


def _wide(v: Value) -> Value:
    """``[[Re V, -Im V], [Im V, Re V]]``, by which complex numbers are multiplied."""
    turned = Concat((-_half(v, 1), _half(v, 0)), v.type.rank - 2)
    return Concat((v, turned), v.type.rank - 1)


def _turned_back(v: Value, x: Parts) -> Value:
    """The real part of ``inv(V)* X V*``."""
    real, imaginary = transposed(_half(v, 0)), transposed(_half(v, 1))
    above = Matmul(x[0], real) + Matmul(x[1], imaginary)
    below = Matmul(x[1], real) - Matmul(x[0], imaginary)
    wide = _wide(v)
    packed, order = LU(wide).results
    solved = Solve(wide, packed, order, Concat((above, below), v.type.rank - 2), True)
    return _half(solved, 0)


def _differences(w: Value, like: Value) -> Parts:
    """``w[j] - w[i]``, both parts."""
    last = like.type.rank - 1
    batch = tuple(range(last - 1))

    def apart(x: Value) -> Value:
        columns = Broadcast(x, like.shape, (*batch, last))
        return columns - Broadcast(x, like.shape, (*batch, last - 1))

    return apart(_row(w, 0)), apart(_row(w, 1))


def _over_conjugate(x: Parts, y: Parts) -> Parts:
    """``x / conj(y)``, of which no square over- or underflows; where y is 0 as ``quotient``."""
    (a, b), (p, q) = x, y
    most, one = Select(LessEqual(Abs(p), Abs(q)), q, p), splat(1.0, p.type)
    tie = Equal(most, zeros(most.type))
    by = Select(tie, one, most)
    p, q = p / by, q / by
    below = most * Select(tie, one, p * p + q * q)
    return quotient(a * p - b * q, below, a, b), quotient(a * q + b * p, below, a, b)
