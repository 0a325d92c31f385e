"""Computes the coefficients of gen/math/coefficients.py: run it to print that file anew."""

import textwrap

import mpmath as mp
import numpy as np

HEADER = '''"""Coefficients of the polynomials of these functions, lowest power first.

Chebyshev interpolation at 120 bits, rounded to the type; printed by tests/gen/fit.py, which
says of each what it approximates and where, and a test holds the two equal.
"""
# fmt: off

from __future__ import annotations

from typing import NamedTuple


class Split(NamedTuple):
    """A constant in two parts: their sum is known to twice the digits of the type.

    Of ``LN2`` the first has few bits, so that n times it is exact.
    """

    high: float
    low: float

'''


def even(f, first, second, tiny=1e-10):
    """``(f(√z)/√z - 1)/z``, whose start is known: what is left of an odd function."""

    def rest(z):
        if z < tiny:
            return first + second * z
        x = mp.sqrt(z)
        return (f(x) / x - 1) / z

    return rest


def exp_rest(r):
    """(e**r - 1 - r)/r**2."""
    return (mp.expm1(r) - r) / (r * r) if abs(r) > 1e-8 else mp.mpf(1) / 2 + r / 6


def log_rest_f32(f):
    """(log(1+f) - f + f**2/2)/f**3."""
    if abs(f) < 1e-6:
        return mp.mpf(1) / 3 - f / 4
    return (mp.log1p(f) - f + f * f / 2) / f**3


def log_rest_f64(z):
    """(2*atanh(s)/s - 2)/s**2 for s**2 = z."""
    if z < 1e-12:
        return mp.mpf(2) / 3 + 2 * z / 5
    return (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z


def log_far(z):
    """(2*atanh(s)/s - 2 - 2/3*s**2)/s**4 for s**2 = z."""
    if z < 1e-8:
        return mp.mpf(2) / 5 + 2 * z / 7
    return (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2 - 2 * z / 3) / z**2


def cos_rest(z):
    """(cos(√z) - 1 + z/2)/z**2."""
    if z < 1e-8:
        return mp.mpf(1) / 24 - z / 720
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2


def erf_near(z):
    """erf(√z)/√z - 1."""
    if z < 1e-12:
        return 2 / mp.sqrt(mp.pi) * (1 - z / 3) - 1
    return mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1


def erf_far(x):
    """-log(erfc(x))."""
    return -mp.log(mp.erfc(x))


def erfc_scaled(u):
    """(1 + 2x) * exp(x**2) * erfc(x) for u = (x - 4)/(x + 4)."""
    if u > 1 - mp.mpf(10) ** -8:
        return 2 / mp.sqrt(mp.pi) * (1 + (1 - u) / 16)
    x = 4 * (1 + u) / (1 - u)
    if x < 20:
        return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)
    terms = [mp.mpf(1)]
    while abs(terms[-1]) > mp.mpf(2) ** -130 and len(terms) < 60:
        k = len(terms)
        terms.append(-terms[-1] * (2 * k - 1) / (2 * x * x))
    return (1 + 2 * x) / (x * mp.sqrt(mp.pi)) * mp.fsum(terms)


def lgamma_two(d):
    """log(gamma(2 + d))/d."""
    return mp.loggamma(2 + d) / d if abs(d) > 1e-9 else mp.psi(0, 2) + d * mp.psi(1, 2) / 2


def lgamma_one(d):
    """log(gamma(1 + d))/d."""
    return mp.loggamma(1 + d) / d if abs(d) > 1e-9 else mp.psi(0, 1) + d * mp.psi(1, 1) / 2


def digamma_near(d):
    """digamma(1.5 + d)/(1.5 + d - its root there)."""
    root = digamma_root()
    x = mp.mpf(3) / 2 + d
    return mp.psi(0, x) / (x - root) if abs(x - root) > 1e-12 else mp.psi(1, root)


def digamma_root():
    return mp.findroot(lambda t: mp.psi(0, t), mp.mpf("1.4616321449683623"))


def erfinv_near(d):
    """erfinv(x)/x - 1 for -log(1 - x**2) = 2.5 + d."""
    w = mp.mpf(5) / 2 + d
    if w < 1e-24:
        return mp.sqrt(mp.pi) / 2 - 1
    rest = mp.exp(-w)
    x = mp.sqrt(-mp.expm1(-w))
    return erfc_inverse(w, rest / (1 + x)) / x - 1


def erfc_inverse(w, rest):
    """z with erfc(z) = rest, by Newton's iteration; w says where to start."""
    z = mp.sqrt(mp.pi * w) / 2 if w < 2 else mp.sqrt(w - mp.log(mp.sqrt(mp.pi * w)))
    for _ in range(60):
        step = (mp.erfc(z) - rest) * mp.sqrt(mp.pi) / 2 * mp.exp(z * z)
        z += step
        if abs(step) < mp.mpf(2) ** -70 * z:
            return z
    raise ArithmeticError(f"no root near {z}")


def erfinv_far(centre):
    """The same, for sqrt(-log(1 - x**2)) = centre + d."""
    return lambda d: erfinv_near((centre + d) ** 2 - mp.mpf(5) / 2)


def intervals():
    """For each name and width: what is approximated, where, and with how many coefficients."""
    half, root = mp.log(2) / 2 * 1.01, mp.sqrt(mp.mpf(2))
    zero, one = mp.mpf(0), mp.mpf(1)
    eighth = (mp.pi / 4 * 1.02) ** 2
    ratio = ((root - 1) / (root + 1)) ** 2 * 1.02
    sin = even(mp.sin, -one / 6, one / 120)
    sinh = even(mp.sinh, one / 6, one / 120)
    atan = even(mp.atan, -one / 3, one / 5)
    asin = even(mp.asin, one / 6, 3 * one / 40)
    near, middle = [(32, 11), (64, 25)], [(32, 12), (64, 24)]
    return {
        "EXP": {32: (exp_rest, -half, half, 5), 64: (exp_rest, -half, half, 11)},
        "LOG": {
            32: (log_rest_f32, (1 / root - 1) * 1.001, (root - 1) * 1.001, 9),
            64: (log_rest_f64, zero, ratio, 7),
        },
        "LOG_FAR": {32: (log_far, zero, ratio, 3), 64: (log_far, zero, ratio, 8)},
        "SIN": {32: (sin, zero, eighth, 3), 64: (sin, zero, eighth, 7)},
        "COS": {32: (cos_rest, zero, eighth, 3), 64: (cos_rest, zero, eighth, 7)},
        "SINH": {32: (sinh, zero, one, 4), 64: (sinh, zero, one, 8)},
        "ATAN": {32: (atan, zero, one, 9), 64: (atan, zero, one, 21)},
        "ASIN": {32: (asin, zero, one / 4, 6), 64: (asin, zero, one / 4, 13)},
        "ERF": {32: (erf_near, zero, one, 7), 64: (erf_near, zero, one, 13)},
        "ERF_FAR": {32: (erf_far, 0.95 * one, 4 * one, 10)},
        "ERFC": {32: (erfc_scaled, -one, one, 15), 64: (erfc_scaled, -one, one, 28)},
        "ERFINV_NEAR": {b: (erfinv_near, -5 * one / 2, 5 * one / 2, n) for b, n in near},
        "ERFINV_MIDDLE": {b: (erfinv_far(25 * one / 8), -0.9 * one, one, n) for b, n in middle},
        "ERFINV_FAR": {64: (erfinv_far(5 * one), -1.02 * one, 1.1 * one, 18)},
        "LGAMMA_ONE": {64: (lgamma_one, -0.31 * one, one / 2, 22)},
        "LGAMMA_TWO": {64: (lgamma_two, -one / 2, 0.71 * one, 22)},
        "DIGAMMA": {64: (digamma_near, -one / 2, one / 2, 21)},
    }


def rounded(x, bits):
    return float(np.float32(float(x))) if bits == 32 else float(x)


def fitted(function, low, high, count, bits):
    """The coefficients of one polynomial."""
    return tuple(rounded(c, bits) for c in reversed(mp.chebyfit(function, [low, high], count)))


def short(x, bits, kept):
    """A constant in two parts, of which the first has so many bits after the point."""
    unit = mp.mpf(2) ** (-kept)
    high = mp.nint(x / unit) * unit
    return rounded(high, bits), rounded(x - high, bits)


def split(x, bits, parts=2):
    """A constant as the nearest number, what that leaves, and so on."""
    found = []
    for _ in range(parts):
        found.append(rounded(x, bits))
        x -= found[-1]
    return tuple(found)


def chunks(kept, count, scale):
    """2/pi in pieces of so many bits, the first times ``2**scale``."""
    rest, found = 2 / mp.pi, []
    for k in range(1, count + 1):
        unit = mp.mpf(2) ** (-kept * k)
        piece = mp.floor(rest / unit) * unit
        rest -= piece
        found.append(float(piece * mp.mpf(2) ** scale))
    return tuple(found)


def tables():
    """Every table of the page, by name."""
    with mp.workprec(1600):
        pieces = {64: chunks(53, 24, 200)}
    with mp.workprec(160):
        tens = [1 / mp.log(10), mp.log(2) / mp.log(10)]
        half_pi = mp.pi / 2 * 1
        found = {
            "LN2": {32: short(mp.log(2), 32, 24 - 9), 64: short(mp.log(2), 64, 53 - 12)},
            "LOG2_E": {b: split(1 / mp.log(2), b) for b in (32, 64)},
            "LOG10_E": {b: split(tens[0], b) for b in (32, 64)},
            "LOG10_2": {32: short(tens[1], 32, 24 - 9), 64: short(tens[1], 64, 53 - 12)},
            "TWO_THIRDS": {b: split(mp.mpf(2) / 3, b) for b in (32, 64)},
            "HALF_PI": {b: split(half_pi, b) for b in (32, 64)},
            "DIGAMMA_ROOT": {64: split(digamma_root(), 64)},
        }
        parts = {"HALF_PI_PARTS": {b: split(half_pi, b, 3) for b in (32, 64)}}
    with mp.workprec(120):
        polynomials = {
            name: {bits: fitted(*where, bits) for bits, where in widths.items()}
            for name, widths in intervals().items()
        }
    return found, {**parts, "TWO_OVER_PI": pieces, **polynomials}


def page():
    """The text of gen/math/coefficients.py."""
    constants, rows = tables()
    lines = [HEADER]
    for name, widths in constants.items():
        lines.append(f"{name} = {{")
        lines += [f"    {bits}: Split{pair}," for bits, pair in widths.items()]
        lines.append("}")
    for name, widths in rows.items():
        lines.append(f"{name} = {{")
        for bits, row in widths.items():
            text = textwrap.wrap(", ".join(map(repr, row)) + ",", 88)
            lines += [f"    {bits}: (", *(f"        {line}" for line in text), "    ),"]
        lines.append("}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
