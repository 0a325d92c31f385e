"""How often numbers occur, and how many elements lie in each bin."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, DTypeError, ShapeError, TraceError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import is_array, is_sequence, user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim


@public("bincount")
def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: Any = None) -> Any:
    """How often each whole number from 0 on occurs in a vector, or the sum of its weights.

    The result has ``length`` elements; larger numbers are ignored. NumPy's result has one element
    more than the largest number, which is not known while tracing::

        dlvm.bincount(dlvm.asarray([0, 2, 2]), length=4)           # [1, 0, 2, 0]
    """
    x = staged(x)
    if x.ndim != 1 or not (x.element.is_integer or x.type.shape == (0,)):
        raise DTypeError(
            f"bincount: expected a vector of whole numbers, found {x.type}",
            remedy="flatten and convert it: x.ravel().astype(int)",
        )
    count = _length(minlength) if length is None else length
    places = xp.astype(x, int)
    ones = xp.ones_like(places) if weights is None else xp.astype(staged(weights), float)
    if ones.type.shape != x.type.shape:
        raise ShapeError(
            f"bincount: expected a weight for each of {x.type}, found {ones.type}",
            remedy="give weights of the shape of x",
        )
    kept = xp.where(places < 0, count, places)
    return xp.zeros(count, ones.dtype).at[kept].add(ones, mode="drop")


def _length(minlength: int) -> Any:
    raise TraceError(
        "bincount: how many counts there are depends on the largest number, which is not known "
        "while tracing",
        origin=user_origin(),
        remedy=f"say how many counts there are: dlvm.bincount(x, length={minlength or 'n'})",
    )


@public("histogram")
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Any, Any]:
    """How many elements lie in each bin, and the borders of the bins.

    ``bins`` is the number of equal bins between ``range`` (or the extremes of ``a``), or the
    borders in ascending order. A bin holds its lower border, the last one its upper border too.
    ``weights`` are summed instead of counted; with ``density`` the area under the result is 1.
    """
    a = xp.ravel(staged(a))
    edges = _edges(a, bins, range)
    if edges.ndim != 1:
        raise ShapeError(
            f"histogram: bins: expected a whole number or borders, found {edges.type}",
            remedy="write bins=10, or a vector of borders",
        )
    last: Dim = edges.type.shape[0] - 1
    above = xp.searchsorted(edges, a, side="right") - 1
    place = xp.where(a == edges[-1], last - 1, above)
    outside = (a < edges[0]) | ~(a <= edges[-1])
    counted = xp.ones(a.type.shape, int) if weights is None else xp.ravel(staged(weights))
    found = (
        xp.zeros(last, counted.dtype).at[xp.where(outside, last, place)].add(counted, mode="drop")
    )
    if density:
        found = found / xp.diff(edges) / xp.sum(found)
    return found, edges


def _edges(a: Tensor, bins: Any, range: Any) -> Tensor:
    """The borders of the bins."""
    if isinstance(bins, str):
        raise ArgumentError(
            f"histogram: bins={bins!r} depends on the elements, which are not known while tracing",
            remedy="give the number of bins, or their borders",
        )
    if not hasattr(bins, "__index__") or is_array(bins) or isinstance(bins, Tensor):
        return staged(np.asarray(bins) if is_sequence(bins) else bins)
    if operator.index(bins) < 1:
        raise ArgumentError(f"histogram: expected at least one bin, found {bins}")
    empty = a.type.shape == (0,)
    low, high = ((0.0, 1.0) if empty else (xp.min(a), xp.max(a))) if range is None else range
    low, high = (xp.astype(staged(x), float) for x in (low, high))
    same = low == high
    found = xp.linspace(xp.where(same, low - 0.5, low), xp.where(same, high + 0.5, high), bins + 1)
    return xp.astype(found, a.dtype) if a.element.is_float else found
