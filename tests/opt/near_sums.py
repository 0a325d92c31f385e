"""Sums of outer products and other matrices, near to what laws of sums speak of."""

from __future__ import annotations

from dlvm.ir import Value, splat
from dlvm.ops import Add, Mul, Neg, Reshape, Sub
from dlvm.opt.algebra.examples import outer, wide

from .near_products import Group, columns, rows


def _of_batches(u: Value, v: Value) -> Value:
    """Outer products of the vectors of two batches."""
    like = Reshape(u, (*u.shape, 1))
    square = Mul(like, like).type.with_shape((*u.shape, v.shape[1]))
    return Mul(rows(u, splat(0, square)), columns(v, splat(0, square)))


SUMS: list[Group] = [
    (
        ("f[3,N]", "f[3]", "f[N]"),
        {
            "two matrices and two outer products": lambda a, u, v: Add(
                Add(wide(a), outer(wide(u), wide(v))),
                Add(Mul(wide(a), wide(a)), outer(wide(u), wide(v))),
            ),
            "a matrix from a matrix, and outer products": lambda a, u, v: Sub(
                Mul(wide(a), wide(a)), Sub(wide(a), outer(wide(u), wide(v)))
            ),
            "a negative matrix and an outer product": lambda a, u, v: Add(
                Neg(wide(a)), outer(wide(u), wide(v))
            ),
            "a matrix and itself": lambda a, u, v: Add(a, a),
        },
    ),
    (
        ("f[2,3]", "f[2,4]"),
        {
            "outer products of batches": lambda u, v: Add(_of_batches(u, v), _of_batches(u, v)),
            "a difference of outer products of batches": lambda u, v: Sub(
                _of_batches(u, v), _of_batches(Neg(u), v)
            ),
        },
    ),
]
