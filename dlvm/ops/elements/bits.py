"""Integers as bits: shifts, and powers by squaring. What bools have too stands in ``logic``."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.ir import Array, Value
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise

from .logic import Bitwise


class ShiftLeft(Bitwise):
    """Bits ``y`` places up, zeros coming in; 0 where y is negative or at least the width."""

    name = "shift_left"
    public = "bitwise_left_shift"
    word = "shl"
    accepts = "iu"
    nondifferentiable = "it works on integers"
    x: Value
    y: Value


class ShiftRight(Bitwise):
    """Bits ``y`` places down, the sign coming in; a negative y counts as at least the width."""

    name = "shift_right"
    public = "bitwise_right_shift"
    word = "shr"
    accepts = "iu"
    nondifferentiable = "it works on integers"
    x: Value
    y: Value


class IntegerPower(Elementwise):
    """``x ** y`` of integers, wrapping; for y < 0 the whole part of ``1 / x**-y``, 0 of 0.

    By squaring: one step for each bit of the type, whatever the exponent.
    """

    name = "integer_power"
    accepts = "iu"
    nondifferentiable = "it works on integers"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        x, y = operands
        odd = np.where(y & 1, x, np.ones_like(x))
        inverse = np.where(abs(x.astype(object)) == 1, odd, np.zeros_like(x)).astype(x.dtype)
        return np.where(y < 0, inverse, np.power(x, np.where(y < 0, np.zeros_like(y), y)))

    def scalar(self, s: Scalars[S], *x: S) -> S:
        dtype = s.dtype(x[0])
        zero, one = s.constant(0, dtype), s.constant(1, dtype)
        base, exponent = x
        result, first = one, s.select(_odd(s, exponent), base, one)
        for _ in range(dtype.bits - (dtype.kind == "i")):
            result = s.select(_odd(s, exponent), s.binary("mul", result, base), result)
            base = s.binary("mul", base, base)
            exponent = s.binary("shr", exponent, one)
        if dtype.kind == "u":
            return result
        unit = s.binary("eq", s.unary("abs", x[0]), one)
        inverse = s.select(unit, first, zero)
        return s.select(s.binary("lt", x[1], zero), inverse, result)


def _odd(s: Scalars[S], x: S) -> S:
    one = s.constant(1, s.dtype(x))
    return s.binary("eq", s.binary("and", x, one), one)
