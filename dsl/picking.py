"""Reading and writing at a place: ``x[i]``, ``x[i] = v``, ``x.at[i].set(v)``, ``take``.

Arrays along several axes are walked together: read axis by axis with batched gathers, written
through one index into the axes laid end to end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.errors import DTypeError, ShapeError
from dlvm.ir import I64, Dim, Value
from dlvm.ir.dims import product
from dlvm.ops import Gather, Iota, ScatterAdd, ScatterSet

from .arithmetic import where
from .eager import public
from .elementwise import refuse_out
from .indexing import Place, locate
from .names import PUBLIC, named
from .operands import (
    broadcast_shapes,
    element,
    fit,
    fresh,
    plain,
    shape_of,
    shown_shape,
    spread,
    staged,
)
from .reductions import axes_of
from .scopes import is_array
from .tensor import Tensor
from .views import inverse, permuted, reshaped


@public("_getitem")
def getitem(x: Any, index: Any) -> Any:
    """``x[index]``: a view for integers and slices, a value for an element or arrays."""
    x = staged(x)
    place = locate(x.type, index)
    at = x
    for step in place.steps:
        at = at.view(step)
    if place.arrays:
        return fresh(gather(at.read(), place))
    return fresh(at.read()) if place.single else at


@public("_setitem")
def setitem(x: Any, index: Any, new: Any) -> None:
    """``x[index] = new``, cast to the element type of ``x`` as NumPy does."""
    x.check_assignable()
    if _is_mask(x, index):
        x.assign(_masked(x, staged(index), plain(new)))
        return
    x.assign(placed(x, index, new, ScatterSet, "error"))


@public("_assign_in_place")
def assign_in_place(x: Tensor, new: Any) -> None:
    """``x += v`` and the like: the result must fit ``x`` without changing its kind."""
    if not np.can_cast(new.dtype, x.dtype, "same_kind"):
        raise DTypeError(
            f"the result {new.type} can't be stored in {x.type} in place",
            remedy="write x = x + v for a new array",
        )
    x.check_assignable()
    shape = broadcast_shapes([x.shape, new.shape])
    x.assign(fit(new, x.element, x.shape if shape == x.shape else shape))


def _is_mask(x: Tensor, index: Any) -> bool:
    if not (isinstance(index, Tensor) or is_array(index)):
        return False
    return bool(index.dtype == np.bool_) and index.ndim > 0


def _masked(x: Tensor, mask: Tensor, new: Any) -> Value:
    """``x`` with one value, or one slice, wherever a mask over its leading axes holds."""
    if mask.shape != x.shape[: mask.ndim]:
        raise ShapeError(f"the mask {mask.type} does not fit the leading axes of {x.type}")
    given, rest = _without_ones(shape_of(new), x.ndim - mask.ndim), x.shape[mask.ndim :]
    if len(given) > len(rest):
        raise ShapeError(
            f"x[mask] = v takes one value of shape {shown_shape(rest)} for all places, "
            f"found {shown_shape(shape_of(new))}",
            remedy="for a value of its own in each place: x[...] = dlvm.where(mask, v, x)",
        )
    broadcast_shapes([rest, given])
    padded: tuple[Dim, ...] = (*mask.shape, *(1,) * len(rest))
    spread_mask = fresh(spread(reshaped(mask.read(), padded), x.shape))
    value = reshaped(element(new, x.element), given)
    return where(spread_mask, fresh(spread(value, (*mask.shape, *rest))), x).read()


def _without_ones(shape: tuple[Dim, ...], rank: int) -> tuple[Dim, ...]:
    """A shape without the leading ones that are more than its rank should be."""
    while len(shape) > rank and shape[0] == 1:
        shape = shape[1:]
    return shape


def placed(x: Tensor, index: Any, new: Any, scatter: Any, mode: str) -> Value:
    """The value of ``x`` with ``new`` set or added at a place."""
    place = locate(x.type, index, mode)
    wholes = [x.read()]
    for step in place.steps:
        wholes.append(step.read(wholes[-1]))
    part = _changed(wholes[-1], place, plain(new), scatter, mode)
    for step, whole in zip(reversed(place.steps), reversed(wholes[:-1]), strict=True):
        part = step.write(whole, part)
    return part


def _changed(whole: Value, place: Place, new: Any, scatter: Any, mode: str) -> Value:
    if not place.arrays:
        part = fit(new, whole.dtype, _stretched(new, whole.shape))
        return whole + part if scatter is ScatterAdd else part
    if len(place.arrays) == 1:
        axis, index = place.arrays[0]
        shape = (*whole.shape[:axis], *index.shape, *whole.shape[axis + 1 :])
        updates = fit(new, whole.dtype, _stretched(new, shape))
        return scatter(whole, index.read(), updates, axis, 0, mode)
    return _scattered(whole, place, new, scatter, mode)


def _stretched(new: Any, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape itself, after checking that what is assigned stretches to it and not beyond."""
    given = _without_ones(shape_of(new), len(shape))
    if broadcast_shapes([shape, given]) != shape:
        raise ShapeError(
            f"a value of shape {shown_shape(shape_of(new))} does not fit a place of shape "
            f"{shown_shape(shape)}"
        )
    return shape


def _in_front(rank: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    return (*axes, *(i for i in range(rank) if i not in axes))


def _common(place: Place) -> tuple[tuple[int, ...], list[Tensor], tuple[Dim, ...]]:
    axes = tuple(axis for axis, _ in place.arrays)
    shape = broadcast_shapes([i.shape for _, i in place.arrays])
    indices = [fresh(fit(i, I64, shape)) for _, i in place.arrays]
    return axes, indices, shape


def gather(x: Value, place: Place, mode: str = "error") -> Value:
    """What arrays pick, one gather for each axis; axes already picked are walked together."""
    if len(place.arrays) == 1:
        axis, index = place.arrays[0]
        return Gather(x, index.read(), axis, 0, mode)
    axes, indices, shape = _common(place)
    rank = len(shape)
    x = permuted(x, _in_front(x.type.rank, axes))
    x = Gather(x, indices[0].read(), 0, 0, mode)
    for index in indices[1:]:
        x = Gather(x, index.read(), rank, rank, mode)
    before = tuple(range(rank, rank + place.position))
    after = tuple(range(rank + place.position, x.type.rank))
    return permuted(x, (*before, *range(rank), *after))


def _scattered(whole: Value, place: Place, new: Any, scatter: Any, mode: str) -> Value:
    """Write along several axes through one index into them laid end to end."""
    axes, indices, shape = _common(place)
    perm = _in_front(whole.type.rank, axes)
    front = permuted(whole, perm)
    sizes, rest = front.shape[: len(axes)], front.shape[len(axes) :]
    picked = (*rest[: place.position], *shape, *rest[place.position :])
    updates = fit(new, whole.dtype, _stretched(new, picked))
    order = [*range(place.position, place.position + len(shape))]
    updates = permuted(updates, _in_front(len(picked), tuple(order)))
    flat = reshaped(front, (product(sizes), *rest))
    safe = "clip" if mode == "clip" else "drop"
    out = scatter(flat, _end_to_end(indices, sizes, mode).read(), updates, 0, 0, safe)
    return permuted(reshaped(out, front.shape), inverse(perm))


def _end_to_end(indices: list[Tensor], sizes: tuple[Dim, ...], mode: str) -> Tensor:
    """Row-major positions of indices made safe one axis at a time, as the mode says."""
    position, inside = indices[0] * 0, indices[0] == indices[0]
    for index, size in zip(indices, sizes, strict=True):
        safe = resolved(index, size, mode)
        inside = inside & (safe >= 0) & (safe < size)
        position = position * size + safe
    beyond = fresh(fit(product(sizes), I64, position.shape))
    return where(inside, position, beyond) if mode == "drop" else position


def resolved(index: Tensor, size: Dim, mode: str) -> Tensor:
    """Positions along one axis: checked in the call, clipped, or left outside to be dropped."""
    if mode == "error":
        return fresh(Gather(Iota(size), index.read(), 0))
    wrapped = where(index < 0, index + size, index)
    if mode == "drop":
        return wrapped
    capped = where(wrapped >= size, fresh(fit(size - 1, I64, index.shape)), wrapped)
    return where(capped < 0, 0, capped)


class At:
    """``x.at[i]``, with which a changed copy of ``x`` is made: ``.set(v)``, ``.add(v)``."""

    def __init__(self, x: Any, index: Any = None) -> None:
        self._x = x
        self._index = index

    def __getitem__(self, index: Any) -> At:
        return At(self._x, index)

    def set(self, new: Any, mode: str = "error") -> Any:
        """A copy of ``x`` with ``new`` at the place."""
        return named("_set_at")(self._x, self._index, new, mode)

    def add(self, new: Any, mode: str = "error") -> Any:
        """A copy of ``x`` with ``new`` added at the place; repeated indices add up."""
        return named("_add_at")(self._x, self._index, new, mode)

    def get(self, mode: str = "error") -> Any:
        """What stands at the place."""
        return named("_get_at")(self._x, self._index, mode)


PUBLIC["at"] = At


@public("_set_at")
def set_at(x: Any, index: Any, new: Any, mode: str = "error") -> Any:
    """A copy of ``x`` with ``new`` at the place."""
    return fresh(placed(staged(x), index, new, ScatterSet, mode))


@public("_add_at")
def add_at(x: Any, index: Any, new: Any, mode: str = "error") -> Any:
    """A copy of ``x`` with ``new`` added at the place."""
    return fresh(placed(staged(x), index, new, ScatterAdd, mode))


@public("_get_at")
def get_at(x: Any, index: Any, mode: str = "error") -> Any:
    """What stands at the place, as a value."""
    x = staged(x)
    place = locate(x.type, index, mode)
    value = x.read()
    for step in place.steps:
        value = step.read(value)
    return fresh(gather(value, place, mode) if place.arrays else value)


@public("take")
def take(
    x: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "error"
) -> Any:
    """Elements along an axis (of the flattened array without one) at integer positions."""
    refuse_out(out)
    x = staged(x)
    if axis is None:
        x, axis = fresh(reshaped(x.read(), (x.size,))), 0
    index = staged(plain(indices))
    (axis,) = axes_of(x, axis)
    return fresh(Gather(x.read(), index.read(), axis, 0, mode))


@public("take_along_axis")
def take_along_axis(x: Any, indices: Any, axis: int = -1, mode: str = "error") -> Any:
    """``x`` at one position along an axis for each position along the others."""
    x, indices = staged(x), staged(indices)
    (axis,) = axes_of(x, axis)
    perm = (*(i for i in range(x.ndim) if i != axis), axis)
    lead = len(perm) - 1
    moved, index = permuted(x.read(), perm), permuted(indices.read(), perm)
    return fresh(permuted(Gather(moved, index, lead, lead, mode), inverse(perm)))
