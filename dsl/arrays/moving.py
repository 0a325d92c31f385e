"""The same elements in other places: turned over, shifted, repeated, padded around."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, ShapeError, TraceError
from dlvm.dsl.elements.arithmetic import where
from dlvm.dsl.elements.eager import like, public
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.kinds import shown
from dlvm.dsl.trace.operands import element, fresh, plain, shape_of, spread, staged
from dlvm.dsl.trace.scopes import is_sequence, user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.views import reshaped
from dlvm.ir import BOOL, I64, Dim, Expr, literal, splat
from dlvm.ir.sizes.dims import at_least, floordiv, maximum, minimum, mod
from dlvm.ops import Broadcast, Constant, Gather, Iota, Pad, Slice

from .joining import concat
from .picking import getitem, modulo
from .shapes import ravel, reshape, sizes, swapaxes

# -- turning over, shifting ------------------------------------------------------------------------


@public("flip", views=True)
def flip(x: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The elements in reverse order along the axes; along all without ``axis``."""
    x = staged(x)
    axes = axes_of(x, axis)
    backwards, forwards = slice(None, None, -1), slice(None)
    return getitem(x, tuple(backwards if a in axes else forwards for a in range(x.ndim)))


@public("fftshift")
def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """The two halves of each axis exchanged, so that frequency 0 stands in the middle."""
    return _half_turned(staged(x), axes, lambda size: floordiv(size, 2))


@public("ifftshift")
def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """The inverse of ``fftshift``, which differs from it for axes of odd size."""
    return _half_turned(staged(x), axes, lambda size: -floordiv(size, 2))


def _half_turned(x: Tensor, axes: Any, shift: Callable[[Dim], Dim]) -> Tensor:
    for axis in axes_of(x, axes):
        x = roll(x, shift(x.type.shape[axis]), axis)
    return x


@public("flipud", views=True)
def flipud(x: Any) -> Any:
    """The rows in reverse order."""
    return flip(x, 0)


@public("fliplr", views=True)
def fliplr(x: Any) -> Any:
    """The columns in reverse order."""
    return flip(x, 1)


@public("rot90", views=True)
def rot90(x: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    """The plane of two axes turned by ``k`` quarters from the first axis towards the second."""
    x = staged(x)
    if x.ndim < 2 or len(axes) != 2:
        raise ShapeError(
            f"rot90: expected two axes of an array of two or more, found {axes} of {x.type}",
            remedy="give an array of two or more axes, and axes= as a pair: (0, 1)",
        )
    axes_of(x, axes)
    first, second = (a % x.ndim for a in axes)
    match k % 4:
        case 0:
            return x
        case 1:
            return swapaxes(flip(x, second), first, second)
        case 2:
            return flip(x, (first, second))
        case _:
            return flip(swapaxes(x, first, second), second)


@public("roll")
def roll(x: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Elements shifted along axes; what leaves at one end comes in at the other.

    A shift may be a staged integer. Without an axis the array is taken as flat.
    """
    x = staged(x)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.type.shape)
    axes = tuple(axis) if is_sequence(axis) else (axis,)
    shifts = tuple(shift) if is_sequence(shift) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    found = x
    for a, by in zip(axes, shifts, strict=True):
        found = _rolled(found, by, axes_of(x, a)[0])
    return like(found, x)


def _rolled(x: Tensor, shift: Any, axis: int) -> Tensor:
    size = x.type.shape[axis]
    if isinstance(shift, int):
        # what holds of a rest is not known of one by an open size, which both bounds say
        cut = 0 if size == 0 else minimum(size, maximum(0, mod(-shift, size)))
        return concat([_cut(x, axis, cut, size - cut), _cut(x, axis, 0, cut)], axis)
    by = staged(shift)
    if by.ndim or not by.element.is_integer:
        raise ShapeError(f"roll: expected one integer shift for each axis, found {by.type}")
    return _taken(x, axis, modulo(fresh(Iota(size)) - by, size))


def _cut(x: Tensor, axis: int, start: Dim, size: Dim) -> Tensor:
    """Neighbours along an axis."""
    starts = tuple(start if a == axis else 0 for a in range(x.ndim))
    sizes = (*x.type.shape[:axis], size, *x.type.shape[axis + 1 :])
    return fresh(Slice(x.read(), starts, sizes, (1,) * x.ndim))


def _taken(x: Tensor, axis: int, positions: Tensor) -> Tensor:
    """Elements at positions that are inside."""
    return fresh(Gather(x.read(), positions.read(), axis, 0, "clip"))


# -- repeating -------------------------------------------------------------------------------------


@public("repeat")
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element (along the axis) several times; how often is known while tracing."""
    if isinstance(repeats, Tensor):
        raise TraceError(
            "repeats is staged, so the size of the result is not known while tracing",
            origin=user_origin(),
            remedy="take elements at positions of a known number: dlvm.take(x, positions)",
        )
    x = staged(x)
    if axis is None:
        x, axis = ravel(x), 0
    (axis,) = axes_of(x, axis)
    if isinstance(repeats, int | Expr) or np.size(repeats) == 1:
        times: Dim = repeats if isinstance(repeats, int | Expr) else int(np.ravel(repeats)[0])
        return _each_repeated(x, times, axis)
    if np.shape(repeats) != x.type.shape[axis : axis + 1]:
        raise ShapeError(f"repeat: {np.shape(repeats)} counts for axis {axis} of {x.type}")
    positions = np.repeat(np.arange(len(repeats)), np.asarray(repeats))
    return _taken(x, axis, fresh(Constant(literal(positions, I64))))


def _each_repeated(x: Tensor, times: Dim, axis: int) -> Tensor:
    if not at_least(times, 0):
        raise ShapeError(f"repeat: expected a count of at least 0, found {times}")
    shape = x.type.shape
    wide = (*shape[: axis + 1], times, *shape[axis + 1 :])
    kept = tuple(i for i in range(len(wide)) if i != axis + 1)
    full = Broadcast(x.read(), wide, kept)
    return fresh(reshaped(full, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :])))


@public("tile")
def tile(x: Any, reps: Any) -> Any:
    """The whole array several times along each axis."""
    x, times = staged(x), sizes(reps)
    rank = max(x.ndim, len(times))
    times = (*(1,) * (rank - len(times)), *times)
    shape = (*(1,) * (rank - x.ndim), *x.type.shape)
    pairs = tuple(n for pair in zip(times, shape, strict=True) for n in pair)
    inner = reshaped(x.read(), shape)
    full = Broadcast(inner, pairs, tuple(range(1, 2 * rank, 2)))
    return fresh(reshaped(full, tuple(t * d for t, d in zip(times, shape, strict=True))))


# -- padding ---------------------------------------------------------------------------------------


def _edge(i: Tensor, size: Dim) -> Tensor:
    """The nearest position."""
    return where(i < 0, 0, where(i >= size, size - 1, i))


def _reflect(i: Tensor, size: Dim) -> Tensor:
    """Back and forth, the ends once."""
    period = 2 * size - 2
    j = modulo(i, period)
    return where(j < size, j, period - j)


def _symmetric(i: Tensor, size: Dim) -> Tensor:
    """Back and forth, the ends twice."""
    j = modulo(i, 2 * size)
    return where(j < size, j, 2 * size - 1 - j)


PADDING: Mapping[str, Callable[[Tensor, Dim], Tensor]] = {
    "edge": _edge,
    "reflect": _reflect,
    "symmetric": _symmetric,
    "wrap": modulo,
}
"""Which position of an axis stands at each position outside of it."""


@public("pad")
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """The array with more elements before and behind along each axis.

    ``pad_width`` is one number, ``(before, after)`` for all axes, or such a pair for each axis;
    ``mode`` one of ``constant``, ``edge``, ``reflect``, ``symmetric``, ``wrap``, as in NumPy.
    """
    x = staged(x)
    widths = [(a, b) for a, b in _pairs(pad_width, x.ndim, "pad_width")]
    if not all(at_least(n, 0) for pair in widths for n in pair):
        raise ShapeError(f"pad: widths of at least 0 are expected, found {pad_width}")
    if mode == "constant":
        return _filled(x, widths, constant_values)
    if mode not in PADDING:
        known = ", ".join(map(repr, ("constant", *PADDING)))
        raise ArgumentError(f"pad: mode={mode!r}: expected one of {known}")
    for axis, (before, after) in enumerate(widths):
        if (before, after) != (0, 0):
            size = x.type.shape[axis]
            if size == 0:
                raise ShapeError(f"pad: axis {axis} of {x.type} has no element to repeat")
            positions = fresh(Iota(before + size + after)) - before
            x = _taken(x, axis, PADDING[mode](positions, size))
    return x


def _pairs(given: Any, rank: int, name: str) -> list[tuple[Any, Any]]:
    """One thing, a pair for all axes, or a pair (or one thing) for each axis."""
    if not is_sequence(given) and not isinstance(given, np.ndarray):
        return [(given, given)] * rank
    items = list(given.tolist() if isinstance(given, np.ndarray) else given)
    if not any(map(is_sequence, items)):
        one = items * 2 if len(items) == 1 else items
        if len(one) == 2:
            return [(one[0], one[1])] * rank
    rows = [[*i] * (3 - len(i)) if is_sequence(i) else [i, i] for i in items]
    rows = rows * rank if len(rows) == 1 else rows
    if len(rows) != rank or any(len(r) != 2 for r in rows):
        raise ShapeError(f"pad: {name} {shown(given)} is no pair for each of {rank} axes")
    return [(a, b) for a, b in rows]


def _filled(x: Tensor, widths: list[tuple[Dim, Dim]], values: Any) -> Tensor:
    low, high = (tuple(pair[i] for pair in widths) for i in (0, 1))
    if not is_sequence(values) and not shape_of(plain(values)):
        padded = fresh(Pad(x.read(), low, high))
        if isinstance(values, int | float) and values == 0:
            return padded
        inside = fresh(Pad(splat(True, x.type.with_dtype(BOOL)), low, high))
        return where(inside, padded, fresh(element(plain(values), x.element)))
    fills = _pairs(values, x.ndim, "constant_values")
    for axis, ((before, after), (left, right)) in enumerate(zip(widths, fills, strict=True)):
        ends = [_block(x, axis, n, value) for n, value in ((before, left), (after, right))]
        x = concat([ends[0], x, ends[1]], axis)
    return x


def _block(x: Tensor, axis: int, size: Dim, value: Any) -> Tensor:
    """One value in the shape of an array, but for its size along an axis."""
    shape = (*x.type.shape[:axis], size, *x.type.shape[axis + 1 :])
    return fresh(spread(element(plain(value), x.element), shape))
