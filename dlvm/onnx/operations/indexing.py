"""Operations that read and write elements by index: gathers, scatters, the largest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.dsl.derive.derivatives import vmap
from dlvm.dsl.words.namespace import xp
from dlvm.onnx.sizes import integers
from dlvm.onnx.table import Call, operation

from .operands import along, axis_of, kind, positive, rank, shape


@operation("Gather")
def _gather(call: Call, x: Any, places: Any) -> Any:
    axis = axis_of(call.get("axis", 0), rank(x))
    places = positive(places, shape(x)[axis])
    found = xp.take(x, xp.reshape(places, (-1,)), axis=axis)
    return xp.reshape(found, shape(x)[:axis] + shape(places) + shape(x)[axis + 1 :])


@operation("GatherElements")
def _gather_elements(call: Call, x: Any, places: Any) -> Any:
    axis = axis_of(call.get("axis", 0), rank(x))
    index = _index_along(x, positive(places, shape(x)[axis]), axis)
    return x[index] if not isinstance(x, np.ndarray) else xp.asarray(x)[index]


@operation("GatherND")
def _gather_nd(call: Call, x: Any, places: Any) -> Any:
    def rows(x: Any, places: Any) -> Any:
        return xp.asarray(x)[_index(x, places)]

    for _ in range(call.get("batch_dims", 0)):
        rows = vmap(rows)
    return rows(xp.asarray(x), xp.asarray(places))


def _index(x: Any, places: Any) -> tuple[Any, ...]:
    """The last axis of an array of indices as an index for the first axes of another array."""
    last = shape(places)[-1]
    return tuple(positive(places[..., k], shape(x)[k]) for k in range(last))


def _index_along(x: Any, places: Any, axis: int) -> tuple[Any, ...]:
    """An index that differs from the place of each element along one axis alone."""
    sizes = shape(places)
    return tuple(
        places if k == axis else xp.broadcast_to(along(xp.arange(n), k, len(sizes)), sizes)
        for k, n in enumerate(sizes)
    )


@operation("ScatterElements", "Scatter")
def _scatter_elements(call: Call, x: Any, places: Any, new: Any) -> Any:
    axis = axis_of(call.get("axis", 0), rank(x))
    places = positive(places, shape(x)[axis])
    return _written(call, x, _index_along(x, places, axis), new)


@operation("ScatterND")
def _scatter_nd(call: Call, x: Any, places: Any, new: Any) -> Any:
    return _written(call, x, _index(x, places), new)


def _written(call: Call, x: Any, index: tuple[Any, ...], new: Any) -> Any:
    at = xp.at(x, index)
    ways = {"none": at.set, "add": at.add, "mul": at.multiply, "max": at.max, "min": at.min}
    return ways[call.get("reduction", "none")](new)


@operation("TopK", known=(1,))
def _top_k(call: Call, x: Any, k: Any = None) -> Any:
    (count,) = [call["k"]] if k is None else integers(k)
    axis = axis_of(call.get("axis", -1), rank(x))
    places = xp.argsort(x, axis=axis, descending=bool(call.get("largest", 1)), stable=True)
    places = places[tuple(slice(0, count) if j == axis else slice(None) for j in range(rank(x)))]
    return xp.take_along_axis(x, places, axis=axis), places


@operation("Compress", known=(1,))
def _compress(call: Call, x: Any, condition: Any) -> Any:
    x = x if "axis" in call.attributes else xp.reshape(x, (-1,))
    axis = call.get("axis", 0)
    return xp.take(x, np.flatnonzero(condition), axis=axis)


@operation("NonZero", known=(0,))
def _non_zero(call: Call, x: Any) -> Any:
    return np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64)


@operation("TensorScatter")
def _tensor_scatter(call: Call, past: Any, new: Any, starts: Any = None) -> Any:
    axis = axis_of(call.get("axis", -2), rank(past))
    steps = along(xp.arange(shape(new)[axis]), axis, rank(new))
    begins = np.zeros(shape(new)[0], np.int64) if starts is None else starts
    places = along(begins, 0, rank(new)) + steps
    if call.get("mode", "linear") == "circular":
        places = places % shape(past)[axis]
    places = xp.broadcast_to(xp.astype(places, np.int64), shape(new))
    return xp.at(past, _index_along(past, places, axis)).set(new)


@operation("ArgMax")
def _argmax(call: Call, x: Any) -> Any:
    return _extreme(call, xp.argmax, x)


@operation("ArgMin")
def _argmin(call: Call, x: Any) -> Any:
    return _extreme(call, xp.argmin, x)


def _extreme(call: Call, find: Any, x: Any) -> Any:
    axis, keep = axis_of(call.get("axis", 0), rank(x)), bool(call.get("keepdims", 1))
    if not call.get("select_last_index", 0):
        return find(x, axis=axis, keepdims=keep)
    return shape(x)[axis] - 1 - find(xp.flip(x, axis=axis), axis=axis, keepdims=keep)


@operation("Hardmax")
def _hardmax(call: Call, x: Any) -> Any:
    axis = axis_of(call.get("axis", -1 if call.version >= 13 else 1), rank(x))
    best = xp.argmax(x, axis=axis, keepdims=True)
    return xp.astype(along(xp.arange(shape(x)[axis]), axis, rank(x)) == best, kind(x))
