"""Convolution and pooling, one window after another in NumPy: what ours are compared with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np


def each(given: Any, count: int) -> list[Any]:
    return [given] * count if isinstance(given, int) else list(given)


def around(padding: Any, size: int, covered: int, stride: int) -> tuple[int, int]:
    """Places before and behind one axis."""
    if padding == "VALID":
        return 0, 0
    if isinstance(padding, str):
        total = max((-(-size // stride) - 1) * stride + covered - size, 0)
        ends = (total // 2, total - total // 2)
        return ends if padding == "SAME" else ends[::-1]
    return (padding, padding) if isinstance(padding, int) else tuple(padding)


def surrounded(x: Any, axes: Sequence[int], pairs: Sequence[tuple[int, int]], value: Any) -> Any:
    """Padded, or cut where the padding is negative."""
    widths = [(0, 0)] * x.ndim
    for a, pair in zip(axes, pairs, strict=True):
        before, behind = max(-pair[0], 0), max(-pair[1], 0)
        x = np.take(x, np.arange(before, x.shape[a] - behind), a)
        widths[a] = (max(pair[0], 0), max(pair[1], 0))
    return np.pad(x, widths, constant_values=value)


def opened(x: Any, axis: int, dilation: int) -> Any:
    """Zeros between the elements along one axis."""
    shape = list(x.shape)
    shape[axis] = max((shape[axis] - 1) * dilation + 1, 0)
    out = np.zeros(shape, x.dtype)
    np.moveaxis(out, axis, 0)[::dilation] = np.moveaxis(x, axis, 0)
    return out


def conv(
    x: Any,
    w: Any,
    stride: Any = 1,
    padding: Any = "SAME",
    dilation: Any = 1,
    input_dilation: Any = 1,
    groups: int = 1,
    layout: str = "channels_last",
) -> Any:
    """Window by window."""
    if layout == "channels_first":
        x, w = np.moveaxis(x, 1, -1), np.moveaxis(w, (0, 1), (-1, -2))
        found = conv(x, w, stride, padding, dilation, input_dilation, groups)
        return np.moveaxis(found, -1, 1)
    count = x.ndim - 2
    window, (inside, out) = w.shape[:count], w.shape[count:]
    strides, dilations = each(stride, count), each(dilation, count)
    for a, d in enumerate(each(input_dilation, count)):
        x = opened(x, a + 1, d)
    covered = [(n - 1) * d + 1 for n, d in zip(window, dilations, strict=True)]
    given = [padding] * count if isinstance(padding, str | int) else list(padding)
    rows = zip(given, x.shape[1:-1], covered, strides, strict=True)
    x = surrounded(x, range(1, count + 1), [around(*row) for row in rows], 0)
    places = zip(x.shape[1:-1], covered, strides, strict=True)
    sizes = [(n - c) // s + 1 for n, c, s in places]
    y = np.zeros((x.shape[0], *sizes, out), np.result_type(x, w))
    each_out = out // groups
    for at in itertools.product(*map(range, sizes)):
        for tap in itertools.product(*map(range, window)):
            numbers = zip(at, strides, tap, dilations, strict=True)
            column = x[(slice(None), *(q * s + p * d for q, s, p, d in numbers))]
            for g in range(groups):
                to = slice(g * each_out, (g + 1) * each_out)
                part = column[:, g * inside : (g + 1) * inside]
                y[(slice(None), *at, to)] += part @ w[tap][:, to]
    return y


def conv_transpose(
    x: Any,
    w: Any,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    output_padding: Any = 0,
    groups: int = 1,
) -> Any:
    """Each element of ``x`` adds its window to the result: with ``transpose_kernel``."""
    count = x.ndim - 2
    window, (inside, _) = w.shape[:count], w.shape[count:]
    strides, dilations = each(stride, count), each(dilation, count)
    covered = [(n - 1) * d + 1 for n, d in zip(window, dilations, strict=True)]
    numbers = zip(x.shape[1:-1], strides, covered, strict=True)
    sizes = [(n - 1) * s + c for n, s, c in numbers]
    y = np.zeros((x.shape[0], *sizes, inside * groups), np.result_type(x, w))
    taken = x.shape[-1] // groups
    for at in itertools.product(*map(range, x.shape[1:-1])):
        for tap in itertools.product(*map(range, window)):
            places = zip(at, strides, tap, dilations, strict=True)
            spot = tuple(q * s + p * d for q, s, p, d in places)
            for g in range(groups):
                of = slice(g * taken, (g + 1) * taken)
                to = slice(g * inside, (g + 1) * inside)
                y[(slice(None), *spot, to)] += x[(slice(None), *at, of)] @ w[tap][:, of].T
    given = [padding] * count if isinstance(padding, int) else list(padding)
    pairs = [around(p, 0, 0, 1) for p in given]
    more = each(output_padding, count)
    cut = [(-low, m - high) for (low, high), m in zip(pairs, more, strict=True)]
    return surrounded(y, range(1, count + 1), cut, 0)


def pool(x: Any, fold: Any, window: Any, stride: Any, padding: Any, dilation: Any, value: Any):
    """A fold of each window, channels last."""
    count = x.ndim - 2
    sizes = each(window, count)
    strides = sizes if stride is None else each(stride, count)
    dilations = each(dilation, count)
    covered = [(n - 1) * d + 1 for n, d in zip(sizes, dilations, strict=True)]
    given = [padding] * count if isinstance(padding, str | int) else list(padding)
    rows = zip(given, x.shape[1:-1], covered, strides, strict=True)
    x = surrounded(x, range(1, count + 1), [around(*row) for row in rows], value)
    places = [
        range((n - c) // s + 1) for n, c, s in zip(x.shape[1:-1], covered, strides, strict=True)
    ]
    y = np.zeros((x.shape[0], *map(len, places), x.shape[-1]), x.dtype)
    for at in itertools.product(*places):
        numbers = zip(at, strides, covered, dilations, strict=True)
        part = tuple(slice(q * s, q * s + c, d) for q, s, c, d in numbers)
        y[(slice(None), *at)] = fold(x[(slice(None), *part)], axis=tuple(range(1, count + 1)))
    return y


def max_pool(x: Any, window: Any, stride: Any = None, padding: Any = "VALID", dilation: Any = 1):
    return pool(x, np.max, window, stride, padding, dilation, -np.inf)


def avg_pool(
    x: Any,
    window: Any,
    stride: Any = None,
    padding: Any = "VALID",
    count_include_pad: bool = True,
):
    x = x * 1.0 if x.dtype.kind in "iub" else x
    if count_include_pad:
        return pool(x, np.mean, window, stride, padding, 1, 0)
    total = pool(x, np.sum, window, stride, padding, 1, 0)
    return total / pool(np.ones_like(x), np.sum, window, stride, padding, 1, 0)


def adaptive(fold: Any) -> Any:
    """Windows from floor(i n / o) to ceil((i + 1) n / o), along one axis after another."""

    def call(x: Any, output_size: Any) -> Any:
        for a, count in enumerate(each(output_size, x.ndim - 2), 1):
            if count is not None:
                n = x.shape[a]
                ends = [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]
                rows = [fold(np.take(x, np.arange(*e), a), axis=a) for e in ends]
                x = np.stack(rows, a)
        return x

    return call


def interpolate(
    x: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", corners: bool = False
) -> Any:
    """The element under each new place, or the mean of its two neighbours, axis by axis."""
    count = x.ndim - 2
    for a in range(1, count + 1):
        old = x.shape[a]
        if size is None:
            by = (scale_factor,) * count if np.isscalar(scale_factor) else scale_factor
            new, step = int(old * by[a - 1]), 1 / by[a - 1]
        else:
            new = each(size, count)[a - 1]
            step = old / new
        rows = []
        for i in range(new):
            at = i * step if mode == "nearest" else max((i + 0.5) * step - 0.5, 0)
            if mode == "linear" and corners:
                at = i * (old - 1) / max(new - 1, 1)
            low = min(int(at + 1e-9), old - 1)
            first, second = np.take(x, low, a), np.take(x, min(low + 1, old - 1), a)
            share = at - low if mode == "linear" else 0
            rows.append(first if share == 0 else first * (1 - share) + second * share)
        x = np.stack(rows, a).astype(x.dtype)
    return x
