"""Laws that read what is known of a matrix: transposes, signs and diagonals that cost nothing."""

from __future__ import annotations

from dlvm.ir import Value, rearrangement, rewrite
from dlvm.ir.knowledge import properties_of
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import Abs, Diagonal, Less, LessEqual, Matmul, Mul, Permute, Select, transposed
from dlvm.ops.literals import is_splat, never_negative_zero
from dlvm.ops.patterns import is_transpose, triangles_within

from .examples import triangle


@rewrite(
    Permute,
    example=lambda x: transposed(x + transposed(x)),
    given=("n[N,N]",),
    law_class=ROUNDING,
    keeps=False,
)
def transpose_of_symmetric(op: Permute) -> Value | None:
    """S' = S for symmetric S."""
    return op.x if is_transpose(op) and "symmetric" in properties_of(op.x) else None


@rewrite(Abs, example=lambda x: Abs(x * x), given=("f[M,N]",))
def magnitude_of_nonnegative(op: Abs) -> Value | None:
    """|x| = x where x is known to be neither negative nor -0, exactly."""
    return op.x if "nonnegative" in properties_of(op.x) and never_negative_zero(op.x) else None


@rearrangement(
    Diagonal,
    example=(
        lambda x, y: Diagonal(Matmul(triangle(x, True), triangle(y, True))),
        lambda x, y: Diagonal(Matmul(triangle(x, False), triangle(y, False))),
    ),
    given=("n[N,N]", "n[N,N]"),
)
def diagonal_of_triangular_product(op: Diagonal) -> Value | None:
    """diag(A B) = diag(A) * diag(B), where both are lower, or both upper, triangular."""
    match op.x:
        case Matmul(x, y) if properties_of(x) & properties_of(y) & {"lower", "upper"}:
            return Mul(Diagonal(x), Diagonal(y))
        case _:
            return None


@rewrite(
    Select,
    example=(
        lambda x: triangle(triangle(x, True), True),
        lambda x: triangle(triangle(x, False), False),
    ),
    given=("n[N,N]",),
    law_class=ROUNDING,
    keeps=False,
)
def triangle_of_triangular(op: Select) -> Value | None:
    """tril(L) = L for lower triangular L, and triu(U) = U."""
    match op:
        case Select(Less() | LessEqual() as mask, x, zero) if is_splat(zero, 0):
            within = triangles_within(mask.relation, *mask.operands)
            return x if within & properties_of(x) else None
        case _:
            return None
