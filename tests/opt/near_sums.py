"""Sums of outer products and other matrices, near to what laws of sums speak of."""

from __future__ import annotations

from dlvm.ir import Dim, Value, splat, zeros
from dlvm.ops import Add, Broadcast, Cast, Div, Max, Mul, Neg, Reshape, Slice, Sub, Sum
from dlvm.ops.literals import DimSize
from dlvm.opt.algebra.examples import outer, wide

from .near_products import Group, columns, rows


def _of_batches(u: Value, v: Value) -> Value:
    """Outer products of the vectors of two batches."""
    like = Reshape(u, (*u.shape, 1))
    square = Mul(like, like).type.with_shape((*u.shape, v.shape[1]))
    return Mul(rows(u, splat(0, square)), columns(v, splat(0, square)))


def _less_mean(
    x: Value, number: Value, axes: tuple[int, ...] = (0,), kept: tuple[int, ...] = (1,)
) -> Value:
    """A matrix less its sum divided by a number, which is repeated along an axis."""
    mean = Div(Sum(x, axes), Broadcast(number, (2,) * len(kept), ()))
    return Sub(x, Broadcast(mean, x.shape, kept))


def _float(number: float, like: Value) -> Value:
    """A number of the type of a tensor."""
    return splat(number, like.type.with_shape(()))


def _first(x: Value) -> Value:
    """The first element of a matrix."""
    return Reshape(Slice(x, (0, 0), (1, 1), (1, 1)), ())


def _size(size: Dim, like: Value) -> Value:
    """A size as a float."""
    return Cast(DimSize(size), like.dtype)


CENTRED: list[Group] = [
    (
        ("f[2,2]", "f[2,2]"),
        {
            "rows that are centred": lambda x, y: Sum(_less_mean(x, _float(2, x)), (0,)),
            "the other axis of what is centred": lambda x, y: Sum(
                _less_mean(x, _float(2, x)), (1,)
            ),
            "repeated along the other axis": lambda x, y: Sum(
                _less_mean(x, _float(2, x), (0,), (0,)), (0,)
            ),
            "repeated along the other axis, all": lambda x, y: Sum(
                _less_mean(x, _float(2, x), (0,), (0,)), (0, 1)
            ),
            "all of what is centred in two axes": lambda x, y: Sum(
                _less_mean(x, _float(4, x), (0, 1), ()), (0, 1)
            ),
            "one axis of what is centred in two": lambda x, y: Sum(
                _less_mean(x, _float(4, x), (0, 1), ()), (0,)
            ),
            "less a multiple of the mean": lambda x, y: Sum(_less_mean(x, _float(4, x)), (0,)),
            "less a sum": lambda x, y: Sum(_less_mean(x, _float(1, x)), (0,)),
            "less the mean of another": lambda x, y: Sum(
                Sub(y, Sub(y, _less_mean(x, _float(2, x)))), (0,)
            ),
            "less the mean of another's rows": lambda x, y: Sum(
                Sub(y, Broadcast(Div(Sum(x, (0,)), splat(2, Sum(x, (0,)).type)), y.shape, (1,))),
                (0,),
            ),
            "less twice the sum": lambda x, y: Sum(
                Sub(x, Broadcast(Mul(Sum(x, (0,)), splat(2, Sum(x, (0,)).type)), x.shape, (1,))),
                (0,),
            ),
            "less half of the greatest": lambda x, y: Sum(
                Sub(x, Broadcast(Div(Max(x, (0,)), splat(2, Sum(x, (0,)).type)), x.shape, (1,))),
                (0,),
            ),
            "less a given multiple": lambda x, y: Sum(_less_mean(x, _first(y)), (0,)),
            "less a number that is no size": lambda x, y: Sum(
                _less_mean(x, Cast(_first(y), y.dtype)), (0,)
            ),
            "a centred one and another": lambda x, y: Sum(
                Add(_less_mean(x, _float(2, x)), y), (0,)
            ),
            "a centred one less another": lambda x, y: Sum(
                Sub(_less_mean(x, _float(2, x)), y), (0,)
            ),
            "centred rows, each times a number": lambda x, y: Sum(
                Mul(_less_mean(x, _float(2, x)), rows(Sum(y, (1,)), x)), (0, 1)
            ),
            "centred columns, each times a number": lambda x, y: Sum(
                Mul(columns(Sum(y, (0,)), x), _less_mean(x, _float(2, x))), (0, 1)
            ),
            "a centred one by another": lambda x, y: Sum(Div(_less_mean(x, _float(2, x)), y), (0,)),
            "a centred one times another": lambda x, y: Sum(
                Mul(_less_mean(x, _float(2, x)), y), (0,)
            ),
            "the difference of centred ones": lambda x, y: Sum(
                Sub(_less_mean(x, _float(2, x)), _less_mean(y, _float(2, y))), (0,)
            ),
            "plus zero by a number": lambda x, y: Add(y, Div(zeros(x.type), splat(2, x.type))),
            "plus zero by one": lambda x, y: Add(y, Div(zeros(x.type), splat(1, x.type))),
            "plus zero by zero": lambda x, y: Add(y, Div(zeros(x.type), zeros(x.type))),
            "plus zero by another": lambda x, y: Add(y, Div(zeros(x.type), x)),
            "plus zero times another": lambda x, y: Add(y, Mul(zeros(x.type), x)),
            "plus zero by a cast number": lambda x, y: Add(
                y, Div(zeros(x.type), Broadcast(Cast(_first(x), x.dtype), x.shape, ()))
            ),
            "plus a number by a number": lambda x, y: Add(
                y, Div(splat(4, x.type), splat(2, x.type))
            ),
            "plus a multiple": lambda x, y: Add(y, Mul(x, splat(2, x.type))),
            "plus another repeated": lambda x, y: Add(y, Broadcast(_first(x), y.shape, ())),
            "less a number by a number": lambda x, y: Sub(
                y, Div(splat(4, x.type), splat(2, x.type))
            ),
            "nothing less another": lambda x, y: Sub(
                Broadcast(Sum(_less_mean(x, _float(2, x)), (0,)), y.shape, (1,)), y
            ),
            "zero less another": lambda x, y: Sub(Neg(zeros(x.type)), y),
            "plus the mean": lambda x, y: Sum(
                Add(x, Broadcast(Div(Sum(x, (0,)), splat(2, Sum(x, (0,)).type)), x.shape, (1,))),
                (0,),
            ),
        },
    ),
    (
        ("f[M,2]",),
        {
            "an open number of rows": lambda x: Sum(_less_mean(x, _size(x.shape[0], x)), (0,)),
            "an open number and one": lambda x: Sum(_less_mean(x, _size(x.shape[0] + 1, x)), (0,)),
            "open rows less half": lambda x: Sum(_less_mean(x, _float(4, x)), (0,)),
            "zero by an open number": lambda x: Add(
                x, Broadcast(Div(_float(0, x), _size(x.shape[0], x)), x.shape, ())
            ),
            "open rows times a half": lambda x: Sum(
                Sub(x, Broadcast(Mul(Sum(x, (0,)), splat(0.5, Sum(x, (0,)).type)), x.shape, (1,))),
                (0,),
            ),
            "one over an open number": lambda x: Sum(
                Sub(x, Broadcast(Mul(Sum(x, (0,)), _many(x)), x.shape, (1,))), (0,)
            ),
        },
    ),
]


def _many(x: Value) -> Value:
    """The number of rows for each column."""
    return Broadcast(_size(x.shape[0], x), (2,), ())


SUMS: list[Group] = [
    *CENTRED,
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
