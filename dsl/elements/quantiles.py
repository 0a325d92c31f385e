"""Quantiles: elements of what is in order, or between two of them.

The place of a share q among n elements is ``(n - 1) q``; ``method`` says what stands between two
places. As in NumPy, but that infinite neighbours make no NaN.
"""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.operands import common, element, fresh, kind_of, plain, staged
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.dsl.words.views import permuted
from dlvm.ir import F64, I64, DType
from dlvm.ir.dims import at_least
from dlvm.ops import Gather, Sort

from .eager import public
from .elementwise import note_widening, refuse_out
from .reductions import axes_of

PICKING = ("lower", "higher", "nearest")
METHODS = ("linear", "midpoint", *PICKING)


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

    Between two elements ``method`` decides: linear, lower, higher, midpoint or nearest. NaN if any
    element is, and of nothing. The axes of q come first.
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
    """Elements as they are where one is picked, else what can lie between two."""
    if method in PICKING:
        return x.element
    return common((kind_of(x), kind_of(q))) if x.element.is_float else F64


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
    place = share * (size - 1.0)
    if method in PICKING:
        whole = {"lower": xp.floor, "higher": xp.ceil, "nearest": xp.round}[method](place)
        found = _at(rows, whole)
    else:
        found = _between(rows, place, method, target)
    if not target.is_float:
        return found
    nan = fresh(element(float("nan"), target))
    last = _at(rows, xp.asarray(count) - 1)
    found = xp.where(xp.not_equal(last, last), nan, found)
    return found if at_least(count, 1) else xp.where(size < 1.0, nan, found)


def _between(rows: Tensor, place: Tensor, method: str, target: DType) -> Tensor:
    """From the lower neighbour to the higher one, reckoned from the nearer: exact at both."""
    low = xp.floor(place)
    a, b = _at(rows, low), _at(rows, xp.ceil(place))
    way = xp.where(place > low, 0.5, 0.0) if method == "midpoint" else place - low
    way = fresh(element(way, target))
    t = xp.reshape(way, (*way.type.shape, *(1 for _ in rows.type.shape[1:])))
    between = xp.where(t >= 0.5, b - (b - a) * (1 - t), a + (b - a) * t)
    return xp.where(xp.equal(a, b), a, between)


def _at(rows: Tensor, place: Any) -> Tensor:
    """The elements at some places of each row; the axes of the places come first."""
    index = fresh(element(place, I64))
    last, count = rows.ndim - 1, index.ndim
    found = Gather(rows.read(), index.read(), last, 0, "clip")
    order = (*range(last, last + count), *range(last))
    return fresh(permuted(found, order))
