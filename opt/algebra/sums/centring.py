"""What is centred sums to zero, so means are not subtracted a second time.

    sum(x - mean(x)) = 0

Derivatives of variances do so: a mean is subtracted from the cotangent of what was centred, which
is a multiple of it. In floating-point arithmetic that sum is the rounding of the first mean, which
the second takes away, so the laws are *fast*. Only the sum itself is zero, and only where it is
added to something: the sign of a zero would be another one. That one side of a product need not be
centred, ``(x - m)' (x - m) = (x - m)' x``, is no law: the rounding of m is multiplied by m once
more, and where the mean is 10,000 deviations, f64 keeps 7 digits of 16.
"""

from __future__ import annotations

import numpy as np

from dlvm.ir import Dim, Value, rearrangement, splat
from dlvm.ir.numerics import FAST
from dlvm.ir.sizes.dims import product as size_of
from dlvm.ops import Add, Broadcast, Cast, Div, Mul, Neg, Reshape, Sub, Sum
from dlvm.ops.literals import DimSize, scalar_value
from dlvm.opt.algebra.factors.structure import scalar_of

Axes = frozenset[int]
DEEP = 8
"""Sums and numbers, one inside the other, that are looked into."""


@rearrangement(
    Add,
    Sub,
    example=(
        lambda x, y: Add(y, _mean_again(_centred(x, (0,), True), y)),
        lambda x, y: Add(Neg(_mean_again(_centred(x, (0,), False), y)), y),
        lambda x, y: Add(y, _mean_again(Neg(_centred(x, (0,), True) * 2), y)),
        lambda x, y: Add(y, _mean_again(Div(_centred(x, (0,), True), splat(2, x.type)), y)),
        lambda x, y: Add(y, _mean_again(Mul(_first_row(x), _centred(x, (0,), True)), y)),
        lambda x, y: Sub(y, _mean_again(_centred(x, (0,), True), y)),
        lambda x, y: Sub(
            y, _mean_again(Sub(_centred(x, (0,), True), _centred(Neg(x), (0,), True)), y)
        ),
        lambda x, y: Sub(
            y, _mean_again(Add(_centred(x, (0,), True), _centred(Neg(x), (0,), False)), y)
        ),
    ),
    given=("f[4,2]", "f[4,2]"),
    law_class=FAST,
)
def mean_of_centred(op: Add | Sub) -> Value | None:
    """y + k sum(x - mean(x)) = y for a number k, also of sums and multiples of what is centred."""
    if _is_nothing(op.y):
        return op.x
    return op.y if isinstance(op, Add) and _is_nothing(op.x) else None


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
    """Whether a value is one over a known size everywhere, rounded."""
    found = scalar_value(value)
    if found is None or not isinstance(size, int) or not size:
        return False
    return np.asarray(found) == np.asarray(1 / size, np.asarray(found).dtype)


def _is_nothing(value: Value) -> bool:
    """Whether a value is a sum of what is centred, repeated, or times or over known numbers."""
    for _ in range(DEEP):
        match value:
            case Broadcast(x) | Neg(x) | Reshape(x):
                value = x
            case Div(x, y) | Mul(x, y) if _is_divisor(y):  # 0 times infinity stays NaN
                value = x
            case _:
                break
    return isinstance(value, Sum) and _is_centred(value.x, frozenset(value.axes))


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


def _mean_again(x: Value, y: Value) -> Value:
    """For the examples: the mean of each column, repeated."""
    total = Sum(x, (0,))
    return Broadcast(Div(total, splat(int(str(x.shape[0])), total.type)), y.shape, (1,))
