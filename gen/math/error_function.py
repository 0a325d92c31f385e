"""The error function and its complement, as polynomials in any number of lanes.

``erfc(x) = e**(-x*x) * g(x)`` where ``(1 + 2x) * g(x)`` is smooth in (x - 4)/(x + 4) for all
x >= 0 (Shepherd and Laframboise 1981); x*x is taken to twice the digits.
"""

from __future__ import annotations

import math

from dlvm.gen.text.lanes import Lanes

from .coefficients import ERF, ERF_FAR, ERFC, ERFINV_FAR, ERFINV_MIDDLE, ERFINV_NEAR
from .exponential import exp, exp_of_sum
from .logarithm import log


def erf(v: Lanes, x: str) -> str:
    """``x + x*p(x*x)`` below 1, above it one less the complement."""
    size = v.call("fabs", x)
    near = _near(v, x)
    rest = _complement_f32(v, size) if v.f32 else _complement(v, size)
    far = v.copysign(v.sub(v.number(1.0), rest), x)
    return v.select(v.is_("olt", size, v.number(1.0)), near, far)


def _near(v: Lanes, x: str) -> str:
    """erf of a number of size below 1."""
    return v.fma(x, v.estrin(v.mul(x, x), ERF[v.dtype.bits]), x)


def _complement_f32(v: Lanes, size: str) -> str:
    """``e**-p(x)`` on [1, 4], which is enough beside 1 in f32."""
    most = v.number(4.0)
    size = v.select(v.is_("ogt", size, most), most, size)
    return exp(v, v.neg(v.estrin(size, ERF_FAR[32])))


def erfc(v: Lanes, x: str) -> str:
    """The complement of the size, taken from 2 where x is negative; 1 - erf(x) near 0."""
    size = v.call("fabs", x)
    rest = _complement(v, size)
    far = v.select(v.is_("olt", x, v.number(0.0)), v.sub(v.number(2.0), rest), rest)
    near = v.sub(v.number(1.0), _near(v, x))
    return v.select(v.is_("olt", size, v.number(0.5)), near, far)


def _complement(v: Lanes, size: str) -> str:
    """erfc of a number >= 0."""
    most = v.number(12.0 if v.f32 else 28.0)  # it is 0 from here on
    x = v.select(v.is_("ogt", size, most), most, size)
    u, u_low = _ratio(v, x)
    row = ERFC[v.dtype.bits]
    slope = v.estrin(u, [k * c for k, c in enumerate(row)][1:])
    g = v.fma(slope, u_low, v.horner(u, row))
    square, low = v.two_product(x, x)
    power = exp_of_sum(v, v.neg(square), v.neg(low))
    under = v.fma(v.number(2.0), x, v.number(1.0))
    return v.div(v.mul(power, g), under)


def _ratio(v: Lanes, x: str) -> tuple[str, str]:
    """``(x - 4)/(x + 4)`` and what its rounding lost."""
    four = v.number(4.0)
    over, under = v.sub(x, four), v.add(x, four)
    u = v.div(over, under)
    return u, v.div(v.cancelled(v.neg(u), under, over), under)


def erfinv(v: Lanes, x: str) -> str:
    """``x + x*p(w)`` with ``w = -log(1 - x*x)``, or sqrt(w) where that is large (Giles 2010)."""
    one, bits = v.number(1.0), v.dtype.bits
    size = v.call("fabs", x)
    w = v.neg(log(v, v.mul(v.sub(one, size), v.add(one, size))))
    root = v.call("sqrt", w)
    found = v.estrin(v.sub(w, v.number(2.5)), ERFINV_NEAR[bits])
    middle = v.estrin(v.sub(root, v.number(3.125)), ERFINV_MIDDLE[bits])
    found = v.select(v.is_("ogt", w, v.number(5.0)), middle, found)
    if not v.f32:
        far = v.estrin(v.sub(root, v.number(5.0)), ERFINV_FAR[bits])
        found = v.select(v.is_("ogt", w, v.number(16.0)), far, found)
    end = v.is_("oeq", size, one)
    found = v.select(end, v.number(math.inf), v.fma(x, found, x))
    return v.copysign(found, x)  # of -0 the sum is 0
