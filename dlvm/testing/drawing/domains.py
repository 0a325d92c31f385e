"""Maps random operands into the domain that an operation states."""

from __future__ import annotations

import math

from dlvm import ops
from dlvm.ir import I64, Op, Value, splat, zeros

GROWING = (ops.Exp, ops.Exp2, ops.Expm1, ops.Sinh, ops.Cosh)


def within(cls: type[Op], x: Value) -> Value:
    """Maps any value into the domain of an operation."""
    low, high = cls.domain if issubclass(cls, ops.Elementwise) else (-math.inf, math.inf)
    if math.isfinite(low) and math.isfinite(high):
        return ops.Tanh(x) * (0.4 * (high - low)) + 0.5 * (low + high)
    if math.isfinite(low):
        return x * x + (low + 0.5)
    return (high - 0.5) - x * x if math.isfinite(high) else x


def tamed(cls: type[Op], operands: list[Value]) -> list[Value]:
    """Operands for which an operation is defined and gives moderate results."""
    if cls is ops.Div:
        return [*operands[:-1], operands[-1] * operands[-1] + 0.5]
    if cls in (ops.Remainder, ops.Fmod) and operands[0].dtype.is_float:
        x, y = operands  # the result lies between two whole quotients
        y = y * y + 0.5
        return [y * (ops.Tanh(x) * 0.4 + 2.5), y]
    if cls is ops.Pow:
        return [ops.Tanh(x) + 1.5 for x in operands]
    if cls in GROWING:
        return [ops.Tanh(x) * 2.0 for x in operands]
    return [within(cls, x) for x in operands]


def dominant(x: Value) -> Value:
    """A matrix whose diagonal outweighs the rest, if it is not large: well-conditioned."""
    return ops.Tanh(x) + on_the_diagonal(splat(3.0, x.type), x)


def separated(x: Value) -> Value:
    """A matrix of which no eigenvalues, and no singular values, are close, if it is not large.

    Its diagonal is 3, 6, 9 and so on, and the rest of a row adds up to less than 1 for 4 columns.
    """
    shape, rank = x.shape[-2:], x.type.rank
    row = ops.Broadcast(ops.Iota(shape[0], x.dtype), x.shape, (rank - 2,))
    return ops.Tanh(x) * 0.25 + on_the_diagonal(row * 3.0 + 3.0, x)


def on_the_diagonal(numbers: Value, x: Value) -> Value:
    """The diagonal of some matrices, with zeros beside it."""
    shape, rank = x.shape[-2:], x.type.rank
    row, column = (ops.Broadcast(ops.Iota(n, I64), shape, (i,)) for i, n in enumerate(shape))
    mask = ops.Equal(row, column)
    mask = mask if rank == 2 else ops.Broadcast(mask, x.shape, (rank - 2, rank - 1))
    return ops.Select(mask, numbers, zeros(x.type))


def definite(x: Value) -> Value:
    """A symmetric positive definite matrix."""
    x = dominant(x)
    return ops.Matmul(x, ops.transposed(x))
