"""Coefficients of the polynomials in math.py, lowest power first.

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


LN2 = {
    32: Split(0.693145751953125, 1.428606765330187e-06),
    64: Split(0.6931471805601177, -1.7239444525614835e-13),
}
EXP = {
    32: (
        0.5,
        0.16666573286056519,
        0.04166654869914055,
        0.008363774046301842,
        0.0013926926767453551,
    ),
    64: (
        0.5,
        0.1666666666666667,
        0.04166666666666667,
        0.008333333333325544,
        0.0013888888888883327,
        0.00019841269876864356,
        2.4801587327007187e-05,
        2.755725283351691e-06,
        2.75572718102198e-07,
        2.5106274733573296e-08,
        2.0915442297780116e-09,
    ),
}
LOG = {
    32: (
        0.3333333134651184,
        -0.2499999701976776,
        0.20000720024108887,
        -0.16667810082435608,
        0.1424887627363205,
        -0.12425360083580017,
        0.11687024682760239,
        -0.11483081430196762,
        0.06971346586942673,
    ),
    64: (
        0.666666666666667,
        0.39999999999886615,
        0.28571428631764334,
        0.2222221019926421,
        0.18182956608063458,
        0.15329500754204178,
        0.14643628601909797,
    ),
}
