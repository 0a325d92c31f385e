"""What functions of one float mean in NumPy; those that NumPy lacks are computed here in f64.

This is how the interpreter runs them, for good digits and not for speed: where Python has the
function it is asked, element by element. It knows nothing of operations or of polynomials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.ir import Array


def meaning(name: str) -> Callable[[Array], Array]:
    """The function of this name: ours, where NumPy has none."""
    own = OWN.get(name)
    if own is None:
        found: Callable[[Array], Array] = getattr(np, name)
        return found

    def call(x: Array) -> Array:
        wide = np.asarray(x, np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(own(wide)).astype(x.dtype)

    return call


def larger(x: Array, y: Array) -> Array:
    """The larger of two, where 0.0 is larger than -0.0; NaN where either is."""
    found = np.asarray(np.maximum(x, y))
    if found.dtype.kind in "biu":
        return found
    return np.where(x == y, np.where(np.signbit(x), y, x), found)


def smaller(x: Array, y: Array) -> Array:
    """The smaller of two, where -0.0 is smaller than 0.0; NaN where either is."""
    found = np.asarray(np.minimum(x, y))
    if found.dtype.kind in "biu":
        return found
    return np.where(x == y, np.where(np.signbit(x), x, y), found)


def with_zeros_in_order(
    found: Array, x: Array, word: str, anywhere: Callable[[Array], Array]
) -> Array:
    """Extremes of floats whose zeros have the sign that the order of zeros demands.

    ``anywhere`` tells of truths whether one holds among the elements that each extreme is of.
    """
    if x.dtype.kind in "biu" or not (found == 0).any():
        return found
    sign = np.signbit(x) if word == "min" else ~np.signbit(x)
    winner, other = (-0.0, 0.0) if word == "min" else (0.0, -0.0)
    wins: Array = anywhere((x == 0) & sign)
    return np.where(found == 0, np.where(wins, winner, other).astype(found.dtype), found)


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of one number on each element."""

    def call(x: Array) -> Array:
        return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)

    return call


_erf, _erfc = _each(math.erf), _each(math.erfc)


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _erfinv(x: Array) -> Array:
    """By the normal quantile, then one step of Newton's iteration on what that leaves."""
    from statistics import NormalDist  # here, as it imports more than all that knows of it

    size = np.abs(x)
    rest = 1 - size
    tail, inside = rest < 0.5, size < 1
    area = np.where(inside, np.where(tail, rest / 2, (1 + size) / 2), 0.5)
    z = _each(NormalDist().inv_cdf)(area) / math.sqrt(2)
    z = np.where(tail, -z, z)
    left = np.where(tail, _erfc(z) - rest, size - _erf(z))
    found = z + left * math.sqrt(math.pi) / 2 * np.exp(z * z)
    return np.copysign(np.where(inside, found, np.where(size == 1, math.inf, math.nan)), x)


BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _digamma(x: Array) -> Array:
    """By its recurrence beyond 10, where the asymptotic series holds; reflected below 0."""
    y = np.abs(x)
    passed = sum(1 / (y + k) for k in range(1, 11))
    z = y + 11
    series = sum(b / (2 * k) / z ** (2 * k) for k, b in enumerate(BERNOULLI, 1))
    after = np.log(z) - 1 / (2 * z) - series - passed  # digamma(y + 1)
    below = after + np.pi * cotangent(y)
    below = np.where((y == np.rint(y)) & (y > 0), np.nan, below)
    found = np.where(x > 0, after - 1 / y, below)
    found = np.where(np.isposinf(x), np.inf, found)
    return np.where(x == 0, np.copysign(np.inf, -x), found)


def polygamma(x: Array, order: int) -> Array:
    """The derivative of digamma of this order >= 1, by its series; reflected below 1/2."""
    with np.errstate(all="ignore"):
        reflected = x < 0.5
        y = np.where(reflected, 1 - x, x)
        count = order + 10
        total = sum((y + k) ** -(order + 1.0) for k in range(count))
        total = math.factorial(order) * (total + hurwitz_tail(y + count, order))
        total = total if order % 2 else -total
        slope = np.polyval(cotangent_polynomial(order)[::-1], cotangent(x))
        below = (-total if order % 2 else total) - np.pi ** (order + 1.0) * slope
        found = np.where(reflected, below, total)
        at_pole = math.factorial(order) * x ** -(order + 1.0) * (1 if order % 2 else -1)
        found = np.where(np.abs(x) < 1e-20, at_pole, found)  # all that is left of the series
        found = np.where(np.isposinf(x), 0.0 if order % 2 else -0.0, found)
        pole = (x <= 0) & (x == np.rint(x))
        return np.where(pole, math.inf if order % 2 else math.nan, found)


def hurwitz_tail(z: Array, order: int) -> Array:
    """The sum of ``(z + k)**-(order + 1)`` over all k >= 0 for a large z (Euler and Maclaurin)."""
    return sum((c * z ** (-float(p)) for p, c in tail_terms(order)), np.zeros_like(z))


def tail_terms(order: int) -> list[tuple[int, float]]:
    """Of that sum: the powers of 1/z, and their coefficients."""
    terms = [(order, 1 / order), (order + 1, 0.5)]
    for k, b in enumerate(BERNOULLI, 1):
        rising = math.prod(range(order + 1, order + 2 * k))
        terms.append((order + 2 * k, b * rising / math.factorial(2 * k)))
    return terms


def cotangent_polynomial(order: int) -> list[int]:
    """``d^n cot(u)/du^n`` as a polynomial in ``c = cot(u)``: that of c is ``-(1 + c*c)``."""
    row = [0, 1]
    for _ in range(order):
        slope = [k * a for k, a in enumerate(row)][1:]
        row = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return row


def cotangent(x: Array) -> Array:
    """``cot(pi * x)``, near its zeros as a tangent."""
    turn = x - np.rint(x)
    size = np.abs(turn)
    found = np.where(size < 0.25, 1 / np.tan(np.pi * size), np.tan(np.pi * (0.5 - size)))
    return np.copysign(found, turn)


OWN: dict[str, Callable[[Array], Any]] = {
    "erf": _erf,
    "erfc": _erfc,
    "erfinv": _erfinv,
    "lgamma": _each(_lgamma),
    "digamma": _digamma,
}
