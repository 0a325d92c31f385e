"""Windows that slide over an array, as an array of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import is_sequence
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim
from dlvm.ir.dims import at_least

from .shapes import moveaxis


@public("sliding_window_view")
def sliding_window_view(x: Any, window_shape: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Every window of a given shape that fits into ``x``; the axes of the windows come last.

    ``out[i, j] = x[i + j]`` along each axis. The result is a copy, where NumPy's is a view::

        dlvm.sliding_window_view(x, 2).sum(-1)                     # x[:-1] + x[1:]
    """
    x = staged(x)
    widths = tuple(window_shape) if is_sequence(window_shape) else (window_shape,)
    given = range(x.ndim) if axis is None else axis if is_sequence(axis) else (axis,)
    axes = tuple(axes_of(x, a)[0] for a in given)
    if len(widths) != len(axes):
        raise ShapeError(
            f"sliding_window_view: {len(widths)} window sizes for {len(axes)} axes of {x.type}",
            remedy="give one size for each axis, or name the axes: axis=0",
        )
    for a, width in zip(axes, widths, strict=True):
        x = _windows(x, a, width)
    return x


def _windows(x: Tensor, axis: int, width: Dim) -> Tensor:
    """The windows along one axis, whose elements become a new last axis."""
    size = x.type.shape[axis]
    if not at_least(width, 0) or not at_least(size, width):
        raise ShapeError(
            f"sliding_window_view: a window of {width} does not fit into axis {axis} of {x.type}",
            remedy="give a window of 0 to as many elements as the axis has",
        )
    places = xp.arange(size - width + 1)[:, None] + xp.arange(width)
    return moveaxis(xp.take(x, places, axis=axis, mode="clip"), axis + 1, -1)
