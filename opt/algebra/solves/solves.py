"""Inverses that are multiplied are solves, and solves and products are computed in either order.

An inverse is a solve with the identity. These laws speak of solves whatever the factors are, which
``choose_factors`` decides later.
"""

from __future__ import annotations

from dlvm.ir import Part, Value, rearrangement, rewrite
from dlvm.ir.knowledge import properties_of
from dlvm.ir.numerics import FAST, ROUNDING
from dlvm.ops import LU, Broadcast, Matmul, Mul, Permute, Reshape, Solve, transposed
from dlvm.ops.patterns import is_transpose
from dlvm.opt.algebra.examples import gram, inverse, outer, solve, solve_by_lu, whole_factors
from dlvm.opt.algebra.factors.factors import turned_about
from dlvm.opt.algebra.factors.structure import is_identity, outer_of


@rearrangement(
    Matmul,
    example=(
        lambda x, c, b, y: Matmul(inverse(x, c), y),
        lambda x, c, b, y: Matmul(inverse(x, c, True), y),
        lambda x, c, b, y: Matmul(transposed(inverse(x, c)), y),
        lambda x, c, b, y: Matmul(solve(x, c, b), y),
        lambda x, c, b, y: Matmul(solve(x, c, b, True), y),
    ),
    given=("f[2,2]", "b", "f[2,2]", "f[2,1]"),
)
def inverse_times(op: Matmul) -> Value | None:
    """inv(A) B C = solve(A, B C), which also has a smaller error (Higham 2002, section 14.1)."""
    if (found := _solved(op.x)) is None:
        return None
    right = op.y if is_identity(found.b) else Matmul(found.b, op.y)
    return _solving(found, right, found.transposed)


@rearrangement(
    Matmul,
    example=(
        lambda x, c, b, y: Matmul(y, inverse(x, c)),
        lambda x, c, b, y: Matmul(y, inverse(x, c, True)),
        lambda x, c, b, y: Matmul(y, transposed(inverse(x, c))),
    ),
    given=("f[2,2]", "b", "f[2,2]", "f[1,2]"),
)
def times_inverse(op: Matmul) -> Value | None:
    """C inv(A) = solve(A', C')'."""
    found = _solved(op.y)
    return _turned_solve(op.x, found) if found is not None and is_identity(found.b) else None


@rearrangement(
    Matmul,
    example=(
        lambda x, c, b, y: Matmul(y, solve(x, c, b)),
        lambda x, c, b, y: Matmul(y, solve(x, c, b, True)),
    ),
    given=("f[2,2]", "b", "f[2,2]", "f[1,2]"),
    law_class=FAST,
)
def times_solve(op: Matmul) -> Value | None:
    """C (inv(A) B) = solve(A', C')' B; where inv(A) B is small beside inv(A), digits are lost."""
    if (found := _solved(op.y)) is None or is_identity(found.b):
        return None
    return Matmul(_turned_solve(op.x, found), found.b)


def _turned_solve(x: Value, like: Solve) -> Value:
    """X times the inverse that a solve stands for."""
    return turned_about(_solving(like, turned_about(x), not like.transposed))


def _solved(x: Value) -> Solve | None:
    """The solve that a value is; the transpose of an inverse is one with the transposed matrix."""
    match x:
        case Solve():
            return x
        case Permute(Solve(b=b) as found) if is_transpose(x) and is_identity(b):
            return _solving(found, b, not found.transposed)
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
    example=lambda x, b: solve_by_lu(gram(x), b, True),
    given=("f[2,2]", "f[2,N]"),
    law_class=ROUNDING,
    keeps=False,
)
def solve_of_symmetric(op: Solve) -> Value | None:
    """inv(A') B = inv(A) B for a symmetric A."""
    return _solving(op, op.b, False) if op.transposed and _is_symmetric(op) else None


@rearrangement(
    Solve,
    example=lambda x, y, b: solve_by_lu(transposed(a := whole_factors(x, y)), solve_by_lu(a, b)),
    given=("f[2,2]", "f[2,2]", "f[2,1]"),
)
def solve_of_transpose(op: Solve) -> Value | None:
    """inv(A') B by the factors of A, which something else may need as well."""
    match op:
        case Solve(Permute(a) as turned, Part(LU(b), 0), Part(LU(c), 1)) if b is c is turned:
            if not is_transpose(turned):
                return None
            return solve_by_lu(a, op.b, not op.transposed)
        case _:
            return None


@rearrangement(
    Solve,
    example=(
        lambda x, c, u, v: solve(x, c, outer(u, v)),
        lambda x, c, u, v: solve(x, c, transposed(outer(u, v)), True),
        lambda x, c, u, v: solve(x, c, Matmul(Reshape(u, (2, 1)), Reshape(v, (1, 2)))),
    ),
    given=("f[2,2]", "b", "f[2]", "f[2]"),
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
    if isinstance(x, Matmul) and x.x.shape[-1] == 1:
        u, v = x.operands
        return Reshape(u, u.shape[:-1]), Reshape(v, (*v.shape[:-2], v.shape[-1]))
    if isinstance(x, Permute) and is_transpose(x):
        return None if (found := outer_of(x.x)) is None else (found[1], found[0])
    return outer_of(x)


@rearrangement(
    Solve,
    example=(
        lambda x, c, b, y: solve(x, c, Matmul(b, y)),
        lambda x, c, b, y: solve(x, c, Matmul(b, y), True),
    ),
    given=("f[2,2]", "b", "f[2,2]", "f[2,64]"),
    law_class=FAST,
)
def solve_of_product(op: Solve) -> Value | None:
    """inv(A) (B C) = (inv(A) B) C; where B C is small beside B and C, digits are lost."""
    match op.b:
        case Matmul(b, c):
            return Matmul(_solving(op, b, op.transposed), c)
        case _:
            return None
