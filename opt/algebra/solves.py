"""Inverses that are multiplied are solves, and solves and products are computed in either order.

An inverse is a solve with the identity. These laws speak of solves whatever the factors are, which
``choose_factors`` decides later.
"""

from __future__ import annotations

from dlvm.ir import Value, rewrite, splat
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import Broadcast, Matmul, Mul, Permute, Reshape, Select, Solve, transposed
from dlvm.ops.patterns import is_transpose

from .examples import identity
from .factors import turned_about
from .structure import is_identity, outer_of


def _solve(x: Value, order: Value, b: Value, turned: bool = False) -> Value:
    """A solve with a matrix whose U has a diagonal of 1, which keeps whole numbers whole."""
    one = identity(x)
    assert isinstance(one, Select)
    packed = Select(one.condition, splat(1, x.type), x)
    return Solve(x, packed, order, b, turned)


def _inverse(x: Value, order: Value, turned: bool = False) -> Value:
    return _solve(x, order, identity(x), turned)


@rewrite(
    Matmul,
    example=(
        lambda x, i, b, y: Matmul(_inverse(x, i), y),
        lambda x, i, b, y: Matmul(_inverse(x, i, True), y),
        lambda x, i, b, y: Matmul(transposed(_inverse(x, i)), y),
        lambda x, i, b, y: Matmul(_solve(x, i, b), y),
        lambda x, i, b, y: Matmul(_solve(x, i, b, True), y),
    ),
    given=("f[2,2]", "i[2]", "f[2,2]", "f[2,1]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def inverse_times(op: Matmul) -> Value | None:
    """inv(A) B C = solve(A, B C), which also has a smaller error (Higham 2002, section 14.1)."""
    if (solve := _solved(op.x)) is None:
        return None
    right = op.y if is_identity(solve.b) else Matmul(solve.b, op.y)
    return solve.rebuild((solve.a, solve.packed, solve.order, right)).results[0]


@rewrite(
    Matmul,
    example=(
        lambda x, i, b, y: Matmul(y, _inverse(x, i)),
        lambda x, i, b, y: Matmul(y, _inverse(x, i, True)),
        lambda x, i, b, y: Matmul(y, transposed(_inverse(x, i))),
        lambda x, i, b, y: Matmul(y, _solve(x, i, b)),
        lambda x, i, b, y: Matmul(y, _solve(x, i, b, True)),
    ),
    given=("f[2,2]", "i[2]", "f[2,2]", "f[1,2]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def times_inverse(op: Matmul) -> Value | None:
    """C inv(A) B = solve(A', C')' B."""
    if (solve := _solved(op.y)) is None:
        return None
    parts = solve.a, solve.packed, solve.order
    left = turned_about(Solve(*parts, turned_about(op.x), not solve.transposed))
    return left if is_identity(solve.b) else Matmul(left, solve.b)


def _solved(x: Value) -> Solve | None:
    """The solve that a value is; the transpose of an inverse is one with the transposed matrix."""
    match x:
        case Solve():
            return x
        case Permute(Solve(a, packed, order, b, turned)) if is_transpose(x) and is_identity(b):
            return Solve(a, packed, order, b, not turned)
        case _:
            return None


@rewrite(
    Solve,
    example=(
        lambda x, i, u, v: _solve(x, i, _outer(u, v, x)),
        lambda x, i, u, v: _solve(x, i, _outer(u, v, x), True),
    ),
    given=("f[2,2]", "i[2]", "f[2]", "f[2]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def solve_of_outer(op: Solve) -> Value | None:
    """inv(A) (u v') = (inv(A) u) v'."""
    if (found := outer_of(op.b)) is None:
        return None
    u, v = found
    rank = op.type.rank
    batch = tuple(range(rank - 2))
    column = Solve(op.a, op.packed, op.order, Reshape(u, (*u.shape, 1)), op.transposed)
    rows = Broadcast(Reshape(column, u.shape), op.shape, (*batch, rank - 2))
    return Mul(rows, Broadcast(v, op.shape, (*batch, rank - 1)))


def _outer(u: Value, v: Value, like: Value) -> Value:
    return Mul(Broadcast(u, like.shape, (0,)), Broadcast(v, like.shape, (1,)))


@rewrite(
    Solve,
    example=(
        lambda x, i, b, c: _solve(x, i, Matmul(b, c)),
        lambda x, i, b, c: _solve(x, i, Matmul(b, c), True),
    ),
    given=("f[2,2]", "i[2]", "f[2,1]", "f[1,8]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def solve_of_product(op: Solve) -> Value | None:
    """inv(A) (B C) = (inv(A) B) C."""
    match op.b:
        case Matmul(b, c):
            return Matmul(Solve(op.a, op.packed, op.order, b, op.transposed), c)
        case _:
            return None
