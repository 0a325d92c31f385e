"""The exponential and what is made of it, as polynomials in any number of lanes.

Each is right for NaN, infinities, zeros of either sign and denormal numbers. The arithmetic is
exactly the one written here: LLVM may neither reorder nor contract it.
"""

from __future__ import annotations

import math

from dlvm.gen.text.lanes import Lanes, Whole

from .coefficients import EXP, LN2, SINH
from .scaling import scaled

LOWEST = {32: -104.5, 64: -746.0}  # e**x is 0 from here down
HIGHEST = {32: 89.5, 64: 710.0}  # and infinite from here on
LOWEST_POWER, HIGHEST_POWER = {32: -151.0, 64: -1076.0}, {32: 129.0, 64: 1025.0}
FLAT = {32: 9.1, 64: 19.5}  # tanh is 1 from here on
MINUS_ONE = {32: -18.0, 64: -38.0}  # e**x - 1 is -1 from here down
FULL = {32: 88.8, 64: 709.9}  # e**x overflows from here on, but not in halves


def exp(v: Lanes, x: str) -> str:
    """``e**x = 2**n * (1 + r * (1 + r*q(r)))`` where ``x = n*ln(2) + r``."""
    n, r, _, q = _reduced(v, v.clamp(x, LOWEST[v.dtype.bits], HIGHEST[v.dtype.bits]))
    return _scaled(v, _near_one(v, r, q), n)


def exp_of_sum(v: Lanes, x: str, low: str) -> str:
    """``e**(x + low)`` where low is what x lost in rounding."""
    n, r, lost = _remainder(v, v.clamp(x, LOWEST[v.dtype.bits], HIGHEST[v.dtype.bits]))
    r, error = v.two_sum(r, low)
    tail = v.fma(v.mul(r, r), _polynomial(v, r), v.add(lost, error))
    return _scaled(v, v.add(v.add(tail, r), v.number(1.0)), n)


def exp2(v: Lanes, x: str) -> str:
    """``2**x = 2**n * e**((x - n) * ln(2))``, exact at integers."""
    x = v.clamp(x, LOWEST_POWER[v.dtype.bits], HIGHEST_POWER[v.dtype.bits])
    n = v.nearest(x)
    r = v.mul(v.sub(x, n.float), v.number(math.log(2)))
    return _scaled(v, _near_one(v, r, _polynomial(v, r)), n)


def _near_one(v: Lanes, r: str, q: str) -> str:
    one = v.number(1.0)
    return v.fma(v.fma(q, r, one), r, one)


def _reduced(v: Lanes, x: str) -> tuple[Whole, str, str, str]:
    """n, r with what it lost in rounding, and ``q = (e**r - 1 - r) / r**2``."""
    n, r, lost = _remainder(v, x)
    return n, r, lost, _polynomial(v, r)


def _remainder(v: Lanes, x: str) -> tuple[Whole, str, str]:
    """n, r and what it lost, for ``x = n*ln(2) + r``."""
    n = v.nearest(x, 1 / math.log(2))
    minus_n, parts = v.neg(n.float), LN2[v.dtype.bits]
    high = v.fma(minus_n, v.number(parts.high), x)
    r = v.fma(minus_n, v.number(parts.low), high)
    lost = v.fma(minus_n, v.number(parts.low), v.sub(high, r))
    return n, r, lost


def _polynomial(v: Lanes, r: str) -> str:
    return (v.horner if v.f32 else v.estrin)(r, EXP[v.dtype.bits])


def _scaled(v: Lanes, x: str, n: Whole) -> str:
    """``x * 2**n``, rounded once: by one instruction, or two, so that it may be denormal."""
    if v.w.text.scales:
        return scaled(v, x, n)
    half = v.whole_do("ashr", n.bits, v.whole(1))
    return v.mul(v.mul(x, v.power_of_two(half)), v.power_of_two(v.whole_do("sub", n.bits, half)))


def expm1(v: Lanes, x: str) -> str:
    """``e**x - 1``, computed as twice its half, which does not overflow; x itself near 0."""
    n, r, lost, q = _reduced(v, v.clamp(x, MINUS_ONE[v.dtype.bits], FULL[v.dtype.bits]))
    scale = v.power_of_two(v.whole_do("sub", n.bits, v.whole(1)))
    tail = v.fma(v.mul(r, r), q, lost)
    t = v.fma(scale, tail, v.fma(scale, r, v.sub(scale, v.number(0.5))))
    return v.where_tiny(x, v.add(t, t))


def tanh(v: Lanes, x: str) -> str:
    """``t / (t + 2)`` with ``t = e**(2|x|) - 1``, and the sign of x."""
    size = v.call("fabs", x)
    flat = v.number(FLAT[v.dtype.bits])
    size = v.select(v.is_("ogt", size, flat), flat, size)
    n, r, lost, q = _reduced(v, v.add(size, size))
    scale = v.power_of_two(n.bits)
    tail = v.fma(v.mul(r, r), q, lost)
    t = v.fma(scale, tail, v.fma(scale, r, v.sub(scale, v.number(1.0))))
    return v.copysign(v.div(t, v.add(t, v.number(2.0))), x)


def cosh(v: Lanes, x: str) -> str:
    """``h + 1/(4h)`` with ``h = e**|x| / 2``, which overflows only where cosh does."""
    half = _half_exp(v, v.call("fabs", x))
    return v.add(half, v.div(v.number(0.25), half))


def sinh(v: Lanes, x: str) -> str:
    """``h - 1/(4h)`` with ``h = e**|x| / 2``; a polynomial where the size of x is below 1."""
    size, z = v.call("fabs", x), v.mul(x, x)
    near = v.fma(v.mul(z, x), v.estrin(z, SINH[v.dtype.bits]), x)
    half = _half_exp(v, size)
    far = v.copysign(v.sub(half, v.div(v.number(0.25), half)), x)
    return v.select(v.is_("olt", size, v.number(1.0)), near, far)


def _half_exp(v: Lanes, size: str) -> str:
    """``e**size / 2`` for size >= 0."""
    highest = v.number(HIGHEST[v.dtype.bits] + 1.0)
    n, r, lost, q = _reduced(v, v.select(v.is_("ogt", size, highest), highest, size))
    tail = v.fma(v.mul(r, r), q, lost)
    less = Whole(v.whole_do("sub", n.bits, v.whole(1)), v.sub(n.float, v.number(1.0)))
    return _scaled(v, v.add(v.add(tail, r), v.number(1.0)), less)
