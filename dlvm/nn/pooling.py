"""Pooling: the largest element or the mean of each window, as reductions over sliding windows."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim
from dlvm.ir.dims import product
from dlvm.ops.arrays.patches import span

from .spatial import Pair, must_fit, numbers, padded, paddings, spatial_axes

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
