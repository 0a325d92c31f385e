"""Quotients that are rounded and what is left over, of integers and of floats.

Floats follow Python and NumPy: the quotient is that of ``x`` less its exact remainder, so the
two agree even where ``x / y`` rounds. Integer division by zero gives 0, everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.ir import Array, Value
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise

from .rounding import Trunc


def _nonzero(y: Array) -> Array:
    """A divisor that NumPy takes without complaint; floats may be zero."""
    return np.where(y == 0, np.ones_like(y), y) if y.dtype.kind in "iu" else y


class FloorDiv(Elementwise):
    """The quotient rounded down, ``floor(x / y)``.

    Integers: x // 0 is 0 and MIN // -1 is MIN (it wraps). Floats: ``x / y`` where y is 0.
    """

    name = "floordiv"
    of_python = True
    typed = "the quotient of x less its remainder is rounded before it is rounded down"
    public = "floor_divide"
    nondifferentiable = "it is constant between whole numbers"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        x, y = operands
        quotient = np.floor_divide(x, _nonzero(y))
        return np.where(y == 0, np.zeros_like(x), quotient) if y.dtype.kind in "iu" else quotient

    def scalar(self, s: Scalars[S], *x: S) -> S:
        if not s.dtype(x[0]).is_float:
            return s.binary("floordiv", *x)
        return _floor_of_floats(s, *x)


def _floor_of_floats(s: Scalars[S], x: S, y: S) -> S:
    """``(x - rest) / y`` is whole but for rounding: down, and up again where it was just below."""
    dtype = s.dtype(x)
    zero, one, half = (s.constant(c, dtype) for c in (0.0, 1.0, 0.5))
    rest, quotient = s.binary("fmod", x, y), s.binary("div", x, y)
    whole = s.binary("div", s.binary("sub", x, rest), y)
    whole = s.select(_across(s, rest, y), s.binary("sub", whole, one), whole)
    down = s.unary("floor", whole)
    just_below = s.binary("lt", half, s.binary("sub", whole, down))
    found = s.select(just_below, s.binary("add", down, one), down)
    found = s.select(s.binary("eq", whole, zero), s.binary("copysign", zero, quotient), found)
    return s.select(s.binary("eq", y, zero), quotient, found)


def _across(s: Scalars[S], rest: S, y: S) -> S:
    """Whether a remainder is there and has the other sign than the divisor."""
    zero = s.constant(0, s.dtype(y))
    signs_differ = s.binary("xor", s.binary("lt", rest, zero), s.binary("lt", y, zero))
    return s.binary("and", s.binary("ne", rest, zero), signs_differ)


class Remainder(Elementwise):
    """What ``floor(x / y)`` leaves, ``x - y * floor(x / y)``, with the sign of ``y``; exact.

    Integers: of a division by 0 it is 0. Floats: NaN where y is 0 or x infinite.
    """

    name = "remainder"
    of_python = True
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        x, y = operands
        return np.remainder(x, y) if y.dtype.kind not in "iu" else _rest(np.remainder, x, y)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return dy[0], -(dy[0] * FloorDiv(self.x, self.y))

    def scalar(self, s: Scalars[S], *x: S) -> S:
        zero = s.constant(0, s.dtype(x[0]))
        if not s.dtype(x[0]).is_float:
            whole = s.binary("mul", s.binary("floordiv", *x), x[1])
            return s.select(s.binary("eq", x[1], zero), zero, s.binary("sub", x[0], whole))
        rest = s.binary("fmod", *x)
        found = s.select(_across(s, rest, x[1]), s.binary("add", rest, x[1]), rest)
        nothing = s.binary("eq", rest, zero)
        return s.select(nothing, s.binary("copysign", zero, x[1]), found)


class Fmod(Elementwise):
    """What ``trunc(x / y)`` leaves, with the sign of ``x``; exact.

    Integers: of a division by 0 it is 0. Floats: NaN where y is 0 or x infinite.
    """

    name = "fmod"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        x, y = operands
        return np.fmod(x, y) if y.dtype.kind not in "iu" else _rest(np.fmod, x, y)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return dy[0], -(dy[0] * Trunc(self.x / self.y))

    def scalar(self, s: Scalars[S], *x: S) -> S:
        dtype = s.dtype(x[0])
        if dtype.is_float:
            return s.binary("fmod", *x)
        zero = s.constant(0, dtype)
        rest = s.binary("sub", x[0], s.binary("mul", s.binary("floordiv", *x), x[1]))
        if dtype.kind == "i":
            rest = s.select(_across(s, rest, x[0]), s.binary("sub", rest, x[1]), rest)
        return s.select(s.binary("eq", x[1], zero), zero, rest)


def _rest(ufunc: Any, x: Array, y: Array) -> Array:
    """What is left of integers; of a division by zero nothing, as of one by one."""
    return ufunc(x, _nonzero(y))
