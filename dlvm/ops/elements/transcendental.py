"""Exponentials, logarithms, powers and roots of each element.

A function that is a scalar word of its own is a ``Curve``; the others state their formula in
those words. ``ulp`` is what ``make accuracy`` has measured, rounded up; docs/accuracy.md is its
table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.ir import BOOL, Array, Value, rewrite, splat, zeros
from dlvm.ir.numerics import FAST
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise

from .logic import Equal, Not, Or, Select
from .meanings import meaning


def number(s: Scalars[S], value: float, like: S) -> S:
    """A constant of another scalar's type."""
    return s.constant(value, s.dtype(like))


class Curve(Elementwise):
    """A function of one float that is a scalar word of the same name."""

    accepts = "f"
    ulp = 2.6
    x: Value

    def reference(self, *operands: Array) -> Any:
        return meaning(self.name)(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.unary(self.name, *x)


class Exp(Curve):
    """``e**x``; exp(-inf) is 0."""

    name = "exp"
    nonnegative = True

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        return True

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * self,)


class Exp2(Curve):
    """``2**x``, exact at integers."""

    name = "exp2"
    nonnegative = True

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (self * math.log(2)),)


class Expm1(Curve):
    """``e**x - 1``, with all digits near 0."""

    name = "expm1"

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (self + 1.0),)


class Log(Curve):
    """Natural logarithm; log(0) is -inf, NaN below 0."""

    name = "log"
    domain = (0.0, math.inf)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / self.x,)


@rewrite(Exp, example=lambda x: Exp(Log(x)), given=("f[M,N]",), law_class=FAST)
def exponential_of_logarithm(op: Exp) -> Value | None:
    """e**log(x) = x; where x is negative it is NaN, and its digits are as many as log(x) leaves."""
    match op:
        case Exp(Log(x)):
            return x
        case _:
            return None


@rewrite(Log, example=lambda x: Log(Exp(x)), given=("f[M,N]",), law_class=FAST)
def logarithm_of_exponential(op: Log) -> Value | None:
    """log(e**x) = x; where e**x overflows, vanishes or is near 1 the left side loses digits."""
    match op:
        case Log(Exp(x)):
            return x
        case _:
            return None


class Log2(Curve):
    """Logarithm to the base 2, exact at powers of 2; log2(0) is -inf, NaN below 0."""

    name = "log2"
    domain = (0.0, math.inf)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / (self.x * math.log(2)),)


class Log10(Curve):
    """Logarithm to the base 10; log10(0) is -inf, NaN below 0."""

    name = "log10"
    domain = (0.0, math.inf)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / (self.x * math.log(10)),)


class Log1p(Curve):
    """``log(1 + x)``, with all digits near 0; log1p(-1) is -inf, NaN below."""

    name = "log1p"
    domain = (-1.0, math.inf)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / (self.x + 1.0),)


class LogAddExp(Elementwise):
    """``log(e**x + e**y)`` without overflow; -inf where both are."""

    name = "logaddexp"
    accepts = "f"
    ulp = 2.6
    cancels = "it is near 0 where e**x + e**y is near 1"
    saturates = "the slope of its share y is y (1 - y), and y is rounded"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.logaddexp(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """The shares ``e**x / (e**x + e**y)`` and the rest; equal ones of equal infinities."""
        apart = self.x - self.y
        plain = Or(Equal(apart, apart), Not(Equal(self.x, self.y)))
        apart = self._in_units_of_e(Select(plain, apart, zeros(self.type)))
        return dy[0] * Sigmoid(apart), dy[0] * Sigmoid(-apart)

    def _in_units_of_e(self, apart: Value) -> Value:
        return apart

    def scalar(self, s: Scalars[S], *x: S) -> S:
        apart = s.unary("abs", s.binary("sub", *x))
        apart = s.select(s.binary("eq", *x), number(s, 0.0, apart), apart)
        small = s.unary("log1p", s.unary("exp", s.unary("neg", apart)))
        return s.binary("add", s.binary("max", *x), small)


class LogAddExp2(LogAddExp):
    """``log2(2**x + 2**y)`` without overflow; -inf where both are."""

    name = "logaddexp2"
    cancels = "it is near 0 where 2**x + 2**y is near 1"

    def reference(self, *operands: Array) -> Any:
        return np.logaddexp2(*operands)

    def _in_units_of_e(self, apart: Value) -> Value:
        return apart * math.log(2)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        apart = s.unary("abs", s.binary("sub", *x))
        apart = s.select(s.binary("eq", *x), number(s, 0.0, apart), apart)
        small = s.unary("log1p", s.unary("exp2", s.unary("neg", apart)))
        small = s.binary("mul", small, number(s, 1 / math.log(2), small))
        return s.binary("add", s.binary("max", *x), small)


class Sigmoid(Elementwise):
    """Logistic function ``1 / (1 + e**-x)``, from ``e**-|x|`` so that nothing overflows."""

    name = "sigmoid"
    nonnegative = True
    accepts = "f"
    ulp = 2.6
    x: Value

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        return True

    def reference(self, *operands: Array) -> Any:
        (x,) = operands
        small = np.exp(-np.abs(x))
        one = np.ones((), x.dtype)
        return np.where(x < 0, small, one) / (one + small)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (self * (1.0 - self)),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        small = s.unary("exp", s.unary("neg", s.unary("abs", *x)))
        one, zero = number(s, 1.0, small), number(s, 0.0, small)
        over = s.select(s.binary("lt", x[0], zero), small, one)
        return s.binary("div", over, s.binary("add", one, small))


class Pow(Elementwise):
    """``x ** y`` of floats with the edges of IEEE 754: ``x**0`` and ``1**y`` are 1, of NaN too.

    NaN where x < 0 and y is no integer. The derivative with respect to y is 0 where x is 0 and
    y is not negative.
    """

    name = "pow"
    accepts = "f"
    ulp = 2.6
    domain = (0.0, math.inf)
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.power(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``y * x**(y - 1)`` and ``x**y * log(x)``, each 0 where it is ``0 * inf`` at x = 0."""
        zero, one = zeros(self.type), splat(1.0, self.type)
        at_zero = Equal(self.x, zero)
        flat = Select(at_zero, Equal(self.y, zero), splat(False, self.type.with_dtype(BOOL)))
        slope = self.y * Pow(self.x, Select(flat, one, self.y - 1.0))
        return dy[0] * slope, dy[0] * (self * Log(Select(at_zero, one, self.x)))

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("pow", *x)


class Sqrt(Curve):
    """Square root, correctly rounded; NaN below 0."""

    name = "sqrt"
    nonnegative = True
    ulp = 0.5
    domain = (0.0, math.inf)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / (self * 2.0),)


class Cbrt(Curve):
    """Cube root, of either sign; its derivative at 0 is infinite."""

    name = "cbrt"
    ulp = 1.0
    domain = (0.0, math.inf)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """``1 / (3 y**2)``; in the derivative of ``y * y``, 0 meets infinity at 0."""
        return (dy[0] * Pow(self, splat(-2.0, self.type)) / 3.0,)


class Hypot(Elementwise):
    """``sqrt(x*x + y*y)`` without overflow; infinite where either is, even beside NaN.

    Its derivatives at the origin, the second one too, are taken to be 0.
    """

    name = "hypot"
    nonnegative = True
    accepts = "f"
    ulp = 2.0
    domain = (0.0, math.inf)
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.hypot(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        zero = zeros(self.type)
        origin = Equal(self, zero)
        length = Select(origin, splat(1.0, self.type), self)
        x, y = (Select(origin, zero, v) for v in (self.x, self.y))
        return dy[0] * (x / length), dy[0] * (y / length)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        """Scaled by a power of two where squares would leave the range."""
        a, b = (s.unary("abs", v) for v in x)
        most = s.binary("max", a, b)
        up, down = (2.0**98, 2.0**-70) if s.dtype(most).bits == 32 else (2.0**700, 2.0**-600)
        low, high = (2.0**-40, 2.0**60) if s.dtype(most).bits == 32 else (2.0**-400, 2.0**500)
        one = number(s, 1.0, most)
        small = s.binary("lt", most, number(s, low, most))
        large = s.binary("lt", number(s, high, most), most)

        def either(if_small: float, if_large: float) -> S:
            middle = s.select(large, number(s, if_large, most), one)
            return s.select(small, number(s, if_small, most), middle)

        scale = either(up, down)
        a, b = s.binary("mul", a, scale), s.binary("mul", b, scale)
        squares = s.binary("add", s.binary("mul", a, a), s.binary("mul", b, b))
        found = s.binary("mul", s.unary("sqrt", squares), either(1 / up, 1 / down))
        infinity = number(s, math.inf, most)
        infinite = s.binary("or", s.binary("eq", a, infinity), s.binary("eq", b, infinity))
        return s.select(infinite, infinity, found)
