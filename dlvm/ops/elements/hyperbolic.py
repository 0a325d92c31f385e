"""Hyperbolic functions of each element and their inverses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm.ir import Array, Value, splat
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise

from .transcendental import Curve, Hypot, Sqrt, number
from .trigonometric import one_less_square


class Sinh(Curve):
    """Hyperbolic sine ``(e**x - e**-x) / 2``."""

    name = "sinh"

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * Cosh(self.x),)


class Cosh(Curve):
    """Hyperbolic cosine ``(e**x + e**-x) / 2``."""

    name = "cosh"
    nonnegative = True

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * Sinh(self.x),)


class Tanh(Curve):
    """Hyperbolic tangent ``(e**x - e**-x) / (e**x + e**-x)``."""

    name = "tanh"

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (1.0 - self * self),)


class Asinh(Elementwise):
    """Inverse of the hyperbolic sine, ``log(x + sqrt(x*x + 1))``."""

    name = "asinh"
    accepts = "f"
    ulp = 4.0
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.asinh(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / Hypot(self.x, splat(1.0, self.type)),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        """``log1p(a + a*a/(1 + sqrt(1 + a*a)))`` of the magnitude."""
        size = s.unary("abs", *x)
        one, large, a = _moderate(s, size)
        square = s.binary("mul", a, a)
        root = s.unary("sqrt", s.binary("add", square, one))
        more = s.binary("div", square, s.binary("add", root, one))
        return s.binary("copysign", _log_of(s, size, large, s.binary("add", a, more)), x[0])


class Acosh(Elementwise):
    """Inverse of the hyperbolic cosine, ``log(x + sqrt(x*x - 1))``; NaN below 1."""

    name = "acosh"
    accepts = "f"
    ulp = 4.0
    domain = (1.0, math.inf)
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.acosh(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``1 / sqrt(x - 1) / sqrt(x + 1)``, which does not overflow.

        A product of the roots would be derived to 0 times infinity at 1.
        """
        return (dy[0] / Sqrt(self.x - 1.0) / Sqrt(self.x + 1.0),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        """``log1p(t + sqrt(t*(t + 2)))`` with t = x - 1."""
        one, large, a = _moderate(s, *x)
        t = s.binary("sub", a, one)
        product = s.binary("mul", t, s.binary("add", t, number(s, 2.0, t)))
        found = _log_of(s, x[0], large, s.binary("add", t, s.unary("sqrt", product)))
        return s.select(s.binary("lt", x[0], one), number(s, math.nan, found), found)


def _moderate(s: Scalars[S], x: S) -> tuple[S, S, S]:
    """1, whether x is so large that 1 is lost beside its square, and x or else 1."""
    one = number(s, 1.0, x)
    large = s.binary("lt", number(s, 2.0 ** (30 if s.dtype(x).bits == 32 else 60), x), x)
    return one, large, s.select(large, one, x)


def _log_of(s: Scalars[S], x: S, large: S, less_one: S) -> S:
    """The logarithm of 1 + less_one, or of 2x where x is large."""
    found = s.unary("log1p", s.select(large, x, less_one))
    zero = number(s, 0.0, found)
    return s.binary("add", found, s.select(large, number(s, math.log(2), found), zero))


class Atanh(Elementwise):
    """Inverse of the hyperbolic tangent; infinite at 1 and -1, NaN beyond."""

    name = "atanh"
    saturates = "its slope is made of 1 - x and 1 + x, which are exact beside 1 and not beside 0"
    accepts = "f"
    ulp = 4.0
    domain = (-1.0, 1.0)
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.atanh(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / one_less_square(self.x),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        """``log1p(2a/(1 - a)) / 2`` of the magnitude."""
        size = s.unary("abs", *x)
        rest = s.binary("sub", number(s, 1.0, size), size)
        ratio = s.binary("div", s.binary("add", size, size), rest)
        found = s.binary("mul", s.unary("log1p", ratio), number(s, 0.5, size))
        return s.binary("copysign", found, x[0])
