"""The logarithm of the gamma function and its derivative, in any number of lanes.

Both compute in f64, whose result is rounded once where f32 is wanted. Large arguments take
Stirling's series, those near the zeros at 1, 2 and 1.46 a polynomial times the distance, those
between are brought there by ``gamma(y) = (y - 1) * gamma(y - 1)``, and negative ones reflected.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dlvm.gen.text.lanes import Lanes

from .coefficients import DIGAMMA, DIGAMMA_ROOT, LGAMMA_ONE, LGAMMA_TWO
from .logarithm import log
from .trigonometric import sin_cos_of_turns

BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
SERIES = 10.0  # from here on the series does


def lgamma(v: Lanes, x: str) -> str:
    """log|gamma(x)|."""
    return v.in_f64(_lgamma, x)


def digamma(v: Lanes, x: str) -> str:
    """The derivative of log(gamma(x))."""
    return v.in_f64(_digamma, x)


def _lgamma(v: Lanes, x: str) -> str:
    """``lgamma(-y) = log(pi / (y * |sin(pi*y)|)) - lgamma(y)``."""
    y, zero = v.call("fabs", x), v.number(0.0)
    found = _lgamma_positive(v, y)
    sine = v.call("fabs", sin_cos_of_turns(v, y)[0])
    other = v.sub(log(v, v.div(v.number(math.pi), v.mul(y, sine))), found)
    far = v.is_("oge", y, v.number(2.0**52))  # a whole number, so a pole
    other = v.select(far, v.number(math.inf), other)
    near_zero = v.is_("olt", y, v.number(2.0**-100))  # y * sin(pi*y) vanishes
    other = v.select(near_zero, found, other)
    return v.add(v.select(v.is_("olt", x, zero), other, found), zero)  # no -0 at 1 and 2


def _lgamma_positive(v: Lanes, y: str) -> str:
    one, two = v.number(1.0), v.number(2.0)
    big = v.is_("oge", y, v.number(SERIES))
    small = v.is_("olt", y, v.number(0.7))
    near_one = v.both(v.is_("oge", y, v.number(0.7)), v.is_("olt", y, v.number(1.5)))
    rest, product = _brought_down(v, v.select(big, two, y), 2.5, one, v.mul)
    d = v.select(small, y, v.sub(rest, two))
    d = v.select(near_one, v.sub(y, one), d)
    row = [
        v.select(near_one, v.number(a), v.number(b))
        for a, b in zip(LGAMMA_ONE[64], LGAMMA_TWO[64], strict=True)
    ]
    middle = v.mul(d, v.estrin_of(d, row))
    of = v.select(small, v.fma(y, y, y), product)
    logarithm = log(v, v.select(big, y, of))
    signed = v.select(small, v.neg(logarithm), logarithm)
    middle = v.select(near_one, middle, v.add(middle, signed))
    main = v.mul(v.sub(y, v.number(0.5)), v.sub(logarithm, one))
    r = v.div(one, y)
    tail = v.mul(r, v.estrin(v.mul(r, r), _coefficients(lambda k: 2 * k * (2 * k - 1))))
    stirling = v.add(main, v.add(v.number(0.5 * math.log(2 * math.pi) - 0.5), tail))
    infinite = v.is_("oeq", y, v.number(math.inf))
    return v.select(big, v.select(infinite, y, stirling), middle)


def _coefficients(under: Callable[[int], int]) -> list[float]:
    return [b / under(k) for k, b in enumerate(BERNOULLI, 1)]


def _brought_down(
    v: Lanes, y: str, top: float, start: str, join: Callable[[str, str], str]
) -> tuple[str, str]:
    """y less a whole number, below ``top``; and what ``join`` makes of all that were passed."""
    total, one = start, v.number(1.0)
    for _ in range(int(SERIES - top) + 1):
        above = v.is_("oge", y, v.number(top))
        less = v.sub(y, one)
        total = v.select(above, join(total, less), total)
        y = v.select(above, less, y)
    return y, total


def _digamma(v: Lanes, x: str) -> str:
    """``digamma(-y) = digamma(y) + 1/y + pi*cot(pi*y)``; NaN at the negative poles."""
    y, zero = v.call("fabs", x), v.number(0.0)
    one, infinity = v.number(1.0), v.number(math.inf)
    inverse, negative = v.div(one, y), v.is_("olt", x, zero)
    small = v.is_("olt", y, one)
    first = v.select(
        negative, v.select(small, zero, inverse), v.select(small, v.neg(inverse), zero)
    )
    found = v.add(_digamma_from(v, y, inverse, small), first)
    sine, cosine = sin_cos_of_turns(v, y)
    cotangent = v.mul(v.number(math.pi), v.div(cosine, sine))
    other = v.select(v.is_("oeq", sine, zero), v.number(math.nan), v.add(found, cotangent))
    found = v.select(negative, other, found)
    pole = v.copysign(infinity, v.neg(x))
    return v.select(v.is_("oeq", x, zero), pole, found)


def _digamma_from(v: Lanes, y: str, inverse: str, small: str) -> str:
    """digamma(y), or digamma(y + 1) where y is below 1."""
    one, zero, middle = v.number(1.0), v.number(0.0), v.number(1.5)
    big = v.is_("oge", y, v.number(SERIES))

    def join(total: str, less: str) -> str:
        return v.add(total, v.div(one, less))

    begin = v.select(big, middle, v.select(small, v.add(y, one), y))
    rest, total = _brought_down(v, begin, 2.0, zero, join)
    root = DIGAMMA_ROOT[64]
    distance = v.sub(v.sub(rest, v.number(root.high)), v.number(root.low))
    near = v.fma(distance, v.estrin(v.sub(rest, middle), DIGAMMA[64]), total)
    square = v.mul(inverse, inverse)
    tail = v.mul(square, v.estrin(square, _coefficients(lambda k: 2 * k)))
    far = v.sub(log(v, y), v.fma(v.number(0.5), inverse, tail))
    return v.select(big, far, near)
