"""Circular functions of each element and their inverses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm.ir import Array, Value, splat, zeros
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise

from .elementwise import StopGradient
from .logic import And, Equal, Select
from .transcendental import Curve, Sqrt, number


class Sin(Curve):
    """Sine, for arguments of any size; NaN at infinities."""

    name = "sin"

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * Cos(self.x),)


class Cos(Curve):
    """Cosine, for arguments of any size; NaN at infinities."""

    name = "cos"

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (-(dy[0] * Sin(self.x)),)


class Tan(Curve):
    """Tangent, for arguments of any size; NaN at infinities."""

    name = "tan"
    domain = (-math.pi / 2, math.pi / 2)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (self * self + 1.0),)


class Asin(Curve):
    """Arc sine, from -pi/2 to pi/2; NaN outside of -1 and 1."""

    name = "asin"
    saturates = "its slope is made of 1 - x and 1 + x, which are exact beside 1 and not beside 0"
    domain = (-1.0, 1.0)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / _other_leg(self.x),)


class Acos(Curve):
    """Arc cosine, from 0 to pi; NaN outside of -1 and 1."""

    name = "acos"
    saturates = "its slope is made of 1 - x and 1 + x, which are exact beside 1 and not beside 0"
    domain = (-1.0, 1.0)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (-(dy[0] / _other_leg(self.x)),)


def _other_leg(x: Value) -> Value:
    """``sqrt(1 - x*x)``, with all digits near 1."""
    return Sqrt(one_less_square(x))


def one_less_square(x: Value) -> Value:
    """``1 - x*x``, with all digits near 1.

    The digits are those of ``(1 - x) * (1 + x)``. Its derivative is that of ``1 - x*x``, since in
    the derivative of the product 0 meets infinity at 1.
    """
    rough = 1.0 - x * x
    return rough + StopGradient((1.0 - x) * (1.0 + x) - rough)


class Atan(Curve):
    """Arc tangent, from -pi/2 to pi/2."""

    name = "atan"

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / (self.x * self.x + 1.0),)


class Atan2(Elementwise):
    """The angle from -pi to pi of the point with abscissa ``x`` and ordinate ``y``.

    The edges are those of IEEE 754, zeros and infinities of either sign included. Its
    derivatives at the origin, the second one too, are taken to be 0.
    """

    name = "atan2"
    accepts = "f"
    ulp = 2.6
    domain = (0.0, math.inf)
    y: Value
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.atan2(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``x/(x*x + y*y)`` and ``-y/(x*x + y*y)``."""
        zero = zeros(self.type)
        origin = And(Equal(self.x, zero), Equal(self.y, zero))
        square = Select(origin, splat(1.0, self.type), self.x * self.x + self.y * self.y)
        x, y = (Select(origin, zero, v) for v in (self.x, self.y))
        return dy[0] * (x / square), -(dy[0] * (y / square))

    def scalar(self, s: Scalars[S], *x: S) -> S:
        """That of ``|y| / |x|`` in the first quadrant, then by the signs."""
        y, x_ = (s.unary("abs", v) for v in x)
        zero, one, infinity = (number(s, c, y) for c in (0.0, 1.0, math.inf))
        both = s.binary("and", s.binary("eq", y, infinity), s.binary("eq", x_, infinity))
        over = s.select(both, one, y)
        under = s.select(both, one, s.select(s.binary("eq", y, zero), s.binary("add", x_, one), x_))
        angle = s.unary("atan", s.binary("div", over, under))
        back = s.binary("lt", s.binary("copysign", one, x[1]), zero)
        high, low = _PI[s.dtype(y).bits]
        rest = s.binary("sub", number(s, high, y), s.binary("sub", angle, number(s, low, y)))
        return s.binary("copysign", s.select(back, rest, angle), x[0])


_PI = {32: (3.1415927410125732, -8.742277657347586e-08), 64: (math.pi, 1.2246467991473532e-16)}
