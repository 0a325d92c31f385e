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
from dlvm.dsl.words.views import Windows
from dlvm.ir import Dim, Expr
from dlvm.ir.sizes.dims import at_least
from dlvm.ops.arrays.patches import span

from .shapes import permute_dims


@public("sliding_window_view", views=True)
def sliding_window_view(
    x: Any,
    window_shape: Any,
    axis: int | Sequence[int] | None = None,
    *,
    stride: Any = 1,
    dilation: Any = 1,
) -> Any:
    """Every window of a given shape that fits into ``x``; the axes of the windows come last.

    ``out[i, j] = x[i*stride + j*dilation]`` along each axis; ``stride`` and ``dilation``, which
    NumPy's function lacks, are one number or one for each axis. The result is a view that can't
    be assigned into (outside of staged functions a copy); reductions read ``x`` itself::

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
    steps = _numbers("stride", stride, len(axes))
    dilations = _numbers("dilation", dilation, len(axes))
    for row in zip(axes, widths, steps, dilations, strict=True):
        _fit(x, *row)
    if len(set(axes)) < len(axes):
        return _one_by_one(x, axes, widths, steps, dilations)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    rows = (tuple(row[i] for i in order) for row in (axes, widths, steps, dilations))
    found = x.part(Windows(*rows))
    taps = (x.ndim + order.index(i) for i in range(len(axes)))
    return permute_dims(found, (*range(x.ndim), *taps))


def _one_by_one(x: Tensor, axes: Any, widths: Any, steps: Any, dilations: Any) -> Tensor:
    """Windows of windows, where an axis is named twice."""
    for a, width, step, dilation in zip(axes, widths, steps, dilations, strict=True):
        _fit(x, a, width, step, dilation)
        x = x.part(Windows((a,), (width,), (step,), (dilation,)))
    return x


def _numbers(name: str, given: Any, count: int) -> tuple[int, ...]:
    """One number for each axis, each at least 1."""
    row = tuple(given) if is_sequence(given) else (given,) * count
    if len(row) != count or not all(isinstance(n, int) and n >= 1 for n in row):
        raise ShapeError(
            f"sliding_window_view: expected {name} of one whole number, 1 or more, for each of "
            f"{count} axes, found {given!r}",
            remedy=f"write {name}=1, or one number for each axis",
        )
    return row


def _fit(x: Tensor, axis: int, width: Dim, step: int, dilation: int) -> None:
    """At least one window fits; along an axis of open size there may be none."""
    size, covered = x.type.shape[axis], span(width, dilation)
    room = covered - step if isinstance(size, Expr) and covered != 0 else covered
    if not at_least(width, 0) or not at_least(size, room):
        apart = f" elements, {dilation} apart," if dilation > 1 else ""
        raise ShapeError(
            f"sliding_window_view: a window of {width}{apart} does not fit into axis {axis} of "
            f"{x.type}",
            remedy="give a window of 0 to as many elements as the axis has",
        )
