"""Pooling: the largest element or the mean of each window, as reductions over sliding windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import is_sequence, user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import product
from dlvm.ops.arrays.patches import span

from .spatial import Pair, must_fit, numbers, padded, paddings, spatial_axes, whole

Numbers = tuple[int, ...]


@exported("nn.max_pool")
def max_pool(
    x: Any,
    window: Any,
    stride: Any = None,
    padding: Any = "VALID",
    dilation: Any = 1,
    layout: Any = "channels_last",
) -> Any:
    """The largest element of each window over the spatial axes; NaN if any is.

    ``x`` is ``(batch, *space, channels)``, or ``(batch, channels, *space)`` with
    ``layout="channels_first"``. ``window``, ``stride`` (the window by default) and ``dilation`` are
    one number or one for each spatial axis; ``padding`` is as in ``conv``, and never the largest.
    Elements that are largest together share the cotangent evenly.
    """
    x = staged(x)
    given = _options("max_pool", x, window, stride, padding, dilation, layout)
    axes, sizes, steps, dilations, pairs = given
    least = x.element.lowest
    x = padded(x, axes, pairs, least) if any(p != (0, 0) for p in pairs) else x
    rows = xp.sliding_window_view(x, sizes, axes, stride=steps, dilation=dilations)
    return xp.max(rows, axis=tuple(range(x.ndim, rows.ndim)))


@exported("nn.avg_pool")
def avg_pool(
    x: Any,
    window: Any,
    stride: Any = None,
    padding: Any = "VALID",
    count_include_pad: bool = True,
    layout: Any = "channels_last",
) -> Any:
    """The mean of each window over the spatial axes; arguments are those of ``max_pool``.

    Padding counts as zeros, unless ``count_include_pad=False``: then each window is divided by how
    many elements of ``x`` it has. Integers are averaged in ``dlvm.default_dtype``.
    """
    x = staged(x)
    axes, sizes, steps, _, pairs = _options("avg_pool", x, window, stride, padding, 1, layout)
    kind = x.element if x.element.is_float else default_float()
    wide = xp.astype(x, kind.compute)
    rows = xp.sliding_window_view(padded(wide, axes, pairs), sizes, axes, stride=steps)
    totals = xp.sum(rows, axis=tuple(range(x.ndim, rows.ndim)))
    if count_include_pad:
        return xp.astype(totals / product(sizes), kind)
    for axis, size, step, pair in zip(axes, sizes, steps, pairs, strict=True):
        counts = _counts(wide.element, x.type.shape[axis], size, step, pair)
        totals = totals / xp.reshape(counts, (-1, *(1,) * (x.ndim - 1 - axis)))
    return xp.astype(totals, kind)


@exported("nn.adaptive_avg_pool")
def adaptive_avg_pool(x: Any, output_size: Any, layout: Any = "channels_last") -> Any:
    """The means of ``output_size`` windows that cover each spatial axis, as PyTorch's.

    Of ``n`` places, window ``i`` of ``o`` has those from ``floor(i n / o)`` up to ``ceil((i + 1) n
    / o)``. ``output_size`` is one number or one for each spatial axis; None keeps an axis as it is.
    """
    x = staged(x)
    kind = x.element if x.element.is_float else default_float()
    found = xp.astype(x, kind.compute)
    for axis, size in _adaptive("adaptive_avg_pool", x, output_size, layout):
        if size == 1:
            found = xp.mean(found, axis=axis, keepdims=True)
            continue
        rows, counts = _covering(found, axis, size)
        lengths = xp.astype(counts.sum(1), found.dtype)
        found = xp.sum(xp.where(counts, rows, 0), axis=axis + 1) / lengths
    return xp.astype(found, kind)


@exported("nn.adaptive_max_pool")
def adaptive_max_pool(x: Any, output_size: Any, layout: Any = "channels_last") -> Any:
    """The largest elements of the windows of ``adaptive_avg_pool``; NaN if any is."""
    x = staged(x)
    for axis, size in _adaptive("adaptive_max_pool", x, output_size, layout):
        if size == 1:
            x = xp.max(x, axis=axis, keepdims=True)
            continue
        rows, counts = _covering(x, axis, size)
        x = xp.max(xp.where(counts, rows, x.element.lowest), axis=axis + 1)
    return x


def _adaptive(name: str, x: Any, sizes: Any, layout: Any) -> list[tuple[int, int]]:
    """The spatial axes that are pooled, each with its number of windows."""
    axes = spatial_axes(name, x.ndim, layout)
    row = tuple(sizes) if is_sequence(sizes) else (sizes,) * len(axes)
    if len(row) != len(axes) or not all(n is None or (whole(n) and n > 0) for n in row):
        raise ArgumentError(
            f"{name}: expected output_size of one whole number, 1 or more, or None for each of "
            f"{len(axes)} spatial axes, found {sizes!r}",
            origin=user_origin(),
            remedy="write output_size=1 for one window over all places",
        )
    pairs = [(axis, int(n)) for axis, n in zip(axes, row, strict=True) if n is not None]
    for axis, size in pairs:
        extent = x.type.shape[axis]
        if size > 1 and not isinstance(extent, int):
            raise ArgumentError(
                f"{name}: the sizes of {size} windows over an axis of open size {extent} are not "
                "known before the call",
                origin=user_origin(),
                remedy="write output_size=1, or state the size of the axis",
            )
        if extent == 0:
            raise ArgumentError(
                f"{name}: spatial axis {axis} has no places to cover",
                origin=user_origin(),
                remedy="pass output_size=None for an empty axis",
            )
    return pairs


def _covering(x: Any, axis: int, size: int) -> tuple[Any, np.ndarray]:
    """The elements of ``size`` windows, as two axes (o, k), and which of them count.

    A window that is shorter than the longest has elements that do not count.
    """
    extent, window = x.type.shape[axis], np.arange(size)
    first, end = window * extent // size, -(-(window + 1) * extent // size)
    lengths: Any = end - first
    steps: Any = np.arange(int(lengths.max()))
    places = np.minimum(first[:, None] + steps, extent - 1)
    counts: Any = steps < lengths[:, None]
    rows = xp.take(x, places, axis)
    return rows, counts.reshape(*counts.shape, *(1,) * (x.ndim - 1 - axis))


def _counts(kind: Any, extent: Dim, size: int, step: int, pair: Pair) -> Any:
    """How many places of an axis each window along it has, without the padding."""
    ones = padded(staged(xp.ones((extent,), kind)), (0,), (pair,))
    return xp.sum(xp.sliding_window_view(ones, size, stride=step), axis=-1)


def _options(
    name: str, x: Any, window: Any, stride: Any, padding: Any, dilation: Any, layout: Any
) -> tuple[Numbers, Numbers, Numbers, Numbers, tuple[Pair, ...]]:
    """The spatial axes, and the window, the stride, the dilation and the padding of each."""
    axes = spatial_axes(name, x.ndim, layout)
    sizes = numbers(name, "window", window, len(axes))
    steps = sizes if stride is None else numbers(name, "stride", stride, len(axes))
    dilations = numbers(name, "dilation", dilation, len(axes))
    spans = tuple(span(n, d) for n, d in zip(sizes, dilations, strict=True))
    extents = tuple(x.type.shape[a] for a in axes)
    pairs = paddings(name, padding, extents, spans, steps)
    must_fit(name, extents, pairs, spans, steps)
    return axes, sizes, steps, dilations, pairs
