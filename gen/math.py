"""Exponential, logarithm and hyperbolic tangent as polynomials, in any number of lanes.

Each is right for NaN, infinities, zeros of either sign and denormal numbers, and within 2.6
units in the last place; ``tests/gen/test_math.py`` measures that. The arithmetic is exactly
the one written here on every target: LLVM may neither reorder nor contract it.
"""

from __future__ import annotations

import math

from .coefficients import EXP, LN2, LOG, Split
from .lanes import Lanes

LOWEST = {32: -104.5, 64: -746.0}
HIGHEST = {32: 89.5, 64: 710.0}
FLAT = {32: 9.1, 64: 19.5}  # tanh is 1 from here on


def exp(v: Lanes, x: str) -> str:
    """``e**x = 2**n * (1 + r + r*r*q(r))`` where ``x = n*ln(2) + r``."""
    lowest, highest = v.number(LOWEST[v.dtype.bits]), v.number(HIGHEST[v.dtype.bits])
    x = v.select(v.is_("olt", x, lowest), lowest, x)
    x = v.select(v.is_("ogt", x, highest), highest, x)
    n, r, _, q = _reduced(v, x)
    one_plus = v.add(v.fma(v.mul(r, r), q, r), v.number(1.0))
    half = v.whole_do("ashr", n, v.whole(1))
    rest = v.whole_do("sub", n, half)
    return v.mul(v.mul(one_plus, _power(v, half)), _power(v, rest))


def _reduced(v: Lanes, x: str) -> tuple[str, str, str, str]:
    """n as an integer, r with what it lost in rounding, and ``q = (e**r - 1 - r) / r**2``.

    Adding 1.5 * 2**mantissa leaves the nearest integer in the low bits.
    """
    magic = v.number(1.5 * 2.0**v.mantissa)
    shifted = v.add(v.mul(x, v.number(1 / math.log(2))), magic)
    n = v.whole_do("sub", v.bits(shifted), v.bits(magic))
    minus_n = v.neg(v.sub(shifted, magic))
    parts: Split = LN2[v.dtype.bits]
    high = v.fma(minus_n, v.number(parts.high), x)
    r = v.fma(minus_n, v.number(parts.low), high)
    lost = v.fma(minus_n, v.number(parts.low), v.sub(high, r))
    polynomial = v.horner if v.f32 else v.estrin
    return n, r, lost, polynomial(r, EXP[v.dtype.bits])


def _power(v: Lanes, n: str) -> str:
    """``2**n`` for a normal result."""
    biased = v.whole_do("add", n, v.whole(v.bias))
    return v.float(v.whole_do("shl", biased, v.whole(v.mantissa)))


def tanh(v: Lanes, x: str) -> str:
    """``t / (t + 2)`` with ``t = e**(2|x|) - 1``, and the sign of x."""
    size = v.call("fabs", x)
    flat = v.number(FLAT[v.dtype.bits])
    size = v.select(v.is_("ogt", size, flat), flat, size)
    n, r, lost, q = _reduced(v, v.add(size, size))
    scale = _power(v, n)
    tail = v.fma(v.mul(r, r), q, lost)
    t = v.fma(scale, tail, v.fma(scale, r, v.sub(scale, v.number(1.0))))
    return v.call("copysign", v.div(t, v.add(t, v.number(2.0))), x)


def log(v: Lanes, x: str) -> str:
    """``e*ln(2) + log(1 + f)`` where ``x = 2**e * (1 + f)`` and 1 + f is near 1."""
    e, f = _parts(v, x)
    found = (_log1p_f32 if v.f32 else _log1p_f64)(v, e, f)
    infinity, zero = v.number(math.inf), v.number(0.0)
    found = v.select(v.is_("oeq", x, infinity), infinity, found)
    found = v.select(v.is_("oeq", x, zero), v.number(-math.inf), found)
    return v.select(v.is_("ult", x, zero), v.number(math.nan), found)


def _parts(v: Lanes, x: str) -> tuple[str, str]:
    """The exponent and 1 + f in [sqrt(1/2), sqrt(2)); denormal numbers are scaled up first."""
    up = 25 if v.f32 else 54
    tiny = v.is_("olt", x, v.number(2.0 ** (1 - v.bias)))
    bits = v.bits(v.select(tiny, v.mul(x, v.number(2.0**up)), x))
    root = v.whole(0x3F3504F3 if v.f32 else 0x3FE6A09E667F3BCD)
    e = v.whole_do("ashr", v.whole_do("sub", bits, root), v.whole(v.mantissa))
    fraction = v.whole_do("sub", bits, v.whole_do("shl", e, v.whole(v.mantissa)))
    exponent = v.from_whole(e)
    exponent = v.select(tiny, v.sub(exponent, v.number(float(up))), exponent)
    return exponent, v.sub(v.float(fraction), v.number(1.0))


def _log1p_f32(v: Lanes, e: str, f: str) -> str:
    """``f - f**2/2 + f**3 * p(f)``, smallest terms first."""
    square = v.mul(f, f)
    y = v.mul(v.mul(square, f), v.estrin(f, LOG[32]))
    y = v.fma(e, v.number(LN2[32].low), y)
    y = v.add(v.fma(square, v.number(-0.5), y), f)
    return v.fma(e, v.number(LN2[32].high), y)


def _log1p_f64(v: Lanes, e: str, f: str) -> str:
    """``f - (h - s*(h + z*p(z)))``, s = f/(2+f), z = s*s, h = f*f/2 (as in fdlibm)."""
    s = v.div(f, v.add(f, v.number(2.0)))
    z = v.mul(s, s)
    rest = v.mul(z, v.estrin(z, LOG[64]))
    half = v.mul(v.number(0.5), v.mul(f, f))
    tail = v.fma(s, v.add(half, rest), v.mul(e, v.number(LN2[64].low)))
    return v.fma(e, v.number(LN2[64].high), v.sub(f, v.sub(half, tail)))
