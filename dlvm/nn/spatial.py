"""What convolution and pooling share: their options, one number or one for each spatial axis.

Spatial axes are those of an image: all but the batch and the channels. An option that does not
fit is refused in the words of the function that the user called.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.trace.scopes import is_sequence, user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim, Expr
from dlvm.ir.sizes.dims import at_least, floordiv, maximum

Pair = tuple[Dim, Dim]
LAYOUTS = ("channels_last", "channels_first")
PADDINGS = ("SAME", "SAME_LOWER", "VALID")


def numbers(name: str, option: str, given: Any, count: int, least: int = 1) -> tuple[int, ...]:
    """An option as one whole number for each of ``count`` spatial axes."""
    row = tuple(given) if is_sequence(given) else (given,) * count
    if len(row) != count or not all(whole(n) and n >= least for n in row):
        raise ArgumentError(
            f"{name}: expected {option} of one whole number, {least} or more, for each of {count} "
            f"spatial axes, found {given!r}",
            origin=user_origin(),
            remedy=f"write one number for all axes, such as {option}={max(least, 1)}",
        )
    return tuple(map(int, row))


def whole(n: Any) -> bool:
    """Whether a number counts something."""
    return isinstance(n, int | np.integer) and not isinstance(n, bool)


def spatial_axes(name: str, rank: int, layout: Any) -> tuple[int, ...]:
    """Where the spatial axes are in an array of images."""
    if layout not in LAYOUTS:
        known = " or ".join(map(repr, LAYOUTS))
        raise ArgumentError(
            f"{name}: expected layout {known}, found {layout!r}",
            origin=user_origin(),
            remedy="write layout='channels_last'",
        )
    if rank < 3:
        raise ShapeError(
            f"{name}: expected a batch axis, spatial axes and a channel axis, found {rank} axes",
            origin=user_origin(),
            remedy="write x[None] for a batch of one",
        )
    return tuple(range(1, rank - 1)) if layout == "channels_last" else tuple(range(2, rank))


def paddings(
    name: str, given: Any, extents: tuple[Dim, ...], spans: tuple[Dim, ...], stride: Any
) -> tuple[Pair, ...]:
    """How many places are added before and behind each spatial axis; negative ones are cut off."""
    if isinstance(given, str):
        if given not in PADDINGS:
            raise wrong_padding(name, given, len(extents))
        rows = zip(extents, spans, stride, strict=True)
        return tuple(_named(given, *row) for row in rows)
    row = tuple(given) if is_sequence(given) else (given,) * len(extents)
    pairs = tuple(tuple(p) if is_sequence(p) else (p, p) for p in row)
    fits = len(pairs) == len(extents) and all(len(p) == 2 for p in pairs)
    if not fits or not all(whole(n) or isinstance(n, Expr) for p in pairs for n in p):
        raise wrong_padding(name, given, len(extents))
    return tuple((_size(low), _size(high)) for low, high in pairs)


def _size(n: Any) -> Dim:
    return n if isinstance(n, Expr) else int(n)


def _named(padding: str, extent: Dim, covered: Dim, step: int) -> Pair:
    """``SAME`` gives ``extent / step`` windows, rounded up; the odd place is behind the axis."""
    if padding == "VALID":
        return 0, 0
    windows = floordiv(extent + step - 1, step)
    total = maximum((windows - 1) * step + covered - extent, 0)
    less = floordiv(total, 2)
    more = total - less
    return (less, more) if padding == "SAME" else (more, less)


def wrong_padding(
    name: str, given: Any, count: int, known: tuple[str, ...] = PADDINGS
) -> ArgumentError:
    """The error for padding that is none of the forms that there are."""
    words = ", ".join(map(repr, known))
    return ArgumentError(
        f"{name}: expected padding of {words}, a whole number, or a number or a pair of numbers "
        f"for each of {count} spatial axes, found {given!r}",
        origin=user_origin(),
        remedy="write padding='SAME'",
    )


def padded(x: Any, axes: tuple[int, ...], pairs: tuple[Pair, ...], value: Any = 0) -> Any:
    """An array with more places along some axes, or fewer."""
    low = [max(p, 0) if isinstance(p, int) else p for p, _ in pairs]
    high = [max(p, 0) if isinstance(p, int) else p for _, p in pairs]
    if any(p != 0 for p in (*low, *high)):
        widths: list[Pair] = [(0, 0)] * x.ndim
        for axis, pair in zip(axes, zip(low, high, strict=True), strict=True):
            widths[axis] = pair
        x = xp.pad(x, widths, constant_values=value)
    cut = [slice(None)] * x.ndim
    for axis, (before, behind) in zip(axes, pairs, strict=True):
        first, last = (-p if isinstance(p, int) and p < 0 else 0 for p in (before, behind))
        if first or last:
            cut[axis] = slice(first, x.type.shape[axis] - last)
    return x[tuple(cut)]


def must_fit(
    name: str,
    extents: tuple[Dim, ...],
    pairs: tuple[Pair, ...],
    spans: tuple[Dim, ...],
    steps: tuple[int, ...],
) -> None:
    """At least one window fits along each axis, with the padding; along an open one, maybe none."""
    rows = zip(extents, pairs, spans, steps, strict=True)
    for i, (extent, (low, high), covered, step) in enumerate(rows):
        places = extent + low + high
        room = covered - step if isinstance(places, Expr) else covered
        if not at_least(covered, 1) or not at_least(places, room):
            raise ShapeError(
                f"{name}: a window over {covered} places does not fit spatial axis {i} of "
                f"{extent} with {low} and {high} of padding",
                origin=user_origin(),
                remedy="write padding='SAME'",
                sides=(places, covered),
            )
