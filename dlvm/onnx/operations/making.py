"""Operations that make arrays: constants, ranges, shapes, and arrays like another one."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.sizes import Ratio, as_fraction, has_sizes, integers, packed
from dlvm.onnx.table import Call, operation
from dlvm.onnx.tensors import dtype_of

from .operands import along, axis_of, given, kind, product, rank, shape


@operation("Constant")
def _constant(call: Call) -> Any:
    ways = {"value_float": np.float32, "value_int": np.int64}
    lists = {"value_floats": np.float32, "value_ints": np.int64}
    for name, value in call.attributes.items():
        if name == "value":
            return value
        if name in ways:
            return np.asarray(ways[name](value))
        if name in lists:
            return np.array(value, lists[name])
    raise call.unsupported(
        "it holds text or a sparse array", "export the model with dense constants of numbers"
    )


@operation("ConstantOfShape", known=(0,))
def _constant_of_shape(call: Call, sizes: Any) -> Any:
    value = np.asarray(call.get("value", np.zeros(1, np.float32))).reshape(-1)[0]
    if not has_sizes(sizes):
        call.check_bytes(product(integers(sizes)), value.itemsize)
    return xp.full(tuple(integers(sizes)), value, dtype=value.dtype)


@operation("Shape")
def _shape(call: Call, x: Any) -> Any:
    return packed(shape(x)[call.get("start", 0) : call.get("end")])


@operation("Size")
def _size(call: Call, x: Any) -> Any:
    return packed([product(shape(x))], ())


@operation("Range", known=(0, 1, 2))
def _range(call: Call, start: Any, limit: Any, delta: Any) -> Any:
    ends = first, last, step = [x.reshape(-1)[0] for x in (start, limit, delta)]
    known = [x.dtype for x in (start, limit, delta) if x.dtype != object]
    kinds = [x.kind for x in ends if isinstance(x, Ratio)]
    dtype = (known or kinds or [np.dtype(np.int64)])[0]
    if len(known) == len(ends):
        call.check_bytes(int(abs((float(last) - float(first)) / float(step))), dtype.itemsize)
        return np.arange(first, last, step, dtype=dtype)
    (a, b), (c, d), (e, f) = map(as_fraction, ends)
    above, below = (c * b - a * d) * f, b * d * e  # (c/d - a/b) / (e/f)
    if isinstance(below, int) and below < 0:
        above, below = -above, -below
    each, zero = (x.staged() if isinstance(x, Ratio) else x for x in (step, first))
    return xp.astype(xp.arange((above + below - 1) // below) * each + zero, dtype)


@operation("EyeLike")
def _eye_like(call: Call, x: Any) -> Any:
    rows, columns = shape(x)
    dtype = dtype_of(call["dtype"]) if call.get("dtype") else kind(x)
    return xp.eye(rows, columns, k=call.get("k", 0), dtype=dtype)


@operation("Trilu", known=(1,))
def _trilu(call: Call, x: Any, k: Any = None) -> Any:
    (diagonal,) = given(k, [0]) or [0]
    return (xp.triu if call.get("upper", 1) else xp.tril)(x, k=diagonal)


@operation("OneHot", known=(1,))
def _one_hot(call: Call, places: Any, depth: Any, values: Any) -> Any:
    (count,) = integers(depth)
    axis = axis_of(call.get("axis", -1), rank(places) + 1)
    places = xp.where(places < 0, places + count, places)
    steps = xp.astype(along(xp.arange(count), axis, rank(places) + 1), kind(places))
    off, on = values[0], values[1]
    return xp.where(xp.expand_dims(places, axis) == steps, on, off)


def _window(call: Call, size: Any, *weights: float) -> Any:
    """A sum of cosines over a window of a known size."""
    count = int(integers(size)[0])
    call.check_bytes(count, 8, share=4)
    turns = 2 * np.pi * np.arange(count) / (count if call.get("periodic", 1) else count - 1)
    found = sum(w * np.cos(k * turns) for k, w in enumerate(weights))
    return np.asarray(found).astype(dtype_of(call.get("output_datatype", 1)))


@operation("HannWindow", known=(0,))
def _hann(call: Call, size: Any) -> Any:
    return _window(call, size, 0.5, -0.5)


@operation("HammingWindow", known=(0,))
def _hamming(call: Call, size: Any) -> Any:
    return _window(call, size, 25 / 46, -21 / 46)


@operation("BlackmanWindow", known=(0,))
def _blackman(call: Call, size: Any) -> Any:
    return _window(call, size, 0.42, -0.5, 0.08)
