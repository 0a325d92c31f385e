"""Resizing: each place of the result is taken from the nearest places of ``x`` or between them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.arrays.creation import below
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import shown_shape, staged
from dlvm.dsl.trace.scopes import is_sequence, user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim

from .precision import float_of, wide
from .spatial import spatial_axes, whole

MODES = ("nearest", "linear")


@exported("nn.interpolate")
def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    layout: Any = "channels_last",
) -> Any:
    """Resizes images to ``size`` places along each spatial axis, or ``scale_factor`` times as many.

    Place ``i`` of ``o`` is taken from ``floor(i n / o)`` of ``n`` for ``"nearest"``. For
    ``"linear"``, which is PyTorch's bilinear of two axes and trilinear of three, it lies at ``(i +
    1/2) n / o - 1/2`` between two places, or at ``i (n - 1) / (o - 1)`` with ``align_corners``.
    Either option is one number or one for each spatial axis.
    """
    x = staged(x)
    axes = spatial_axes("interpolate", x.ndim, layout)
    if mode not in MODES:
        raise ArgumentError(
            f"interpolate: expected mode 'nearest' or 'linear', found {mode!r}",
            origin=user_origin(),
            remedy="write mode='linear', which is bilinear of two axes and trilinear of three",
        )
    kind = float_of(x) if mode == "linear" else None
    found = x if kind is None else wide(x, kind)
    for axis, (extent, steps) in zip(axes, _sizes(x, axes, size, scale_factor), strict=True):
        if kind is None:
            found = _nearest(found, axis, extent, steps)
        else:
            found = _between(found, axis, extent, steps, align_corners)
    return found if kind is None else xp.astype(found, kind)


def _sizes(x: Any, axes: tuple[int, ...], size: Any, scale: Any) -> list[tuple[Dim, Fraction]]:
    """How many places each axis gets, and how many old places a new one takes."""
    given, word = (size, "size") if scale is None else (scale, "scale_factor")
    row = tuple(given) if is_sequence(given) else (given,) * len(axes)
    fits = len(row) == len(axes) and (size is None) != (scale is None)
    if not fits or not all(_counts(n, word) for n in row):
        raise ArgumentError(
            f"interpolate: expected size or scale_factor, above 0, for each of {len(axes)} spatial "
            f"axes, found size={size!r} and scale_factor={scale!r}",
            origin=user_origin(),
            remedy="write scale_factor=2",
        )
    _check_there(x, axes, size)
    if size is None:
        scales = [Fraction(s).limit_denominator(10**6) for s in row]
        return [(_scaled(x.type.shape[a], s), 1 / s) for a, s in zip(axes, scales, strict=True)]
    return [
        (int(n), Fraction(_known(x.type.shape[a]), int(n))) for a, n in zip(axes, row, strict=True)
    ]


def _check_there(x: Any, axes: tuple[int, ...], size: Any) -> None:
    """Refuses a size for images without places, of which no element could be taken."""
    if size is not None and 0 in [x.type.shape[axis] for axis in axes]:
        raise ArgumentError(
            f"interpolate: images of shape {shown_shape(x.type.shape)} have no places to take",
            origin=user_origin(),
            remedy="pass images with one place or more along each spatial axis",
        )


def _counts(n: Any, word: str) -> bool:
    """Whether a size, or a factor, is above 0."""
    return (
        n is not None and (whole(n) or (word == "scale_factor" and isinstance(n, float))) and n > 0
    )


def _scaled(extent: Dim, scale: Fraction) -> Dim:
    """The size of an axis after scaling; an axis of unknown size takes whole factors only."""
    if scale.denominator == 1:
        return extent * int(scale)
    return int(_known(extent) * scale)


def _known(extent: Dim) -> int:
    if isinstance(extent, int):
        return extent
    raise ArgumentError(
        f"interpolate: an axis of open size {extent} can only be resized by a whole scale_factor",
        origin=user_origin(),
        remedy="write scale_factor=2, or state the size of the axis",
    )


def _nearest(x: Any, axis: int, extent: Dim, step: Fraction) -> Any:
    """The element at the place, rounded down."""
    if step == 1:
        return x
    places = xp.floor_divide(below(extent) * step.numerator, step.denominator)
    return xp.take(x, places, axis, mode="clip")


def _between(x: Any, axis: int, extent: Dim, step: Fraction, align_corners: bool) -> Any:
    """Linear interpolation between the elements before and after each place."""
    if step == 1:
        return x
    old, places = x.type.shape[axis], xp.astype(below(extent), "f64")
    if align_corners:
        at = places * ((xp.astype(old, "f64") - 1) / xp.maximum(extent - 1, 1))
    else:
        at = xp.maximum((places + 0.5) * float(step) - 0.5, 0.0)
    low = xp.astype(xp.floor(at), "i64")
    share = xp.reshape(xp.astype(at - low, x.dtype), (-1, *(1,) * (x.ndim - 1 - axis)))
    first, second = (xp.take(x, i, axis, mode="clip") for i in (low, low + 1))
    return first + (second - first) * share
