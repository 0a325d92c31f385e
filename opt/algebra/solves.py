"""Inverses that are multiplied: solves with the factors, which the inverse is made of."""

from __future__ import annotations

from dlvm.ir import Value, rewrite
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import Broadcast, Gather, Matmul, Mul, Select, Sum, TriangularSolve

from .examples import identity
from .structure import is_identity


def _inverse(x: Value, order: Value) -> Value:
    """``inv(U) inv(L) P`` for L and U in one matrix; diagonals of 1 keep whole numbers whole."""
    rows = Gather(identity(x), order, 0, mode="clip")
    lower = TriangularSolve(x, rows, True, False, True)
    return TriangularSolve(x, lower, False, False, True)


def _guarded(x: Value, order: Value, y: Value, singular: Value, number: Value) -> Value:
    """Of one number everywhere where the matrix is singular."""
    inverse = _inverse(x, order)
    mask, nothing = (Broadcast(v, inverse.shape, ()) for v in (singular, number))
    return Matmul(Select(mask, nothing, inverse), y)


@rewrite(
    Matmul,
    example=(
        lambda x, i, y, c, s: Matmul(_inverse(x, i), y),
        lambda x, i, y, c, s: _guarded(x, i, y, c, s),
    ),
    given=("f[2,2]", "i[2]", "f[2,1]", "b", "f"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def inverse_times(op: Matmul) -> Value | None:
    """inv(A) B = solve(A, B), which also has a smaller error (Higham 2002, section 14.1).

    The inverse of a singular matrix repeats one number, NaN, whose product are sums of columns.
    """
    match op:
        case Matmul(Select(Broadcast(singular, _, axes), Broadcast(number, _, ()), upper), y):
            found, batch = _solved(upper, y), tuple(range(op.type.rank - 2))
            if found is None or axes != batch:
                return None
            sums = Broadcast(Sum(y, (len(batch),)), op.shape, (*batch, op.type.rank - 1))
            nothing = Mul(Broadcast(number, op.shape, ()), sums)
            return Select(Broadcast(singular, op.shape, axes), nothing, found)
        case Matmul(upper, y):
            return _solved(upper, y)
        case _:
            return None


def _solved(upper: Value, y: Value) -> Value | None:
    """``inv(U) inv(L) P B`` of ``inv(U) inv(L) P I``."""
    match upper:
        case TriangularSolve(u, TriangularSolve(l, Gather(one, order, axis, batch, mode)) as lower):
            if not is_identity(one) or axis != y.type.rank - 2:
                return None
            rows = Gather(y, order, axis, batch, mode)
            (half,) = lower.rebuild((l, rows)).results
            return upper.rebuild((u, half)).results[0]
        case _:
            return None
