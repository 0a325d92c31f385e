"""Functions of sampled curves: values between samples, areas, slopes, sliding sums.

All are compositions; a curve lies along one axis, and its sizes may be symbols.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from typing import Any

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.trace.operands import element, fresh, kind_of, narrowed, staged
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir import F64
from dlvm.ir.sizes.dims import at_least
from dlvm.ir.sizes.equations import unequal

from .eager import public
from .elementwise import note_widening
from .reductions import axes_of

MODES = ("full", "same", "valid")
NEAR = 0.3
"""Below this size of x, ``sinc`` and its derivatives are summed from the power series."""
SINC = [(-1.0) ** k / math.factorial(2 * k + 1) for k in reversed(range(12))]
"""Coefficients of ``sin(u) / u`` as a polynomial in ``u * u``, highest power first."""
SHORT = 32
"""Largest length of a sliding vector whose elements become terms of one sum."""


@public("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    """The piecewise linear curve through ``(xp, fp)`` at ``x``, constant outside of it.

    Computed in f64, as NumPy does. At a knot the slope is that of the piece after it.
    """
    given = staged(x), staged(xp), staged(fp)
    target = narrowed(F64, tuple(map(kind_of, given)))
    note_widening("interp", given, (target,) * 3)
    at, knots, values = (fresh(element(v, target)) for v in given)
    return _between(at, knots, values, left, right)


def _between(x: Tensor, knots: Tensor, values: Tensor, left: Any, right: Any) -> Any:
    if knots.ndim != 1 or knots.type.shape != values.type.shape:
        raise ShapeError(
            f"interp: expected two vectors of one size, found {knots.type} and {values.type}",
            remedy="dlvm.vmap(dlvm.interp) has a curve of its own for each row",
            sides=unequal(knots.type.shape, values.type.shape),
        )
    last = knots.type.shape[0] - 1
    after = xp.minimum(xp.searchsorted(knots, x, side="right"), last)
    before = xp.maximum(after - 1, 0)
    (a, b), (fa, fb) = (tuple(xp.take(v, i) for i in (before, after)) for v in (knots, values))
    slope = (fb - fa) / xp.where(a == b, 1, b - a)
    inside = xp.where(x == a, fa, fa + (x - a) * slope)
    inside = xp.where(xp.isnan(inside), fb + (x - b) * slope, inside)  # of infinite values
    inside = xp.where(xp.isnan(inside) & (fa == fb), fa, inside)
    low, high = values[0] if left is None else left, values[-1] if right is None else right
    found = xp.where(x < knots[0], low, xp.where(x >= knots[-1], high, inside))
    return xp.where(x == knots[-1], values[-1], found)


@public("trapezoid")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The area under a curve by trapezoids, between samples at ``x`` or ``dx`` apart."""
    y = staged(y)
    (axis,) = axes_of(y, axis)
    before, after = (_along(y, axis, s) for s in (slice(None, -1), slice(1, None)))
    if x is not None:
        x = staged(x)
        dx = xp.diff(x, axis=-1 if x.ndim == 1 else axis)
        if x.ndim == 1:
            dx = xp.reshape(dx, (*dx.shape, *(1,) * (y.ndim - 1 - axis)))
    return xp.sum(dx * (before + after) / 2.0, axis=axis)


@public("gradient")
def gradient(f: Any, *spacing: Any, axis: Any = None) -> Any:
    """Slopes by central differences, one-sided at both ends; samples lie ``spacing`` apart."""
    f = staged(f)
    axes = axes_of(f, axis)
    steps = spacing * len(axes) if len(spacing) == 1 else spacing or (1.0,) * len(axes)
    if len(steps) != len(axes) or builtins.any(staged(h).ndim for h in steps):
        raise ShapeError(
            f"gradient: expected one distance, or one for each of {len(axes)} axes",
            remedy="for samples at uneven places divide dlvm.diff(f) by dlvm.diff(x)",
        )
    found = [_slopes(f, a, h) for a, h in zip(axes, steps, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slopes(f: Tensor, axis: int, h: Any) -> Any:
    """Differences of the neighbours on both sides, and at the ends of the one that is there."""
    if not f.element.is_float:
        f = xp.astype(f, float)
    steps = xp.diff(f, axis=axis)
    first, last = _along(steps, axis, slice(0, 1)), _along(steps, axis, slice(-1, None))
    both = _along(f, axis, slice(2, None)) - _along(f, axis, slice(None, -2))
    return xp.concat([first / h, both / (2.0 * h), last / h], axis)


def _along(x: Tensor, axis: int, item: Any) -> Any:
    return x[(slice(None),) * axis + (item,)]


@public("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The sums of ``a[n - i] * v[i]``: products of one vector with another that slides over it."""
    a, v, _ = _longer_first(a, v, mode, "convolve")
    return _slid(a, xp.flip(v), mode)


@public("correlate")
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """The sums of ``a[n + i] * v[i]``: products of one vector with another that slides over it."""
    a, v, exchanged = _longer_first(a, v, mode, "correlate")
    found = _slid(a, v, mode)
    return xp.flip(found) if exchanged else found


def _slid(a: Tensor, v: Tensor, mode: str) -> Any:
    """The products of ``v`` with what it covers of ``a``, beyond whose ends are zeros.

    Those of half precision are summed in f32, as in every product, and rounded once.
    """
    kind = a.element
    if kind == v.element != kind.compute and kind.is_float:
        wide, slider = (staged(xp.astype(x, kind.compute)) for x in (a, v))
        return xp.astype(_slid(wide, slider, mode), kind)
    (n,), (m,) = a.type.shape, v.type.shape
    low, high = {"full": (m - 1, m - 1), "valid": (0, 0)}.get(mode, (m // 2, m - 1 - m // 2))
    wide, count = xp.pad(a, (low, high)), n + low + high - m + 1
    if isinstance(m, int) and m <= SHORT:
        inside = xp.pad(xp.ones_like(a, bool), (low, high))  # what is beyond has no share of inf
        terms = [
            xp.where(inside[i : i + count], wide[i : i + count] * v[i], False) for i in range(m)
        ]
        return functools.reduce(operator.add, terms)
    places = xp.arange(count)[:, None] + xp.arange(m)
    return xp.matmul(xp.take(wide, places), v)


def _longer_first(a: Any, v: Any, mode: str, name: str) -> tuple[Tensor, Tensor, bool]:
    """Two vectors, of which the second slides, and whether they were exchanged for it."""
    a, v = staged(a), staged(v)
    if a.ndim != 1 or v.ndim != 1:
        raise ShapeError(
            f"{name}: expected two vectors, found {a.type} and {v.type}",
            remedy=f"dlvm.vmap(dlvm.{name}) has a vector of its own for each row",
        )
    if mode not in MODES:
        raise ArgumentError(f"{name}: mode={mode!r}: expected one of {', '.join(map(repr, MODES))}")
    n, m = a.type.shape[0], v.type.shape[0]
    if 0 in (n, m):
        raise ShapeError(f"{name}: a vector is empty", remedy="give vectors of some elements")
    if at_least(n, m) or (mode == "full" and isinstance(m, int)):
        return a, v, False
    if not isinstance(n, int) or not (at_least(m, n) or mode == "full"):
        raise ShapeError(
            f"{name}: of {a.type} and {v.type} it is not known which is longer",
            remedy='the sizes must be known, one of them for mode="full"',
        )
    return v, a, True


@public("sinc", keeps_order=True)
def sinc(x: Any) -> Any:
    """``sin(pi x) / (pi x)``, and 1 at 0, where its derivatives are those of its power series."""
    x = staged(x)
    near = xp.abs(x) < NEAR
    angle = math.pi * xp.where(near, 1, x)
    turn = math.pi * xp.where(near, x, 0)
    return xp.where(near, xp.polyval(SINC, turn * turn), xp.sin(angle) / angle)
