"""Sizes, signs and kinds of numbers: what can be told of one float from its bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.ir import Array, Value
from dlvm.ir.interpret import Interpreter
from dlvm.ir.properties import Of, Properties
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise

from .casting import WHOLE
from .logic import Comparison, Equal, Select


class Sign(Elementwise):
    """-1, 0 or 1 as ``x`` is below, at or above zero; NaN of NaN."""

    name = "sign"
    nondifferentiable = "it is constant on either side of zero"
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.sign(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        dtype = s.dtype(x[0])
        zero, one = s.constant(0, dtype), s.constant(1, dtype)
        above = s.select(s.binary("lt", zero, x[0]), one, zero)
        if dtype.kind == "u":
            return above
        found = s.select(s.binary("lt", x[0], zero), s.constant(-1, dtype), above)
        return s.select(s.binary("eq", x[0], x[0]), found, x[0]) if dtype.is_float else found


class Abs(Elementwise):
    """Magnitude ``|x|``; the smallest integer stays as it is. Its derivative at 0 is 0."""

    name = "abs"
    of_python = True
    accepts = "biuf"
    x: Value

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        return True

    def properties(self, of: Of) -> Properties:
        """No float is negative; the smallest integer stays so."""
        zeros_of = of(self.x) & {"symmetric", "lower", "upper", "diagonal"}
        return zeros_of | {"nonnegative"} if self.dtype.is_float else zeros_of

    def reference(self, *operands: Array) -> Any:
        return np.abs(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * Sign(self.x),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.unary("abs", *x)


class SignBit(Comparison):
    """Whether the sign bit is set: of negative numbers, of -0, and of some NaN."""

    name = "signbit"
    accepts = "f"
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.signbit(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        dtype = s.dtype(x[0])
        signed = s.binary("copysign", s.constant(1, dtype), x[0])
        return s.binary("lt", signed, s.constant(0, dtype))


class CopySign(Elementwise):
    """The magnitude of ``x`` with the sign of ``y``, zeros and NaN included."""

    name = "copysign"
    accepts = "f"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.copysign(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return Select(Equal(SignBit(self.x), SignBit(self.y)), dy[0], -dy[0]), None

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("copysign", *x)


class NextAfter(Elementwise):
    """The float next to ``x`` in the direction of ``y``, in their own type; ``y`` where equal.

    Floats of one sign are ordered as their bits are; from zero it is the smallest number.
    """

    name = "nextafter"
    typed = "the next float is another one in each type"
    accepts = "f"
    nondifferentiable = "it moves in steps"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        """NumPy gives x and not y for zeros of two signs in half precision."""
        x, y = operands
        return np.where(x == y, y, np.nextafter(x, y))

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """In half precision too: the neighbours there are other numbers than in f32."""
        return (np.asarray(self.reference(*operands)),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        dtype = self.x.dtype
        x = tuple(s.cast(v, dtype) for v in x)
        whole, zero = WHOLE[dtype.bits], s.constant(0, dtype)
        one = s.constant(1, whole)
        outwards = s.binary("eq", s.binary("lt", x[0], x[1]), s.binary("lt", zero, x[0]))
        step = s.select(outwards, one, s.constant(-1, whole))
        moved = s.reinterpret(s.binary("add", s.reinterpret(x[0], whole), step), dtype)
        least = s.binary("copysign", s.reinterpret(one, dtype), x[1])
        found = s.select(s.binary("eq", x[0], zero), least, moved)
        found = s.select(s.binary("eq", x[0], x[1]), x[1], found)
        found = s.select(s.binary("ne", x[0], x[0]), x[0], found)
        return s.select(s.binary("ne", x[1], x[1]), x[1], found)


class IsNan(Comparison):
    """Whether ``x`` is not a number; no integer is."""

    name = "isnan"
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.isnan(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("ne", x[0], x[0])


class IsInf(Comparison):
    """Whether ``x`` is an infinity; no integer is."""

    name = "isinf"
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.isinf(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        dtype = s.dtype(x[0])
        if not dtype.is_float:
            return s.binary("ne", x[0], x[0])
        return s.binary("eq", s.unary("abs", x[0]), s.constant(math.inf, dtype))


class IsFinite(Comparison):
    """Whether ``x`` is neither infinite nor NaN; every integer is."""

    name = "isfinite"
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.isfinite(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        dtype = s.dtype(x[0])
        if not dtype.is_float:
            return s.binary("eq", x[0], x[0])
        return s.binary("lt", s.unary("abs", x[0]), s.constant(math.inf, dtype))
