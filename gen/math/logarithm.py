"""Logarithms and the power, as polynomials in any number of lanes.

All start from ``x = 2**e * (1 + f)`` with 1 + f in [sqrt(1/2), sqrt(2)). Where a multiple of
log(1 + f) is wanted, f and the rest are multiplied apart, so that f keeps all of its digits.
"""

from __future__ import annotations

import math

from dlvm.gen.text.lanes import Lanes

from .coefficients import LN2, LOG, LOG2_E, LOG10_2, LOG10_E, LOG_FAR, TWO_THIRDS, Split
from .exponential import exp_of_sum

ONE = {32: Split(1.0, 0.0), 64: Split(1.0, 0.0)}


def log(v: Lanes, x: str) -> str:
    """``e*ln(2) + log(1 + f)``."""
    e, f = _parts(v, x)
    return _guarded(v, x, (_log1p_f32 if v.f32 else _log1p_f64)(v, e, f))


def log1p(v: Lanes, x: str) -> str:
    """``log(u) + (x - (u - 1))/u`` with u = 1 + x rounded: f takes back what that lost."""
    one = v.number(1.0)
    u = v.add(one, x)
    whole, f = _split(v, u)
    lost = v.sub(x, v.sub(u, one))
    large = v.is_("ogt", x, v.number(2.0 ** (v.mantissa + 2)))
    scale = v.power_of_two(v.whole_do("sub", v.whole(0), whole))
    f = v.select(large, f, v.fma(lost, scale, f))
    found = (_log1p_f32 if v.f32 else _log1p_f64)(v, v.from_whole(whole), f)
    return v.where_tiny(x, _guarded(v, u, found))


def log2(v: Lanes, x: str) -> str:
    """``e + log(1 + f) / ln(2)``, exact at powers of two."""
    return _guarded(v, x, _multiple(v, x, ONE[v.dtype.bits], LOG2_E[v.dtype.bits]))


def log10(v: Lanes, x: str) -> str:
    """``e * log10(2) + log(1 + f) / ln(10)``."""
    return _guarded(v, x, _multiple(v, x, LOG10_2[v.dtype.bits], LOG10_E[v.dtype.bits]))


def _guarded(v: Lanes, x: str, found: str) -> str:
    """-inf at 0, NaN below, infinite at infinity."""
    infinity, zero = v.number(math.inf), v.number(0.0)
    found = v.select(v.is_("oeq", x, infinity), infinity, found)
    found = v.select(v.is_("oeq", x, zero), v.number(-math.inf), found)
    return v.select(v.is_("ult", x, zero), v.number(math.nan), found)


def _parts(v: Lanes, x: str) -> tuple[str, str]:
    """The exponent as a float, and f; denormal numbers are scaled up first."""
    up = 25 if v.f32 else 54
    tiny = v.is_("olt", x, v.number(2.0 ** (1 - v.bias)))
    whole, f = _split(v, v.select(tiny, v.mul(x, v.number(2.0**up)), x))
    exponent = v.from_whole(whole)
    return v.select(tiny, v.sub(exponent, v.number(float(up))), exponent), f


def _split(v: Lanes, x: str) -> tuple[str, str]:
    """The exponent and f of a normal number."""
    bits, root = v.bits(x), v.whole(0x3F3504F3 if v.f32 else 0x3FE6A09E667F3BCD)
    e = v.whole_do("ashr", v.whole_do("sub", bits, root), v.whole(v.mantissa))
    fraction = v.whole_do("sub", bits, v.whole_do("shl", e, v.whole(v.mantissa)))
    return e, v.sub(v.float(fraction), v.number(1.0))


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


def _multiple(v: Lanes, x: str, step: Split, factor: Split) -> str:
    """``e * step + (f + rest) * factor``, where rest is log(1 + f) - f."""
    e, f = _parts(v, x)
    if v.f32:
        square = v.mul(f, f)
        cubic = v.mul(v.mul(square, f), v.estrin(f, LOG[32]))
        rest = v.fma(square, v.number(-0.5), cubic)
    else:
        rest = _rest_f64(v, f)
    high = v.number(factor.high)
    main, low = v.two_product(f, high)
    low = v.fma(f, v.number(factor.low), v.fma(rest, high, low))
    low = v.fma(e, v.number(step.low), low)
    start = v.mul(e, v.number(step.high))
    total, lost = v.two_sum(start, main)
    return v.add(total, v.add(lost, low))


def _rest_f64(v: Lanes, f: str) -> str:
    """``log(1 + f) - f = s*(h + z*p(z)) - h``."""
    s = v.div(f, v.add(f, v.number(2.0)))
    z = v.mul(s, s)
    half = v.mul(v.number(0.5), v.mul(f, f))
    return v.fma(s, v.fma(z, v.estrin(z, LOG[64]), half), v.neg(half))


def pow(v: Lanes, x: str, y: str) -> str:
    """``x**y = e**(y * log|x|)`` with the logarithm to twice the digits, and IEEE's edges."""
    size, zero, one = v.call("fabs", x), v.number(0.0), v.number(1.0)
    infinity = v.number(math.inf)
    high, low = _log_twice(v, size)
    product, lost = v.two_product(y, high)
    lost = v.fma(y, low, lost)
    product = v.select(v.is_("oeq", size, zero), v.mul(y, v.number(-math.inf)), product)
    product = v.select(v.is_("ueq", size, infinity), v.mul(y, size), product)
    finite = v.is_("olt", v.call("fabs", product), v.number(2.0**11))
    power = exp_of_sum(v, product, v.select(finite, lost, zero))
    whole = v.is_("oeq", v.call("trunc", y), y)
    half = v.mul(y, v.number(0.5))
    odd = v.both(whole, v.is_("une", v.call("trunc", half), half))
    signed = v.select(odd, v.copysign(power, x), power)
    real = v.both(v.is_("olt", x, zero), v.is_("olt", size, infinity))
    far = v.is_("oeq", v.call("fabs", y), infinity)
    broken = v.both(real, v.neither(whole, far))
    power = v.select(broken, v.number(math.nan), signed)
    unit = v.both(v.is_("oeq", size, one), far)
    certain = v.either(v.either(v.is_("oeq", x, one), v.is_("oeq", y, zero)), unit)
    return v.select(certain, one, power)


def _log_twice(v: Lanes, x: str) -> tuple[str, str]:
    """log(x) of a positive finite number as a sum of two, to some 10 digits beyond the type.

    ``2*s + s*z*(2/3 + z*p(z))`` for s = f/(2 + f), z = s*s; s, z and the factor 2/3 are sums of
    two as well.
    """
    e, f = _parts(v, x)
    bits = v.dtype.bits
    s, s_low = _ratio(v, f)
    z, z_low = v.two_product(s, s)
    z_low = v.fma(v.add(s, s), s_low, z_low)
    thirds = TWO_THIRDS[bits]
    far = v.mul(z, v.estrin(z, LOG_FAR[bits]))
    c, c_low = v.fast_two_sum(v.number(thirds.high), far)
    c_low = v.add(c_low, v.number(thirds.low))
    cube, cube_low = v.two_product(z, c)
    cube_low = v.fma(z, c_low, v.fma(z_low, c, cube_low))
    tail, tail_low = v.two_product(s, cube)
    tail_low = v.fma(s, cube_low, v.fma(s_low, cube, tail_low))
    head, head_low = v.fast_two_sum(v.add(s, s), tail)
    low = v.add(v.add(head_low, tail_low), v.add(s_low, s_low))
    step = LN2[bits]
    start = v.mul(e, v.number(step.high))
    total, lost = v.two_sum(start, head)
    second, second_low = v.two_product(e, v.number(step.low))
    return v.fast_two_sum(total, v.add(v.add(lost, low), v.add(second, second_low)))


def _ratio(v: Lanes, f: str) -> tuple[str, str]:
    """``f / (2 + f)`` and what its rounding lost."""
    two = v.number(2.0)
    under = v.add(two, f)
    under_low = v.sub(f, v.sub(under, two))
    s = v.div(f, under)
    rest = v.fma(v.neg(s), under_low, v.cancelled(v.neg(s), under, f))
    return s, v.div(rest, under)
