"""Sums and products: factors taken out of sums, and sums multiplied term by term.

Which of the two is cheaper depends on the terms: a sum of matrices is multiplied as a whole, a
matrix of rank one or a diagonal one on its own, as neither is ever formed.
"""

from __future__ import annotations

from dlvm.ir import Value, rewrite
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import Add, Matmul, Sub

from .chains import multiplied


@rewrite(
    Add,
    example=(
        lambda a, b, c: Add(Matmul(a, b), Matmul(a, c)),
        lambda a, b, c: Add(Matmul(b, a), Matmul(c, a)),
    ),
    given=("n[N,N]", "n[N,N]", "n[N,N]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def common_factor(op: Add) -> Value | None:
    """A B + A C = A (B + C), and B A + C A = (B + C) A."""
    return _factored(op)


@rewrite(
    Sub,
    example=(
        lambda a, b, c: Sub(Matmul(a, b), Matmul(a, c)),
        lambda a, b, c: Sub(Matmul(b, a), Matmul(c, a)),
    ),
    given=("n[N,N]", "n[N,N]", "n[N,N]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def common_factor_of_difference(op: Sub) -> Value | None:
    """A B - A C = A (B - C), and B A - C A = (B - C) A."""
    return _factored(op)


def _factored(op: Add | Sub) -> Value | None:
    if not isinstance(op.x, Matmul) or not isinstance(op.y, Matmul):
        return None
    (a, b), (c, d) = op.x.operands, op.y.operands
    if a is c:
        return Matmul(a, type(op)(b, d))
    return Matmul(type(op)(a, c), b) if b is d else None


@rewrite(
    Matmul,
    example=(
        lambda a, u, v, x: Matmul(Add(a, Matmul(u, v)), x),
        lambda a, u, v, x: Matmul(Sub(Matmul(u, v), a), x),
    ),
    given=("n[M,N]", "n[M,1]", "n[1,N]", "n[N,1]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def sum_times(op: Matmul) -> Value | None:
    """(A + B) x = A x + B x, where a term is cheaper on its own."""
    match op.x:
        case Add() | Sub() as whole:
            return type(whole)(*(multiplied(v, op.y) for v in whole.operands))
        case _:
            return None


@rewrite(
    Matmul,
    example=(
        lambda a, u, v, x: Matmul(x, Add(a, Matmul(u, v))),
        lambda a, u, v, x: Matmul(x, Sub(Matmul(u, v), a)),
    ),
    given=("n[M,N]", "n[M,1]", "n[1,N]", "n[1,M]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def times_sum(op: Matmul) -> Value | None:
    """x (A + B) = x A + x B, where a term is cheaper on its own."""
    match op.y:
        case Add() | Sub() as whole:
            return type(whole)(*(multiplied(op.x, v) for v in whole.operands))
        case _:
            return None
