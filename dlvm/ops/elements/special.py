"""Special functions of each element: error and gamma functions.

docs/accuracy.md says how near their machine code comes to the exact values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from dlvm.base.errors import IRError
from dlvm.ir import F64, Array, TensorType, Value
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise

from .meanings import cotangent_polynomial, polygamma, tail_terms
from .transcendental import Curve, Exp


class Erf(Curve):
    """Error function ``2/sqrt(pi) * integral of e**(-t*t) from 0 to x``."""

    name = "erf"
    exact = "erf(x)"

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (Exp(-(self.x * self.x)) * (2 / math.sqrt(math.pi))),)


class Erfc(Curve):
    """Complement ``1 - erf(x)`` of the error function, with all digits where the result
    is small.
    """

    name = "erfc"
    exact = "erfc(x)"
    ulp = 4.0

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (Exp(-(self.x * self.x)) * (-2 / math.sqrt(math.pi))),)


class Erfinv(Curve):
    """Inverse of the error function; infinite at 1 and -1, NaN beyond."""

    name = "erfinv"
    exact = "erfinv(x)"
    ulp = 4.0
    domain = (-1.0, 1.0)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (Exp(self * self) * (math.sqrt(math.pi) / 2)),)


class LGamma(Curve):
    """``log|gamma(x)|``; infinite at 0 and at the negative whole numbers."""

    name = "lgamma"
    exact = "loggamma(x)"
    ulp = 4.0
    cancels = "it is near 0 between negative poles"
    domain = (0.0, math.inf)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * Digamma(self.x),)


class Digamma(Curve):
    """``d lgamma(x)/dx``; NaN at the negative whole numbers, infinite at 0 against its sign."""

    name = "digamma"
    exact = "digamma(x)"
    ulp = 4.0
    cancels = "it is near 0 between negative poles"
    domain = (0.0, math.inf)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * Polygamma(self.x, 1),)


class Polygamma(Elementwise):
    """``d^n digamma(x)/dx^n`` for an order n from 1 to 100.

    At 0 and the negative whole numbers it is infinite for odd orders, NaN for even ones. Its error
    grows with the order: ``ulp`` holds up to 3.
    """

    name = "polygamma"
    exact = "psi(order, x)"
    accepts = "f"
    ulp = 4.0
    cancels = "even orders are 0 between negative poles"
    domain = (0.0, math.inf)
    x: Value
    order: int

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """The element-wise rule; the order must be exact in f64."""
        if not 1 <= self.order <= 100:
            raise IRError(f"polygamma: expected an order from 1 to 100, found {self.order}")
        return super().infer()

    def reference(self, *operands: Array) -> Any:
        (x,) = operands
        return polygamma(np.asarray(x, np.float64), self.order).astype(x.dtype)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * Polygamma(self.x, self.order + 1),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        """In f64: the sum over the first steps and its tail, reflected below 1/2."""
        n, wide = self.order, s.cast(x[0], F64)
        one = s.constant(1.0, F64)
        reflected = s.binary("lt", wide, s.constant(0.5, F64))
        y = s.select(reflected, s.binary("sub", one, wide), wide)
        total = _tail(s, s.binary("add", y, s.constant(n + 10.0, F64)), n)
        for k in reversed(range(n + 10)):
            step = s.binary("add", y, s.constant(float(k), F64))
            total = s.binary("add", total, s.binary("div", one, _power(s, step, n + 1)))
        total = s.binary("mul", total, s.constant(float(math.factorial(n)), F64))
        plain = total if n % 2 else s.unary("neg", total)
        turned = s.unary("neg", plain) if n % 2 else plain
        below = s.binary("sub", turned, _slope(s, wide, n))
        pole = s.binary("eq", wide, s.unary("round", wide))
        end = s.constant(math.inf if n % 2 else math.nan, F64)
        below = s.select(s.binary("and", pole, reflected), end, below)
        return s.cast(s.select(reflected, below, plain), s.dtype(x[0]))


def _power(s: Scalars[S], x: S, n: int) -> S:
    """x multiplied by itself."""
    return reduce(lambda product, _: s.binary("mul", product, x), range(n - 1), x)


def _horner(s: Scalars[S], x: S, row: Sequence[float]) -> S:
    """A polynomial, lowest coefficient first."""
    highest, *rest = (s.constant(float(c), F64) for c in reversed(row))
    return reduce(lambda total, c: s.binary("add", s.binary("mul", total, x), c), rest, highest)


def _tail(s: Scalars[S], z: S, n: int) -> S:
    """The sum of ``(z + k)**-(n + 1)`` over all k >= 0."""
    first, second, *rest = (c for _, c in tail_terms(n))
    r = s.binary("div", s.constant(1.0, F64), z)
    more = s.binary("mul", _horner(s, s.binary("mul", r, r), rest), r)
    more = s.binary("add", s.constant(second, F64), more)
    whole = s.binary("add", s.constant(first, F64), s.binary("mul", r, more))
    return s.binary("mul", _power(s, r, n), whole)


def _slope(s: Scalars[S], x: S, n: int) -> S:
    """``pi * d^n cot(pi*x)/dx^n``."""
    turn = s.binary("sub", x, s.unary("round", x))
    size = s.unary("abs", turn)
    steep = s.binary("lt", size, s.constant(0.25, F64))
    other = s.binary("sub", s.constant(0.5, F64), size)
    angle = s.binary("mul", s.select(steep, size, other), s.constant(math.pi, F64))
    tangent = s.unary("tan", angle)
    cotangent = s.select(steep, s.binary("div", s.constant(1.0, F64), tangent), tangent)
    cotangent = s.binary("copysign", cotangent, turn)
    slope = _horner(s, cotangent, [float(c) for c in cotangent_polynomial(n)])
    return s.binary("mul", slope, s.constant(math.pi ** (n + 1), F64))
