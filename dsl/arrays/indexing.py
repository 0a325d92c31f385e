"""Indices: integers, slices, new axes, ellipsis, arrays and masks.

An index is read into the basic part, a chain of view steps, and the arrays, which pick
positions along their axes. As in NumPy the basic part shares elements with the array; an
element and what arrays pick are values. Integers are checked while tracing where sizes are
known and in the call where they are not. A mask whose elements are known while tracing is the
positions where it holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np

from dlvm.base.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError, TraceError
from dlvm.dsl.trace.mistakes import of_unknown_size
from dlvm.dsl.trace.operands import array_of, shape_of, staged
from dlvm.dsl.trace.scopes import is_array, type_of, user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.views import Block, Picked, Step
from dlvm.ir import I64, Dim, Expr, TensorType, literal
from dlvm.ir.sizes.dims import at_least, floordiv, maximum, minimum
from dlvm.ir.sizes.equations import unequal
from dlvm.ops import Constant
from dlvm.ops.arrays.indexing import MODES, out_of_range


@dataclass(frozen=True, slots=True)
class Location:
    """A place in an array: view steps, then positions with the axes that they run along.

    Positions are arrays, or known integers that stand beside arrays. Of the other axes,
    ``position`` come before what is picked. ``rank`` is what the steps show.
    """

    steps: tuple[Step, ...]
    arrays: tuple[tuple[int, Tensor | Dim], ...]
    position: int
    rank: int

    @property
    def single(self) -> bool:
        """Whether the place is a single element."""
        return not self.rank and not self.arrays


@dataclass(slots=True)
class _Axes:
    """The basic part of an index, read axis by axis."""

    starts: list[Dim]
    sizes: list[Dim]
    steps: list[int]
    shape: list[Dim]
    unchecked: list[tuple[int, int]]
    arrays: list[tuple[int, int, Any]]


def locate(t: TensorType, index: Any, mode: str = "error") -> Location:
    """Read an index into an array of this type; only mode ``error`` minds known positions."""
    if mode not in MODES:
        raise ArgumentError(f"mode={mode!r}: expected one of {', '.join(map(repr, MODES))}")
    items = expand(t, index)
    mixed = any(isinstance(item, Tensor) or is_array(item) for item in items)
    axes = _Axes([], [], [], [], [], [])
    for at, item in enumerate(items):
        if item is None:
            axes.shape.append(1)
        elif item is not Ellipsis:
            _axis(t, axes, at, item, mixed, mode)
    block = Block(tuple(axes.starts), tuple(axes.sizes), tuple(axes.steps), tuple(axes.shape))
    trivial = block.covers(t) and block.shape == t.shape
    steps: list[Step] = [] if trivial else [block]
    for axis, i in reversed(axes.unchecked):
        steps.append(Picked(Constant(literal(i, I64)), axis))
    arrays = tuple(
        (axis, a if isinstance(a, int | Expr) else _integers(a)) for _, axis, a in axes.arrays
    )
    spots = [at for at, _, _ in axes.arrays]
    together = spots == list(range(spots[0], spots[0] + len(spots))) if spots else True
    position = arrays[0][0] if arrays and together else 0
    return Location(tuple(steps), arrays, position, len(axes.shape) - len(axes.unchecked))


def expand(t: TensorType, index: Any) -> list[Any]:
    """Expands an index to one item for each axis and new axis; the ellipsis becomes full slices.

    One that stands for no axis stays, as it keeps the arrays around it apart.
    """
    items = items_of(index)
    taken = sum(map(takes, items))
    if taken > t.rank:
        raise IndexOutOfRange(
            f"{taken} indices for {t}, which has {t.rank} axes",
            remedy=f"leave out {taken - t.rank} of them, or add axes with None",
        )
    dots = [n for n, i in enumerate(items) if i is Ellipsis]
    if len(dots) > 1:
        raise ShapeError("an index can have only one ellipsis ('...')")
    fill: list[Any] = [slice(None)] * (t.rank - taken) or [Ellipsis]
    at = dots[0] if dots else len(items)
    items = [*items[:at], *fill, *items[at + 1 :]]
    found: list[Any] = []
    axis = 0
    for item in items:
        found += _positions(t, axis, item) if is_mask(item) else [item]
        axis += takes(item)
    return found


def items_of(index: Any) -> list[Any]:
    """The items of an index, one by one; lists become arrays."""
    items: list[Any] = list(index) if isinstance(index, tuple) else [index]  # pyright: ignore[reportUnknownArgumentType]
    return [
        _array_of(i) if isinstance(i, list | tuple | range | bool | np.bool_) else i for i in items
    ]


def _array_of(item: Any) -> Any:
    found = array_of(item)
    return found if found.size else found.astype(np.int64)


def is_mask(item: Any) -> bool:
    """Whether an item is a mask."""
    array = isinstance(item, Tensor) or is_array(item)
    return array and item.dtype == np.bool_


def takes(item: Any) -> int:
    """The number of axes that an item indexes."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if is_mask(item) else 1


def _positions(t: TensorType, axis: int, mask: Any) -> list[Any]:
    """The indices of the places where a known mask holds, one array for each of its axes."""
    if isinstance(mask, Tensor):
        raise of_unknown_size(t, mask.type)
    check_mask(mask, t, axis)
    return list(np.nonzero(mask)) if mask.ndim else [_one_or_none(bool(mask))]


def _one_or_none(holds: bool) -> None:
    """A new axis of size 1 for the index True; for False it would have size 0."""
    if not holds:
        raise ShapeError(
            "x[False] has no elements",
            remedy="write dlvm.zeros((0, *x.shape), dtype=x.dtype)",
        )


def check_mask(mask: Any, t: TensorType, axis: int) -> None:
    """Demand that a mask has the sizes of the axes that it stands for, from ``axis`` on."""
    if shape_of(mask) != t.shape[axis : axis + mask.ndim]:
        named = mask.type if isinstance(mask, Tensor) else type_of(mask)
        said = f"the mask {named} does not fit the axes of {t} from {axis} on"
        raise ShapeError(said, sides=unequal(named.shape, t.shape[axis : axis + mask.ndim]))


def _is_slice(item: Any) -> TypeGuard[slice[Any, Any, Any]]:
    return isinstance(item, slice)


def _axis(t: TensorType, axes: _Axes, at: int, item: Any, mixed: bool, mode: str) -> None:
    axis = len(axes.starts)
    extent = t.shape[axis]
    start: Dim = 0
    size, step = extent, 1
    if _is_slice(item):
        start, size, step = window_of(item, extent)
        axes.shape.append(size)
    elif isinstance(item, Integral):
        i = _checked(int(item), extent, mode)
        if mixed or (i is None and mode != "error"):
            known = np.asarray(int(item)) if i is None else i
            axes.arrays.append((at, len(axes.shape), known))
            axes.shape.append(extent)
        elif i is None:
            axes.unchecked.append((len(axes.shape), int(item)))
            axes.shape.append(extent)
        else:
            start, size = i, 1
    else:
        _check_array(item, extent, mode)
        axes.arrays.append((at, len(axes.shape), item))
        axes.shape.append(extent)
    axes.starts.append(start)
    axes.sizes.append(size)
    axes.steps.append(step)


def _checked(i: int, extent: Dim, mode: str) -> Dim | None:
    """The position, if it is inside whatever the symbols; None if only the call can tell."""
    if mode == "error" and isinstance(extent, int) and not -extent <= i < extent:
        raise out_of_bounds(i, extent)
    position = extent + i if i < 0 else i
    inside = at_least(position, 0) and at_least(extent - 1, position)
    return position if inside else None


def out_of_bounds(i: int, extent: int) -> IndexOutOfRange:
    """The error for an index that is known while tracing."""
    remedy = f"valid are {-extent} to {extent - 1}" if extent else "the axis is empty"
    return IndexOutOfRange(out_of_range(i, extent).message, remedy=remedy)


def _check_array(item: Any, extent: Dim, mode: str) -> None:
    if isinstance(item, Expr):
        raise ShapeError(
            f"the size {item} is not a static index",
            remedy="make it a staged one: x[dlvm.asarray(n)]",
        )
    if not (isinstance(item, Tensor) or is_array(item)):
        raise DTypeError(
            f"expected an index, found {item!r:.40} of type {type(item).__name__}",
            remedy="index with integers, slices, None, ... or integer arrays, such as int(i)",
        )
    if mode != "error" or not isinstance(extent, int):
        return
    if is_array(item) and item.dtype.kind in "iu":
        bad = item[(item < -extent) | (item >= extent)]
        if bad.size:
            raise out_of_bounds(int(bad.reshape(-1)[0]), extent)


def _integers(item: Any) -> Tensor:
    index = staged(item)
    if not index.element.is_integer:
        raise DTypeError(
            f"expected integer indices, found {index.type}",
            remedy="convert them with dlvm.astype(i, np.int64)",
        )
    return index


# -- slices --------------------------------------------------------------------------------------


def window_of(s: slice[Any, Any, Any], extent: Dim) -> tuple[Dim, Dim, int]:
    """Start, size and step of a slice, clipped to the axis as Python does."""
    step = 1 if s.step is None else s.step
    for bound in (s.start, s.stop, step):
        _check_bound(bound)
    if step == 0:
        raise ShapeError("the step of a slice can't be zero")
    if isinstance(extent, int) and not any(isinstance(b, Expr) for b in (s.start, s.stop)):
        start, stop, step = s.indices(extent)
        return start, len(range(start, stop, step)), step
    if step < 0:
        return _backwards(s, extent, step)
    stop = extent if s.stop is None else minimum(_from_start(s.stop, extent), extent)
    size = maximum(stop if s.start is None else _room(s.start, stop, extent), 0)
    return stop - size, floordiv(size + step - 1, step), step


def _backwards(s: slice[Any, Any, Any], extent: Dim, step: int) -> tuple[Dim, Dim, int]:
    """A negative step: from the last element of the window ``stop + 1 .. start``."""
    last: Dim = extent - 1 if s.start is None else _bound_below(s.start, extent)
    first: Dim = 0 if s.stop is None else _bound_below(s.stop, extent) + 1
    size = maximum(last + 1 - first, 0)
    return last, floordiv(size - step - 1, -step), step


def _bound_below(k: Dim, extent: Dim) -> Dim:
    if at_least(k, 0):
        return minimum(k, extent - 1)
    return minimum(maximum(_wrapped(k, extent), -1), extent - 1)


def _check_bound(bound: Any) -> None:
    if isinstance(bound, Tensor):
        raise TraceError(
            f"a slice bound is {bound.describe()}, so the size is not known while tracing",
            origin=user_origin(),
            remedy="take n elements from i with dlvm.take(x, i + dlvm.arange(n))",
        )
    if bound is not None and not isinstance(bound, Integral | Expr):
        raise DTypeError(f"expected an integer in a slice, found {bound!r:.40}")


def _from_start(k: Dim, extent: Dim) -> Dim:
    """The position of a bound: a negative one counts from the end, and is at least 0."""
    if at_least(k, 0):
        return k
    if at_least(-k, extent) or at_least(k + 2, extent):  # from the end is before the start as well
        return maximum(k, 0)
    return maximum(_wrapped(k, extent), 0)


def _room(k: Dim, stop: Dim, extent: Dim) -> Dim:
    """The number of positions between a bound and ``stop``."""
    if isinstance(k, int) and k < 0:
        return minimum(stop, stop - extent - k)
    return stop - _from_start(k, extent)


def _wrapped(k: Dim, extent: Dim) -> Dim:
    """``k``, and ``extent + k`` where it is below 0, which only the call may know."""
    return k + extent * minimum(maximum(-k, 0), 1)
