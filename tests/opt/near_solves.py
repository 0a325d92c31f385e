"""Solves, and products with them, near to what the laws of solves speak of."""

from __future__ import annotations

from dlvm.ir import Value
from dlvm.ops import LU, Broadcast, Matmul, Mul, Permute, Solve, transposed
from dlvm.opt.algebra.examples import gram, identity, inverse, solve, solve_by_lu

from .near_products import Group


def two_solves(x: Value, c: Value, b: Value, turned: bool = False) -> Value:
    """A solve with the same factors for each of two right sides."""
    one = solve(x, c, identity(x), turned)
    assert isinstance(one, Solve)
    a, packed, order = (
        Broadcast(v, (2, *v.shape), tuple(range(1, v.type.rank + 1)))
        for v in (one.a, one.packed, one.order)
    )
    return Solve(a, packed, order, b, turned)


def two_identities(x: Value) -> Value:
    """The identity for each of two."""
    return Broadcast(identity(x), (2, *x.shape), (1, 2))


def two_outer(u: Value, v: Value) -> Value:
    """The outer products of the rows of two matrices."""
    shape = (*u.shape, v.shape[-1])
    return Mul(Broadcast(u, shape, (0, 1)), Broadcast(v, shape, (0, 2)))


def _moved(x: Value, b: Value) -> Value:
    """A solve with matrices of which axes were exchanged that are not the last two."""
    shape = (2, *x.shape)
    many = Broadcast(gram(x), shape, (1, 2))
    right = Broadcast(b, shape, (0, 2))
    return solve_by_lu(Permute(many, (1, 0, 2)), solve_by_lu(many, right))


def _with_another(x: Value, b: Value) -> Value:
    """A solve that names another matrix than the one whose factors it reads."""
    packed, order = LU(gram(b)).results
    return Solve(transposed(x), packed, order, b)


SOLVES: list[Group] = [
    (
        ("f[2,2]", "b", "f[2,2]"),
        {
            "solve": lambda x, c, b: solve(x, c, b),
            "of a matrix with moved axes": lambda x, c, b: _moved(x, b),
            "of a transpose by the factors of another": lambda x, c, b: _with_another(x, b),
            "of a transpose": lambda x, c, b: solve(x, c, transposed(b)),
            "of a symmetric matrix": lambda x, c, b: solve_by_lu(gram(x), b),
            "of an outer product in a batch": lambda x, c, b: two_solves(x, c, two_outer(x, b)),
            "of turned outer products": lambda x, c, b: two_solves(
                x, c, transposed(two_outer(x, b)), True
            ),
            "of outer products of moved batches": lambda x, c, b: two_solves(
                x, c, Permute(two_outer(x, b), (1, 0, 2))
            ),
            "transposed times": lambda x, c, b: Matmul(transposed(solve(x, c, b)), b),
            "times transposed": lambda x, c, b: Matmul(b, transposed(solve(x, c, b, True))),
            "inverse with moved axes": lambda x, c, b: Matmul(
                Permute(two_solves(x, c, two_identities(x)), (1, 0, 2)), two_outer(x, b)
            ),
            "times inverse with moved axes": lambda x, c, b: Matmul(
                two_outer(x, b), Permute(two_solves(x, c, two_identities(x)), (2, 0, 1))
            ),
            "inverse in a batch": lambda x, c, b: Matmul(
                transposed(two_solves(x, c, two_identities(x))), two_outer(x, b)
            ),
            "product of inverses": lambda x, c, b: Matmul(inverse(x, c), inverse(x, c, True)),
        },
    )
]
