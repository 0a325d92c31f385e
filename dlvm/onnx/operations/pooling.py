"""Pooling: the largest element, the mean or a norm of each window."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.sizes import is_zero, larger, smaller
from dlvm.onnx.table import Call, operation

from .movement import padded
from .operands import kind, like, product, rank, shape
from .reductions import lowest
from .windows import Pair, Window, window_of


def _ceiled(call: Call, x: Any, window: Window) -> tuple[Pair, ...]:
    """The padding with what a last window that is cut off needs behind."""
    if not call.get("ceil_mode", 0):
        return window.pads
    rows = zip(shape(x)[2:], window.pads, window.spans(), window.strides, strict=True)
    return tuple(_with_last(*row) for row in rows)


def _with_last(extent: Any, pads: Pair, span: int, step: int) -> Pair:
    """A last window counts only if it starts inside of the image or the padding in front."""
    room = extent + pads[0] + pads[1] - span
    last = smaller((room + step - 1) // step, (extent + pads[0] + step - 1) // step - 1)
    return pads[0], pads[1] + larger(last * step - room, 0)


def _windows(x: Any, window: Window, pads: tuple[Pair, ...], fill: Any) -> Any:
    """The elements of each window as the last axes."""
    if not all(is_zero(n) for pair in pads for n in pair):
        x = padded(x, [(0, 0), (0, 0), *pads], "constant", fill)
    axes = tuple(range(2, rank(x)))
    return xp.sliding_window_view(
        x, window.sizes, axes, stride=window.strides, dilation=window.dilations
    )


def _inside(x: Any) -> tuple[int, ...]:
    """The axes of a window behind those of the images."""
    return tuple(range(rank(x), 2 * rank(x) - 2))


@operation("MaxPool")
def _max_pool(call: Call, x: Any) -> Any:
    window = window_of(call, x, call["kernel_shape"])
    pads = _ceiled(call, x, window)
    rows = _windows(x, window, pads, lowest(kind(x)))
    largest = xp.max(rows, axis=_inside(x))
    return (largest, _places(call, x, window, pads, rows)) if call.wants(1) else largest


def _places(call: Call, x: Any, window: Window, pads: tuple[Pair, ...], rows: Any) -> Any:
    """Where the largest element of each window is, counted over the whole array."""
    count = product(shape(x))
    numbers = xp.reshape(xp.arange(count), shape(x))
    if call.get("storage_order", 0):
        images = xp.reshape(
            xp.arange(product(shape(x)[:2])), (*shape(x)[:2], *(1,) * (rank(x) - 2))
        )
        space = xp.reshape(xp.arange(product(shape(x)[2:])), shape(x)[2:][::-1])
        space = xp.permute_dims(space, tuple(range(rank(space)))[::-1])
        numbers = images * product(shape(x)[2:]) + space
    where = _windows(numbers, window, pads, -1)
    flat = (*shape(rows)[: rank(x)], product(window.sizes))
    best = xp.argmax(xp.reshape(rows, flat), axis=-1, keepdims=True)
    return xp.squeeze(xp.take_along_axis(xp.reshape(where, flat), best, axis=-1), axis=-1)


@operation("AveragePool")
def _average_pool(call: Call, x: Any) -> Any:
    window = window_of(call, x, call["kernel_shape"])
    pads = _ceiled(call, x, window)
    total = xp.sum(_windows(x, window, pads, 0), axis=_inside(x))
    return like(total / _counts(call, x, window, pads), x)


def _counts(call: Call, x: Any, window: Window, pads: tuple[Pair, ...]) -> Any:
    """How many elements each window has: padding counts only if the node says so."""
    total: Any = np.ones((1, 1), kind(x))
    stated = bool(call.get("count_include_pad", 0))
    for k, pair in enumerate(pads):
        row = xp.ones((shape(x)[2 + k],), dtype=kind(x))
        mine = window.pads[k] if stated else (0, 0)
        row = padded(row, [mine], "constant", 1)
        row = padded(row, [(pair[0] - mine[0], pair[1] - mine[1])])
        counts = xp.sum(
            xp.sliding_window_view(
                row, window.sizes[k], stride=window.strides[k], dilation=window.dilations[k]
            ),
            axis=-1,
        )
        total = xp.expand_dims(total, -1) * counts
    return total


@operation("LpPool")
def _lp_pool(call: Call, x: Any) -> Any:
    window, p = window_of(call, x, call["kernel_shape"]), call.get("p", 2)
    rows = _windows(xp.abs(x) ** p, window, _ceiled(call, x, window), 0)
    return like(xp.sum(rows, axis=_inside(x)) ** (1 / p), x)


def _everywhere(x: Any) -> tuple[int, ...]:
    return tuple(range(2, rank(x)))


@operation("GlobalAveragePool")
def _global_average_pool(call: Call, x: Any) -> Any:
    return xp.mean(x, axis=_everywhere(x), keepdims=True)


@operation("GlobalMaxPool")
def _global_max_pool(call: Call, x: Any) -> Any:
    return xp.max(x, axis=_everywhere(x), keepdims=True)


@operation("GlobalLpPool")
def _global_lp_pool(call: Call, x: Any) -> Any:
    p = call.get("p", 2)
    return like(xp.sum(xp.abs(x) ** p, axis=_everywhere(x), keepdims=True) ** (1 / p), x)


@operation("MaxUnpool", known=(2,))
def _max_unpool(call: Call, x: Any, places: Any, sizes: Any = None) -> Any:
    window = window_of(call, x, call["kernel_shape"])
    wanted = [
        (n - 1) * step - low - high + size
        for n, step, (low, high), size in zip(
            shape(x)[2:], window.strides, window.pads, window.sizes, strict=True
        )
    ]
    small = (*shape(x)[:2], *wanted)
    found = xp.reshape(
        xp.at(xp.zeros((product(small),), dtype=kind(x)), (xp.reshape(places, (-1,)),)).set(
            xp.reshape(x, (-1,))
        ),
        small,
    )
    if sizes is None:
        return found
    more = [(0, int(n) - m) for n, m in zip(sizes.tolist(), small, strict=True)]
    return padded(found, more)


@operation("LRN")
def _lrn(call: Call, x: Any) -> Any:
    size = call["size"]
    before = (size - 1) // 2
    pads = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (rank(x) - 2)]
    rows = xp.sliding_window_view(xp.pad(x * x, pads), size, 1)
    scale = call.get("bias", 1.0) + call.get("alpha", 1e-4) / size * xp.sum(rows, axis=-1)
    return like(x / scale ** call.get("beta", 0.75), x)
