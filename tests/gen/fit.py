"""Computes the coefficients of gen/coefficients.py: run it to print that file anew."""

import mpmath as mp
import numpy as np

DEGREES = {("EXP", 32): 4, ("EXP", 64): 10, ("LOG", 32): 8, ("LOG", 64): 6}

HEADER = '''"""Coefficients of the polynomials in math.py, lowest power first.

Chebyshev interpolation at 120 bits, rounded to the type; printed by tests/gen/fit.py, and a
test holds the two equal. ``EXP`` is (e**r - 1 - r)/r**2 on |r| <= ln(2)/2. ``LOG`` for f32 is
(log(1+f) - f + f**2/2)/f**3, for f64 (2*atanh(s)/s - 2)/s**2 as a polynomial in s**2.
"""

from __future__ import annotations

from typing import NamedTuple


class Split(NamedTuple):
    """A constant in two parts, of which the first has few bits, so that n times it is exact."""

    high: float
    low: float

'''


def exp_rest(r):
    return (mp.expm1(r) - r) / (r * r) if abs(r) > 1e-8 else mp.mpf(1) / 2 + r / 6


def log_rest_f32(f):
    if abs(f) < 1e-6:
        return mp.mpf(1) / 3 - f / 4
    return (mp.log1p(f) - f + f * f / 2) / f**3


def log_rest_f64(z):
    if z < 1e-12:
        return mp.mpf(2) / 3 + 2 * z / 5
    return (2 * mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 2) / z


def fitted(name, bits):
    """The coefficients of one polynomial."""
    mp.mp.prec = 120
    half, root = mp.log(2) / 2 * 1.01, mp.sqrt(mp.mpf(2))
    function, low, high = {
        ("EXP", 32): (exp_rest, -half, half),
        ("EXP", 64): (exp_rest, -half, half),
        ("LOG", 32): (log_rest_f32, (1 / root - 1) * 1.001, (root - 1) * 1.001),
        ("LOG", 64): (log_rest_f64, mp.mpf(0), ((root - 1) / (root + 1)) ** 2 * 1.02),
    }[name, bits]
    coefficients = mp.chebyfit(function, [low, high], DEGREES[name, bits] + 1)
    return [rounded(c, bits) for c in reversed(coefficients)]


def rounded(x, bits):
    return float(np.float32(float(x))) if bits == 32 else float(x)


def ln2(bits):
    """ln(2) in two parts; the first leaves room for the bits of an exponent."""
    mp.mp.prec = 120
    kept = 24 - 9 if bits == 32 else 53 - 12
    unit = mp.mpf(2) ** (-kept)
    high = mp.nint(mp.log(2) / unit) * unit
    return rounded(high, bits), rounded(mp.log(2) - high, bits)


def page():
    """The text of gen/coefficients.py."""
    lines = [HEADER]
    pairs = ", ".join(f"{b}: Split{ln2(b)}" for b in (32, 64))
    lines.append(f"LN2 = {{{pairs}}}")
    for name in ("EXP", "LOG"):
        rows = [f"    {b}: (" + ", ".join(map(repr, fitted(name, b))) + ")," for b in (32, 64)]
        lines.append("\n".join([f"{name} = {{", *rows, "}"]))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
