"""Inverse circular functions and the cube root, as polynomials in any number of lanes."""

from __future__ import annotations

from dlvm.gen.text.lanes import Lanes

from .coefficients import ASIN, ATAN, HALF_PI


def atan(v: Lanes, x: str) -> str:
    """``t + t**3 * p(t*t)`` for t = |x| up to 1, above it pi/2 less that of 1/|x|."""
    size, one, zero = v.call("fabs", x), v.number(1.0), v.number(0.0)
    far = v.is_("ogt", size, one)
    t = v.select(far, v.div(v.number(-1.0), size), size)
    z = v.mul(t, t)
    tail = v.mul(v.mul(z, t), v.estrin(z, ATAN[v.dtype.bits]))
    half_pi = HALF_PI[v.dtype.bits]
    start = v.select(far, v.number(half_pi.high), zero)
    low = v.select(far, v.number(half_pi.low), zero)
    found = v.add(start, v.add(t, v.add(tail, low)))
    return v.where_tiny(x, v.copysign(found, x))


def asin(v: Lanes, x: str) -> str:
    """``x + x**3 * p(x*x)`` up to 1/2, above it ``pi/2 - 2*asin(sqrt((1 - |x|)/2))``."""
    size = v.call("fabs", x)
    near, z, t = _arc(v, size)
    tail = v.mul(v.mul(z, t), v.estrin(z, ASIN[v.dtype.bits]))
    half_pi = HALF_PI[v.dtype.bits]
    twice = v.sub(v.add(tail, tail), v.number(half_pi.low))
    far = v.sub(v.number(half_pi.high), v.add(v.add(t, t), twice))
    found = v.select(near, v.add(t, tail), far)
    return v.where_tiny(x, v.copysign(found, x))


def acos(v: Lanes, x: str) -> str:
    """``pi/2 - asin(x)`` up to 1/2, above it ``2*asin(sqrt((1 - |x|)/2))``, below pi less that."""
    size = v.call("fabs", x)
    near, z, t = _arc(v, size)
    tail = v.mul(v.mul(z, t), v.estrin(z, ASIN[v.dtype.bits]))
    half_pi = HALF_PI[v.dtype.bits]
    signed, low = v.copysign(t, x), v.copysign(tail, x)
    middle = v.sub(v.number(half_pi.high), v.add(signed, v.sub(low, v.number(half_pi.low))))
    arc = v.add(t, tail)
    twice = v.add(arc, arc)
    short = v.add(v.sub(tail, v.number(half_pi.low)), tail)
    long = v.sub(
        v.number(2 * half_pi.high), v.add(v.add(t, t), v.sub(short, v.number(half_pi.low)))
    )
    far = v.select(v.is_("olt", x, v.number(0.0)), long, twice)
    return v.select(near, middle, far)


def _arc(v: Lanes, size: str) -> tuple[str, str, str]:
    """Whether |x| is up to 1/2; and t**2 and t, which is |x| there and else sqrt((1 - |x|)/2)."""
    half = v.number(0.5)
    near = v.is_("ole", size, half)
    z = v.select(near, v.mul(size, size), v.mul(v.sub(v.number(1.0), size), half))
    return near, z, v.select(near, size, v.call("sqrt", z))


def cbrt(v: Lanes, x: str) -> str:
    """Halley's iteration from a third of the exponent; the last step corrects with one rounding.

    ``t * (t**3 + 2x) / (2t**3 + x)`` cubes the error, which starts at 4 %.
    """
    size, zero, one = v.call("fabs", x), v.number(0.0), v.number(1.0)
    up = 24 if v.f32 else 54
    tiny = v.is_("olt", size, v.number(2.0 ** (1 - v.bias)))
    huge = v.is_("oge", size, v.number(2.0 ** (v.bias - 3)))

    def scale(power: int) -> str:
        """By as much up where x is tiny, down where it is huge."""
        other = v.select(huge, v.number(2.0**-power), one)
        return v.select(tiny, v.number(2.0**power), other)

    big = v.mul(size, scale(up))
    third = v.whole_do("udiv", v.bits(big), v.whole(3))
    t = v.float(v.whole_do("add", third, v.whole(0x2A5119F2 if v.f32 else 0x2A9F7893782DA1CE)))
    for _ in range(1 if v.f32 else 2):
        cube = v.mul(v.mul(t, t), t)
        step = v.div(v.add(cube, v.add(big, big)), v.add(v.add(cube, cube), big))
        t = v.mul(t, step)
    t = _corrected(v, t, big)
    t = v.mul(t, scale(-up // 3))
    plain = v.either(v.is_("oeq", size, zero), v.is_("ueq", size, v.number(float("inf"))))
    return v.select(plain, x, v.copysign(t, x))


def _corrected(v: Lanes, t: str, x: str) -> str:
    """One more step of Newton's, with ``t**3 - x`` to twice the digits."""
    square, square_low = v.two_product(t, t)
    cube, cube_low = v.two_product(square, t)
    rest = v.add(v.sub(cube, x), v.fma(square_low, t, cube_low))
    return v.sub(t, v.div(rest, v.mul(v.number(3.0), square)))
