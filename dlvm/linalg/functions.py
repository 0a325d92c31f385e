"""Functions of symmetric matrices by their eigenvalues, also where eigenvalues are equal.

Divided differences are quotients ``(f(y) - f(x)) / (y - x)``, which lose digits where x and y are
close, or means of the derivative between x and y, by Gauss's rule, which are exact for polynomials
of degree 16 and wrong where f jumps or bends between. The mean is taken where it agrees with the
quotient up to the rounding errors of the latter, and so always at equal places.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.arrays.factorisations import eigen_factors, matrix, spectral_map
from dlvm.dsl.flow.control import in_trace
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import shown as shown_argument
from dlvm.dsl.trace.operands import shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import call
from dlvm.dsl.trace.trees import unflatten
from dlvm.dsl.words.namespace import xp
from dlvm.ops import StopGradient

Numbers = Callable[[Any], Any]
_ROOTS, _WEIGHTS = np.polynomial.legendre.leggauss(8)
NODES = tuple((float(r) + 1) / 2 for r in _ROOTS)
WEIGHTS = tuple(float(w) / 2 for w in _WEIGHTS)
"""Of a mean over 0 to 1."""
AGREES = 8.0
"""Rounding errors of the quotient, by a bound to first order, within which the mean is taken."""


@facing_users
def spectral(f: Numbers, x: Any) -> Any:
    """``V @ diag(f(w)) @ V.T`` for ``w, V = eigh(x)``: a function of symmetric matrices.

    ``f`` takes an array and gives one of the same shape, each number by itself. The first and
    second derivatives with respect to ``x`` are also right where eigenvalues are equal or close::

        root = dlvm.linalg.spectral(dlvm.sqrt, np.eye(2) * 4)     # 2 * np.eye(2)

    The symmetric part ``(x + x.T) / 2`` is taken. Derivatives of higher order, and those with
    respect to what ``f`` captures and then ``x``, are made of those of the eigenvectors, and so are
    NaN where eigenvalues are equal.
    """
    if not callable(f):
        raise ArgumentError(
            f"spectral: expected a function, found {shown_argument(f)}",
            origin=user_origin(),
            remedy="write dlvm.linalg.spectral(dlvm.exp, x)",
        )

    def program(f: Numbers) -> Numbers:
        return lambda x: _spectral(f, matrix("spectral", x))

    if in_trace():
        return program(f)(x)
    from dlvm.dsl.derive.derivatives import (
        derived_once,
    )  # not loaded by those who call nothing of it

    return derived_once("spectral", f, "spectral", program)(x)


def _spectral(f: Numbers, x: Tensor) -> Any:
    if x.dtype.itemsize == 2:  # differences of halves have few digits
        return xp.astype(_spectral(f, xp.astype(x, "f32")), x.dtype)
    a = x * 0.5 + xp.matrix_transpose(x) * 0.5
    w, v = eigen_factors(a)
    still, alone = xp.stop_gradient(w), _each(f, w, True)
    slopes, curvatures = _slopes(alone, still)[0], _curvatures(alone, w)
    if not _captures(f, w):
        return spectral_map(a, v, alone(still), slopes, curvatures)
    both = _each(f, w, False)
    slopes = xp.where(_tied(still), _slopes(both, still)[0], slopes)
    found = spectral_map(a, v, alone(still), slopes, curvatures)
    change = both(w) - alone(w)  # it is 0, and moves with what f captures
    return found + xp.matmul(v * change[..., None, :], xp.matrix_transpose(v))


def _tied(w: Tensor) -> Any:
    """Which pairs are different places of one eigenvalue: the rule of ``eigh`` leaves them out."""
    x, y = _pairs(w)
    i = xp.arange(w.shape[-1])
    return (x == y) & (i[:, None] != i)


def _captures(f: Numbers, w: Tensor) -> bool:
    """Whether f depends on numbers besides its argument."""
    from dlvm.dsl.derive.transforms import applied  # not loaded by those who call nothing of it

    return any(v.dtype.is_float for v in applied(f, (w,), {}).callee.extra())


def _of_its_argument(f: Numbers, x: Tensor) -> Any:
    """f of x, without a derivative with respect to what f captures."""
    from dlvm.dsl.derive.transforms import applied  # not loaded by those who call nothing of it

    made = applied(f, (x,), {})
    extra = [StopGradient(v) if v.dtype.is_float else v for v in made.callee.extra()]
    out = call(made.callee.name, [x.read(), *extra], made.callee.types)
    return unflatten(made.callee.tree, out)


def _each(f: Numbers, w: Tensor, alone: bool) -> Numbers:
    """f of arrays with any axes behind those of the batch, which f sees as one.

    ``alone`` is without derivatives with respect to what f captures.
    """
    batch = w.ndim - 1

    def each(x: Any) -> Any:
        flat = xp.reshape(x, (*x.shape[:batch], math.prod(x.shape[batch:])))
        found = xp.astype(xp.asarray(_of_its_argument(f, flat) if alone else f(flat)), x.dtype)
        if found.type.shape != flat.type.shape:
            raise ShapeError(
                f"spectral: the function gave an array of the shape "
                f"{shown_shape(found.type.shape)} for one of the shape "
                f"{shown_shape(flat.type.shape)}",
                origin=user_origin(),
                remedy="give a function that takes each number by itself",
            )
        return xp.reshape(found, x.shape)

    return each


def _derivative(f: Numbers) -> Numbers:
    """The derivative of a function that takes each number by itself."""
    from dlvm.dsl.derive.derivatives import jvp  # not loaded by those who call nothing of it

    return lambda x: jvp(f, (x,), (xp.ones_like(x),))[1]


def _mean(f: Numbers, begin: Any, end: Any, weights: tuple[float, ...]) -> Any:
    """A weighted mean of f on the way from one place to the other."""
    nodes = xp.asarray(NODES, dtype=begin.dtype)
    places = begin[..., None] + (end - begin)[..., None] * nodes
    return xp.sum(f(places) * xp.asarray(weights, dtype=begin.dtype), axis=-1)


def _better(mean: Any, rise: Any, run: Any, error: Any) -> tuple[Any, Any, Any]:
    """The mean or the quotient, which of them, and the latter's error, from that of the rise."""
    apart = run != 0
    run = xp.where(apart, run, 1.0)
    quotient, bound = rise / run, xp.abs(error / run)
    chosen = xp.logical_not(apart) | (xp.abs(mean - quotient) <= AGREES * bound)
    return xp.where(chosen, mean, quotient), chosen, bound


def _error(f: Numbers, w: Any) -> Any:
    """That of f at w if all of its steps round: also those that round what f takes."""
    size = xp.abs(f(w)) + xp.abs(w * _derivative(f)(w))
    return xp.stop_gradient(size * xp.finfo(w.dtype).eps)


def _pairs(x: Any) -> tuple[Any, Any]:
    """Numbers at i and at j, at each i and j."""
    rows = xp.broadcast_to(x[..., None], (*x.shape, x.shape[-1]))
    return rows, xp.matrix_transpose(rows)


def _slopes(f: Numbers, w: Tensor) -> tuple[Any, Any]:
    """Divided differences at two eigenvalues, and bounds of their errors."""
    slope = _derivative(f)
    (x, y), (fx, fy) = _pairs(w), _pairs(f(w))
    of_rise, of_mean = (sum(_pairs(_error(g, w))) for g in (f, slope))
    found, chosen, bound = _better(_mean(slope, x, y, WEIGHTS), fy - fx, y - x, of_rise)
    return found, xp.where(chosen, of_mean, bound)


def _curvatures(f: Numbers, w: Tensor) -> Any:
    """Divided differences at three eigenvalues: the least, the middle and the largest, x, y and z.

    As a mean it is ``r I(x, y) + (1 - r) I(z, y)`` with ``r = (y - x) / (z - x)``; ``I(a, b)`` is
    the integral of ``s f''(a + s (b - a))`` over s from 0 to 1.
    """
    n = w.shape[-1]
    i = xp.arange(n)
    low = xp.minimum(xp.minimum(i[:, None, None], i[:, None]), i)
    high = xp.maximum(xp.maximum(i[:, None, None], i[:, None]), i)
    middle = i[:, None, None] + i[:, None] + i - low - high
    x, y, z = (xp.take(w, k, axis=-1) for k in (low, middle, high))
    bend = _derivative(_derivative(f))
    share = xp.where(z > x, (y - x) / xp.where(z > x, z - x, 1.0), 0.5)
    weights = tuple(s * w for s, w in zip(NODES, WEIGHTS, strict=True))
    mean = share * _mean(bend, x, y, weights) + (1 - share) * _mean(bend, z, y, weights)
    table, bounds = (xp.reshape(t, (*w.shape[:-1], n * n)) for t in _slopes(f, w))
    pairs = middle * n + high, low * n + middle
    second, first = (xp.take(table, k, axis=-1) for k in pairs)
    error = sum(xp.take(bounds, k, axis=-1) for k in pairs)
    return _better(mean, second - first, z - x, error)[0]
