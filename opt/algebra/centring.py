"""What is centred sums to zero, so means are not subtracted a second time.

    sum(x - mean(x)) = 0

Derivatives of variances do so: a mean is subtracted from the cotangent of what was centred, which
is a multiple of it. Only the sum itself is zero. That one side of a product need not be centred,
``(x - m)' (x - m) = (x - m)' x``, is no law: the rounding of m is multiplied by m once more, and
where the mean is 10,000 deviations, f64 keeps 7 digits of 16.
"""

from __future__ import annotations

from math import copysign

from dlvm.ir import Dim, Value, rewrite, splat, zeros
from dlvm.ir.dims import product as size_of
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import Add, Broadcast, Cast, Div, Mul, Neg, Sub, Sum
from dlvm.ops.literals import DimSize, scalar_value

from .structure import scalar_of

Axes = frozenset[int]
DEEP = 8
"""Sums and numbers, one inside the other, that are looked into."""


@rewrite(
    Sum,
    example=(
        lambda x: Sum(_centred(x, (0,), True), (0,)),
        lambda x: Sum(_centred(x, (1,), False), (1,)),
        lambda x: Sum(_centred(x, (0, 1), False), (0, 1)),
        lambda x: Sum(_centred(x, (1,), True), (0, 1)),
        lambda x: Sum(Neg(_centred(x, (0,), True) * 2), (0,)),
        lambda x: Sum(Div(_centred(x, (0,), True), splat(2, x.type)), (0,)),
        lambda x: Sum(Mul(_first_row(x), _centred(x, (0,), True)), (0,)),
        lambda x: Sum(Sub(_centred(x, (0,), True), _centred(Neg(x), (0,), True)), (0,)),
        lambda x: Sum(Add(_centred(x, (0,), True), _centred(Neg(x), (0, 1), True)), (0, 1)),
    ),
    given=("f[4,2]",),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def sum_of_centred(op: Sum) -> Value | None:
    """sum(x - mean(x)) = 0, also of sums and multiples that do not vary along the mean's axes."""
    return zeros(op.type) if _is_centred(op.x, frozenset(op.axes)) else None


@rewrite(
    Add,
    example=(
        lambda x, y: Add(y, Broadcast(Div(zeros(x.type), splat(-2, x.type)), y.shape, (1,))),
        lambda x, y: Add(Neg(Broadcast(Mul(zeros(x.type), splat(0.5, x.type)), y.shape, (0,))), y),
    ),
    given=("f[2]", "f[2,2]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def zero_mean_added(op: Add) -> Value | None:
    """x + -0 = x, where a zero is repeated, or multiplied or divided by a count."""
    if _is_zero(op.y, -1):
        return op.x
    return op.y if _is_zero(op.x, -1) else None


@rewrite(
    Sub,
    example=(
        lambda x, y: Sub(y, Broadcast(Div(zeros(x.type), splat(2, x.type)), y.shape, (1,))),
        lambda x, y: Sub(y, Broadcast(Div(zeros(x.type), _length(x)), y.shape, (1,))),
    ),
    given=("f[N]", "f[N,N]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def zero_mean_subtracted(op: Sub) -> Value | None:
    """x - 0 = x, where a zero is repeated, or multiplied or divided by a count."""
    return op.x if _is_zero(op.y, 1) else None


def _is_centred(value: Value, axes: Axes, deep: int = DEEP) -> bool:
    """Whether a value sums to zero along some axes."""
    summands = _summands(value, axes)
    if deep and summands and all(_is_centred(v, along, deep - 1) for v, along in summands):
        return True
    along = _less_mean(value)
    return bool(along) and along <= axes


def _summands(value: Value, axes: Axes) -> list[tuple[Value, Axes]]:
    """The terms of a sum without signs and factors, and the axes along which no factor varies."""
    match value:
        case Add() | Sub() | Neg():
            return [(v, axes) for v in value.operands]
        case Mul(x, Broadcast(_, _, varies)) | Mul(Broadcast(_, _, varies), x):
            return [(x, axes - set(varies))]
        case Div(x, y) if _is_divisor(y):
            return [(x, axes)]
        case _:
            return []


def _less_mean(value: Value) -> Axes:
    """The axes along which a value's own mean was subtracted; none if none was."""
    match value:
        case Sub(x, Broadcast(mean, _, kept)):
            total = _sum_of_mean(mean)
            if total is None or total.x is not x:
                return frozenset()
            rest = tuple(a for a in range(x.type.rank) if a not in total.axes)
            return frozenset(total.axes if kept == rest else ())
        case _:
            return frozenset()


def _sum_of_mean(value: Value) -> Sum | None:
    """The sum that is divided by the count of its elements, or multiplied by its inverse."""
    match value:
        case Div(Sum() as total, count) if _is_count(count, _count(total)):
            return total
        case Mul(Sum() as total, part) if _is_part(part, _count(total)):
            return total
        case _:
            return None


def _count(total: Sum) -> Dim:
    """How many elements a sum has."""
    return size_of(tuple(total.x.shape[a] for a in total.axes))


def _is_count(value: Value, size: Dim) -> bool:
    """Whether a value is a size everywhere."""
    number = value if (repeated := scalar_of(value)) is None else repeated
    if isinstance(number, Cast) and isinstance(number.x, DimSize):
        return number.x.size == size
    found = scalar_value(number)
    return found is not None and float(found) == size


def _is_part(value: Value, size: Dim) -> bool:
    """Whether a value is one over a known size everywhere."""
    found = scalar_value(value)
    return found is not None and isinstance(size, int) and float(found) * size == 1


def _is_zero(value: Value, sign: int) -> bool:
    """Whether a value is a zero of a sign, repeated, or multiplied or divided by known numbers."""
    for _ in range(DEEP):
        match value:
            case Broadcast(x):
                value = x
            case Neg(x):
                value, sign = x, -sign
            case Div(x, y) | Mul(x, y) if _is_divisor(y):  # 0 times infinity stays NaN
                value, sign = x, sign * _sign(y)
            case _:
                break
    found = scalar_value(value)
    return found is not None and float(found) == 0 and copysign(1, float(found)) == sign


def _sign(number: Value) -> int:
    """The sign of a number that is known, or a size."""
    found = scalar_value(number)
    return 1 if found is None or float(found) > 0 else -1


def _is_divisor(value: Value) -> bool:
    """Whether a value is a number that is not 0, or a size, of which 0 has no elements."""
    number = value if (repeated := scalar_of(value)) is None else repeated
    if isinstance(number, Cast) and isinstance(number.x, DimSize):
        return True
    found = scalar_value(number)
    return found is not None and float(found) != 0


def _centred(x: Value, axes: tuple[int, ...], inverted: bool) -> Value:
    """For the examples: a matrix less its mean."""
    total = Sum(x, axes)
    count = int(str(_count(total)))
    number = splat(1 / count if inverted else count, total.type)
    mean = Mul(total, number) if inverted else Div(total, number)
    return Sub(x, Broadcast(mean, x.shape, tuple(a for a in (0, 1) if a not in axes)))


def _first_row(x: Value) -> Value:
    """For the example: numbers that do not vary along the rows."""
    return Broadcast(Sum(x, (0,)), x.shape, (1,))


def _length(x: Value) -> Value:
    """For the example: the length of a vector, repeated."""
    return Broadcast(Cast(DimSize(x.shape[0]), x.dtype), x.shape, ())
