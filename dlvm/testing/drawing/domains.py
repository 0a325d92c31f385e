"""Maps random operands into the domain that an operation states."""

from __future__ import annotations

import math

from dlvm.ir import Op, Value
from dlvm.ops import (
    Cosh,
    Div,
    Elementwise,
    Exp,
    Exp2,
    Expm1,
    Fmod,
    Pow,
    Remainder,
    Sinh,
    Tanh,
)

GROWING = (Exp, Exp2, Expm1, Sinh, Cosh)


def within(cls: type[Op], x: Value) -> Value:
    """Maps any value into the domain of an operation."""
    low, high = cls.domain if issubclass(cls, Elementwise) else (-math.inf, math.inf)
    if math.isfinite(low) and math.isfinite(high):
        return Tanh(x) * (0.4 * (high - low)) + 0.5 * (low + high)
    if math.isfinite(low):
        return x * x + (low + 0.5)
    return (high - 0.5) - x * x if math.isfinite(high) else x


def tamed(cls: type[Op], operands: list[Value]) -> list[Value]:
    """Operands for which an operation is defined and gives moderate results."""
    if cls is Div:
        return [*operands[:-1], operands[-1] * operands[-1] + 0.5]
    if cls in (Remainder, Fmod) and operands[0].dtype.is_float:  # between two whole quotients
        x, y = operands
        y = y * y + 0.5
        return [y * (Tanh(x) * 0.4 + 2.5), y]
    if cls is Pow:
        return [Tanh(x) + 1.5 for x in operands]
    if cls in GROWING:
        return [Tanh(x) * 2.0 for x in operands]
    return [within(cls, x) for x in operands]
