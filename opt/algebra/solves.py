"""Inverses that are multiplied are solves, and solves and products are computed in either order.

An inverse is a solve with the identity. These laws speak of solves whatever the factors are, which
``choose_factors`` decides later.
"""

from __future__ import annotations

from dlvm.ir import Part, Value, rewrite, splat
from dlvm.ir.knowledge import properties_of
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import (
    LU,
    Broadcast,
    Equal,
    Iota,
    Matmul,
    Mul,
    Permute,
    Reshape,
    Select,
    Sign,
    Solve,
    transposed,
)
from dlvm.ops.patterns import is_transpose

from .examples import identity, triangle
from .factors import turned_about
from .structure import is_identity, outer_of


def _solve(x: Value, swap: Value, b: Value, turned: bool = False) -> Value:
    """A solve with factors of two rows, whose diagonals of 1 keep whole numbers whole."""
    packed = Select(_diagonal(x), splat(1, x.type), x)
    order = Iota(2)
    order = Select(Broadcast(swap, order.shape, ()), splat(1, order.type) - order, order)
    return Solve(x, packed, order, b, turned)


def _inverse(x: Value, swap: Value, turned: bool = False) -> Value:
    return _solve(x, swap, identity(x), turned)


def _diagonal(x: Value) -> Value:
    row, column = (Broadcast(Iota(n), x.shape, (axis,)) for axis, n in enumerate(x.shape))
    return Equal(row, column)


def _outer(u: Value, v: Value, like: Value) -> Value:
    return Mul(Broadcast(u, like.shape, (0,)), Broadcast(v, like.shape, (1,)))


def _gram(x: Value) -> Value:
    """A symmetric matrix whose factors are as whole as its numbers, without row exchanges."""
    root = Select(_diagonal(x), splat(1, x.type), Sign(triangle(x, True)))
    return Matmul(root, transposed(root))


@rewrite(
    Matmul,
    example=(
        lambda x, c, b, y: Matmul(_inverse(x, c), y),
        lambda x, c, b, y: Matmul(_inverse(x, c, True), y),
        lambda x, c, b, y: Matmul(transposed(_inverse(x, c)), y),
        lambda x, c, b, y: Matmul(_solve(x, c, b), y),
        lambda x, c, b, y: Matmul(_solve(x, c, b, True), y),
    ),
    given=("f[2,2]", "b", "f[2,2]", "f[2,1]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def inverse_times(op: Matmul) -> Value | None:
    """inv(A) B C = solve(A, B C), which also has a smaller error (Higham 2002, section 14.1)."""
    if (solve := _solved(op.x)) is None:
        return None
    right = op.y if is_identity(solve.b) else Matmul(solve.b, op.y)
    return _solving(solve, right, solve.transposed)


@rewrite(
    Matmul,
    example=(
        lambda x, c, b, y: Matmul(y, _inverse(x, c)),
        lambda x, c, b, y: Matmul(y, _inverse(x, c, True)),
        lambda x, c, b, y: Matmul(y, transposed(_inverse(x, c))),
        lambda x, c, b, y: Matmul(y, _solve(x, c, b)),
        lambda x, c, b, y: Matmul(y, _solve(x, c, b, True)),
    ),
    given=("f[2,2]", "b", "f[2,2]", "f[1,2]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def times_inverse(op: Matmul) -> Value | None:
    """C inv(A) B = solve(A', C')' B."""
    if (solve := _solved(op.y)) is None:
        return None
    left = turned_about(_solving(solve, turned_about(op.x), not solve.transposed))
    return left if is_identity(solve.b) else Matmul(left, solve.b)


def _solved(x: Value) -> Solve | None:
    """The solve that a value is; the transpose of an inverse is one with the transposed matrix."""
    match x:
        case Solve():
            return x
        case Permute(Solve(b=b) as solve) if is_transpose(x) and is_identity(b):
            return _solving(solve, b, not solve.transposed)
        case _:
            return None


def _solving(like: Solve, b: Value, turned: bool) -> Solve:
    """Another solve with a matrix, which is not transposed if it is known to be symmetric."""
    return Solve(like.a, like.packed, like.order, b, turned and not _is_symmetric(like))


def _is_symmetric(op: Solve) -> bool:
    """Whether the matrix that has the factors is."""
    match op.packed:
        case Part(LU(a), 0) | Broadcast(Part(LU(a), 0)):
            return "symmetric" in properties_of(a)
        case _:
            return False


@rewrite(
    Solve,
    example=lambda x, b: Solve(a := _gram(x), *LU(a).results, b, True),
    given=("f[2,2]", "f[2,N]"),
    law_class=ROUNDING,
    keeps=False,
)
def solve_of_symmetric(op: Solve) -> Value | None:
    """inv(A') B = inv(A) B for a symmetric A."""
    return _solving(op, op.b, False) if op.transposed and _is_symmetric(op) else None


@rewrite(
    Solve,
    example=(
        lambda x, c, u, v: _solve(x, c, _outer(u, v, x)),
        lambda x, c, u, v: _solve(x, c, transposed(_outer(u, v, x)), True),
    ),
    given=("f[2,2]", "b", "f[2]", "f[2]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def solve_of_outer(op: Solve) -> Value | None:
    """inv(A) (u v') = (inv(A) u) v'."""
    if (found := _outer_of(op.b)) is None:
        return None
    u, v = found
    *batch, rows, columns = range(op.type.rank)
    solved = _solving(op, Reshape(u, (*u.shape, 1)), op.transposed)
    left = Broadcast(Reshape(solved, u.shape), op.shape, (*batch, rows))
    return Mul(left, Broadcast(v, op.shape, (*batch, columns)))


def _outer_of(x: Value) -> tuple[Value, Value] | None:
    """The vectors of an outer product, which may be transposed."""
    if isinstance(x, Permute) and is_transpose(x):
        found = outer_of(x.x)
        return None if found is None else found[::-1]
    return outer_of(x)


@rewrite(
    Solve,
    example=(
        lambda x, c, b, y: _solve(x, c, Matmul(b, y)),
        lambda x, c, b, y: _solve(x, c, Matmul(b, y), True),
    ),
    given=("f[2,2]", "b", "f[2,2]", "f[2,64]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def solve_of_product(op: Solve) -> Value | None:
    """inv(A) (B C) = (inv(A) B) C."""
    match op.b:
        case Matmul(b, c):
            return Matmul(_solving(op, b, op.transposed), c)
        case _:
            return None
