"""Images sampled at places that are given, and put together from blocks.

Each sample is a weighted sum of the elements around its place: one gather for each of them.
"""

from __future__ import annotations

from itertools import product as combinations
from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.sizes import integers
from dlvm.onnx.table import Call, operation

from .movement import padded
from .operands import kind, product, rank, shape

Tap = tuple[Any, Any]
"""Indices along an axis, and the weights of the elements there."""
CUBIC = -0.75
"""The coefficient of Keys' filter that PyTorch takes."""


@operation("GridSample")
def _grid_sample(call: Call, x: Any, grid: Any) -> Any:
    count, corners = rank(x) - 2, bool(call.get("align_corners", 0))
    mode, padding = call.get("mode", "linear"), call.get("padding_mode", "zeros")
    sizes = shape(x)[2:]
    taps = [
        _taps(_unscaled(grid[..., count - 1 - k], n, corners), n, mode, padding, corners)
        for k, n in enumerate(sizes)
    ]
    flat = xp.reshape(x, (*shape(x)[:2], product(sizes)))
    parts = [_gathered(flat, sizes, row) for row in combinations(*taps)]
    return sum(parts[1:], parts[0])


def _unscaled(place: Any, size: Any, corners: bool) -> Any:
    """A place from -1 to 1 as a fractional index; corners are centres of elements, or edges."""
    return (place + 1) / 2 * (size - 1) if corners else ((place + 1) * size - 1) / 2


def _taps(place: Any, size: Any, mode: str, padding: str, corners: bool) -> list[Tap]:
    """The elements of one axis that a sample is made of."""
    cubic = mode in ("cubic", "bicubic")
    if not cubic and padding != "zeros":
        place = _inside(place, size, padding, corners)
    if mode == "nearest":
        return [_tap(xp.rint(place), xp.ones_like(place), size, padding, corners)]
    left = xp.floor(place)
    ratio = place - left
    if not cubic:
        weights = [1 - ratio, ratio]
        return [_tap(left + k, w, size, padding, corners) for k, w in enumerate(weights)]
    rows = enumerate((_keys(ratio + 1), _keys(ratio), _keys(1 - ratio), _keys(2 - ratio)))
    return [_tap(left + (k - 1), w, size, padding, corners) for k, w in rows]


def _keys(x: Any) -> Any:
    near = ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * CUBIC - 4 * CUBIC
    return xp.where(x <= 1, near, far)


def _tap(index: Any, weight: Any, size: Any, padding: str, corners: bool) -> Tap:
    """Outside of the image an element is 0, or the one that the padding has there."""
    if padding == "zeros":
        outside = xp.logical_or(index < 0, index > size - 1)
        weight = xp.where(outside, xp.zeros_like(weight), weight)
        index = xp.clip(index, 0, size - 1)
    else:
        index = _inside(index, size, padding, corners)
    return xp.astype(index, np.int64), weight


def _inside(place: Any, size: Any, padding: str, corners: bool) -> Any:
    """A place in the image: at the border, or reflected there as often as it takes."""
    if padding == "reflection":
        low = 0.0 if corners else -0.5
        reach = size - 1 - 2 * low
        way = xp.remainder(place - low, 2 * reach)
        place = xp.where(way > reach, 2 * reach - way, way) + low
    return xp.clip(place, 0, size - 1)


def _gathered(flat: Any, sizes: tuple[Any, ...], row: tuple[Tap, ...]) -> Any:
    """The elements at one combination of taps, times their weights."""
    index: Any = 0
    weight: Any = 1
    for n, (places, w) in zip(sizes, row, strict=True):
        index, weight = index * n + places, weight * w
    samples, channels = shape(index), shape(flat)[1]
    rows = xp.reshape(index, (samples[0], 1, product(samples[1:])))
    rows = xp.broadcast_to(rows, (samples[0], channels, product(samples[1:])))
    found = xp.reshape(xp.take_along_axis(flat, rows, axis=2), (samples[0], channels, *samples[1:]))
    return found * xp.expand_dims(weight, 1)


@operation("Col2Im", known=(1, 2))
def _col2im(call: Call, x: Any, image: Any, block: Any) -> Any:
    sizes, window = integers(image), integers(block)
    count = len(sizes)
    strides = call.get("strides") or [1] * count
    dilations = call.get("dilations") or [1] * count
    pads = call.get("pads") or [0] * 2 * count
    wide = [n + pads[k] + pads[k + count] for k, n in enumerate(sizes)]
    places = _block_places(wide, window, strides, dilations)
    channels = shape(x)[1] // product(window)
    rows = xp.reshape(x, (shape(x)[0], channels, places.size))
    zeros = xp.zeros((shape(x)[0], channels, product(wide)), dtype=kind(x))
    flat = xp.at(zeros, (slice(None), slice(None), places.reshape(-1))).add(rows)
    found = xp.reshape(flat, (shape(x)[0], channels, *wide))
    return padded(found, [(0, 0), (0, 0), *((-pads[k], -pads[k + count]) for k in range(count))])


def _block_places(
    wide: list[int], window: list[int], strides: list[int], dilations: list[int]
) -> np.ndarray[Any, Any]:
    """Where each element of each block lies in the image: blocks come last."""
    places: Any = np.zeros((1, 1), np.int64)
    for n, size, step, gap in zip(wide, window, strides, dilations, strict=True):
        inside = np.arange(size) * gap
        starts = np.arange(0, n - gap * (size - 1), step)
        axis = inside[:, None] + starts
        places = places[:, None, :, None] * n + axis[None, :, None, :]
        places = places.reshape(places.shape[0] * size, -1)
    return places
