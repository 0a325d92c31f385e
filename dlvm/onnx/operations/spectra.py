"""Fourier transforms as products with matrices of cosines and sines.

There are no complex numbers in dlvm: the last axis holds the real and the imaginary part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.sizes import integers
from dlvm.onnx.table import Call, operation
from dlvm.onnx.tensors import dtype_of

from .movement import padded
from .operands import axis_of, kind, rank, shape

Array = np.ndarray[Any, Any]


@operation("DFT", known=(1, 2))
def _dft(call: Call, x: Any, length: Any = None, axis: Any = None) -> Any:
    given = call.get("axis", 1) if axis is None else integers(axis)[0]
    at = axis_of(-2 if axis is None and call.version >= 20 else given, rank(x))
    inverse, half = bool(call.get("inverse", 0)), bool(call.get("onesided", 0))
    have = shape(x)[at]
    size = (2 * (have - 1) if inverse and half else have) if length is None else integers(length)[0]
    if not isinstance(size, int):
        raise call.unsupported(
            "the size of its axis is open", "fix it: dlvm.onnx.load(path, sizes={...})"
        )
    return _transformed(x, at, size, inverse, half)


def _transformed(x: Any, at: int, size: int, inverse: bool, half: bool) -> Any:
    """The transform along an axis, of as many elements as ``size``."""
    x = xp.moveaxis(x, at, -2)
    x = x if inverse and half else _fitted(x, size)
    if inverse and half:  # of the half of a spectrum, the rest of which mirrors it
        cosines, sines = _real_inverse(size, shape(x)[-2], kind(x))
        found = xp.matmul(x[..., 0], cosines)
        found = xp.expand_dims(found + xp.matmul(x[..., 1], sines), -1)
        return xp.moveaxis(found, -2, at)
    angles = np.outer(np.arange(size), np.arange(size // 2 + 1 if half else size))
    angles = angles % size * (2 * np.pi / size)
    cosines, sines = (f(angles).astype(kind(x)) for f in (np.cos, np.sin))
    sines, scale = (sines, 1 / size) if inverse else (-sines, 1.0)
    real, imaginary = xp.matmul(x[..., 0], cosines), xp.matmul(x[..., 0], sines)
    if shape(x)[-1] == 2:
        real = real - xp.matmul(x[..., 1], sines)
        imaginary = imaginary + xp.matmul(x[..., 1], cosines)
    return xp.moveaxis(xp.stack([real * scale, imaginary * scale], axis=-1), -2, at)


def _fitted(x: Any, size: int) -> Any:
    """As many elements as the transform takes: others are cut off, missing ones are 0."""
    have = shape(x)[-2]
    if isinstance(have, int) and have == size:
        return x
    if isinstance(have, int) and have > size:
        return x[..., :size, :]
    return padded(x, [*[(0, 0)] * (rank(x) - 2), (0, size - have), (0, 0)])


def _real_inverse(size: int, have: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    steps = np.arange(have)
    angles = np.outer(steps, np.arange(size)) % size * (2 * np.pi / size)
    twice = np.where((steps == 0) | (2 * steps == size), 1.0, 2.0)[:, None] / size
    used = (steps <= size // 2)[:, None]
    return (twice * used * np.cos(angles)).astype(dtype), (-twice * used * np.sin(angles)).astype(
        dtype
    )


@operation("STFT", known=(1, 3))
def _stft(call: Call, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    (by,) = integers(step)
    size = integers(length)[0] if length is not None else shape(window)[0]
    rows = xp.sliding_window_view(x, size, 1, stride=by)  # (batch, frames, parts, size)
    rows = rows if window is None else rows * window
    rows = xp.moveaxis(rows, -1, 2)
    return _transformed(rows, 2, size, False, bool(call.get("onesided", 1)))


@operation("MelWeightMatrix", known=(0, 1, 2, 3, 4))
def _mel(call: Call, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    """Triangles over the bins of a spectrum, whose edges are equally far apart in mels."""
    count, size, rate = (int(np.reshape(n, ())) for n in (bins, length, rate))
    ends = [2595 * np.log10(1 + float(np.reshape(f, ())) / 700) for f in (low, high)]
    mels = ends[0] + np.arange(count + 2) * ((ends[1] - ends[0]) / (count + 2))
    edges = np.floor((size + 1) * (700 * (10 ** (mels / 2595) - 1)) / rate).astype(int)
    found = np.zeros((size // 2 + 1, count))
    for k in range(count):
        start, middle, end = edges[k : k + 3]
        up, down = middle - start, end - middle
        found[middle, k] = 1 if up == 0 else found[middle, k]
        found[start : middle + 1, k] = (np.arange(up + 1) / up) if up else found[middle, k]
        found[middle:end, k] = np.arange(down, 0, -1) / down if down else found[middle:end, k]
    return found.astype(dtype_of(call.get("output_datatype", 1)))
