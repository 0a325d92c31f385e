"""Quantiles: elements of sorted data, or values between two of them.

The place of a share q among n elements is ``(n - 1) q``, or one of the definitions of Hyndman and
Fan (1996), as NumPy names them; ``method`` says which, and how to interpolate between two places.
As in NumPy, but that an infinite neighbour makes a NaN only beside the opposite infinity, and that
neighbours whose difference is too large for a float still have values between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.operands import common, element, fresh, kind_of, plain, staged
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.dsl.words.views import permuted
from dlvm.ir import F64, I64, DType
from dlvm.ir.sizes.dims import at_least
from dlvm.ops import Gather, Sort

from .eager import public
from .elementwise import note_widening, refuse_out
from .reductions import axes_of

PICKING: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "lower": lambda q, n: xp.floor(q * (n - 1)),
    "higher": lambda q, n: xp.ceil(q * (n - 1)),
    "nearest": lambda q, n: xp.round(q * (n - 1)),
    "inverted_cdf": lambda q, n: xp.ceil(q * n - 1),
    "closest_observation": lambda q, n: _next_unless_odd(q * n - 1.5),
}
"""Methods that pick an element: where it stands for a share q among n elements in order."""
OFFSETS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
"""Methods whose place is ``n q + alpha + q (1 - alpha - beta) - 1``: their alpha and beta."""
METHODS = ("linear", "midpoint", "averaged_inverted_cdf", *OFFSETS, *PICKING)


def _next_unless_odd(place: Tensor) -> Any:
    """The place after the one below, or the one below itself if it is whole and odd."""
    low = xp.floor(place)
    stay = xp.logical_and(xp.equal(place, low), xp.equal(xp.remainder(low, 2), 1))
    return xp.where(stay, low, xp.floor(place + 1))


@public("quantile")
def quantile(
    x: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    """The value below which a share q of the elements along the axes lies.

    Between two elements ``method`` decides, by any of NumPy's names: linear, lower, higher,
    midpoint, nearest, hazen and so on. The result is NaN if any element is, and of nothing. The
    axes of q come first.
    """
    refuse_out(out)
    if method not in METHODS:
        raise ArgumentError(f"quantile: method is one of {', '.join(METHODS)}, found {method!r}")
    x, q = staged(x), plain(q)
    if isinstance(q, int | float) and not 0 <= q <= 1:
        raise ArgumentError(f"quantile: a share lies between 0 and 1, found {q}")
    target = _target(x, q, method)
    note_widening("quantile", (x,), (target,))
    axes = axes_of(x, axis)
    found = _of_rows(_rows(fresh(element(x, target)), axes), q, method, target)
    if not keepdims:
        return found
    kept = tuple(1 if i in axes else d for i, d in enumerate(x.type.shape))
    return xp.reshape(found, (*staged(q).type.shape, *kept))


@public("percentile")
def percentile(
    x: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    """The quantile of a share in hundredths."""
    return quantile(x, xp.divide(q, 100), axis, out, overwrite_input, method, keepdims)


@public("median")
def median(
    x: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """The element in the middle, or the mean of the two there."""
    return quantile(x, 0.5, axis, out, overwrite_input, "linear", keepdims)


def _target(x: Tensor, q: Any, method: str) -> DType:
    """The elements in their own type if one is picked, else in floats to interpolate."""
    if method in PICKING:
        return x.element
    return common((kind_of(x), kind_of(q))) if x.element.is_float else default_float()


def _rows(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The elements along the axes in order, along one axis, which is last."""
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    count: Any = 1
    for a in axes:
        count = count * x.type.shape[a]
    moved = xp.permute_dims(x, (*kept, *axes))
    flat = xp.reshape(moved, (*(x.type.shape[i] for i in kept), count))
    return fresh(Sort(flat.read()).results[0])


def _of_rows(rows: Tensor, q: Any, method: str, target: DType) -> Tensor:
    count = rows.type.shape[-1]
    size = xp.astype(xp.asarray(count), F64)
    share = fresh(element(staged(q), F64))
    if method in PICKING:
        found = _at(rows, PICKING[method](share, size))
    else:
        found = _between(rows, _place(share, size, method), method, target)
    if not target.is_float:
        return found
    nan = fresh(element(float("nan"), target))
    last = _at(rows, xp.asarray(count) - 1)
    found = xp.where(xp.not_equal(last, last), nan, found)
    return found if at_least(count, 1) else xp.where(size < 1.0, nan, found)


def _place(share: Tensor, size: Any, method: str) -> Any:
    """Where a share lies among the elements, counted from 0; it may lie outside of them."""
    if method == "averaged_inverted_cdf":
        return share * size - 1.0
    if method not in OFFSETS:
        return share * (size - 1.0)
    alpha, beta = OFFSETS[method]
    return share * size + (alpha + share * (1.0 - alpha - beta)) - 1.0


def _between(rows: Tensor, place: Any, method: str, target: DType) -> Tensor:
    """From the lower neighbour to the higher one, reckoned from the nearer: exact at both."""
    low, high = xp.floor(place), xp.ceil(place)
    way = place - low
    if method == "midpoint":
        way = xp.where(place > low, 0.5, 0.0)
    elif method == "averaged_inverted_cdf":  # two neighbours of a whole place, else one twice
        low, high, way = high, xp.floor(place + 1.0), 0.5
    a, b = _at(rows, low), _at(rows, high)
    way = fresh(element(way, target))
    t = xp.reshape(way, (*way.type.shape, *(1 for _ in rows.type.shape[1:])))
    between = xp.where(t >= 0.5, b - (b - a) * (1 - t), a + (b - a) * t)
    between = xp.where(xp.isfinite(b - a), between, _far_apart(a, b, t))
    return xp.where(xp.equal(a, b), a, between)


def _far_apart(a: Tensor, b: Tensor, t: Tensor) -> Any:
    """Between neighbours that have no finite difference: infinite if one of them is."""
    finite = xp.logical_and(xp.isfinite(a), xp.isfinite(b))
    return xp.where(finite, a * (1 - t) + b * t, a + b)


def _at(rows: Tensor, place: Any) -> Tensor:
    """The elements at or nearest to some places of each row; axes of the places come first."""
    index = fresh(element(xp.maximum(place, 0), I64))
    last, count = rows.ndim - 1, index.ndim
    found = Gather(rows.read(), index.read(), last, 0, "clip")
    order = (*range(last, last + count), *range(last))
    return fresh(permuted(found, order))
