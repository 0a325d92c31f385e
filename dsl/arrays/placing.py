"""Writing at a place: ``x[i] = v``, ``x += v``, ``x.at[i].set(v)`` and the other ``at`` methods.

A mask whose places are not known while tracing selects: it takes one value for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, DTypeError, ShapeError, TraceError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import shown
from dlvm.dsl.trace.operands import (
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
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import PUBLIC, named
from dlvm.dsl.words.views import inverse, permuted, reshaped
from dlvm.ir import Dim, DType, Value
from dlvm.ir.sizes.equations import unequal
from dlvm.ops.arrays.scattering import SCATTERS, ScatterSet

from .indexing import Location, locate
from .masking import Selection, selection
from .picking import aligned, walk

Law = tuple[Callable[..., Value], str]
ONCE = {"set": "", "add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}
LAWS: dict[str, Law] = {how: (cls, ONCE[how]) for how, cls in SCATTERS.items()}
"""How old and new are combined where places may repeat, and where each is named once."""


@public("_setitem")
def setitem(x: Any, index: Any, new: Any) -> None:
    """``x[index] = new``, cast to the element type of ``x`` as NumPy does."""
    x.check_assignable()
    x.assign(placed(x, index, new, LAWS["set"], "error"))


@public("_assign_in_place")
def assign_in_place(x: Tensor, new: Any) -> None:
    """``x += v`` and the like: the result must fit ``x`` without changing its kind."""
    if not np.can_cast(new.dtype, x.dtype, "same_kind"):
        raise DTypeError(
            f"the result {new.type} can't be stored in {x.type} in place",
            remedy="write x = x + v for a new array",
        )
    x.check_assignable()
    if broadcast_shapes([x.type.shape, new.type.shape]) != x.type.shape:
        raise ShapeError(
            f"the result {new.type} can't be stored in {x.type} in place",
            remedy="write x = x + v for a new array",
        )
    x.assign(fit(new, x.element, x.type.shape))


class At:
    """``x.at[i]``, with which a changed copy of ``x`` is made: ``.set(v)``, ``.add(v)`` ...

    Repeated places are served in order. ``mode`` says what becomes of places outside:
    ``"error"``, ``"clip"`` to the nearest, ``"drop"``.
    """

    def __init__(self, x: Any, index: Any = None) -> None:
        self._x = x
        self._index = index

    def __getitem__(self, index: Any) -> At:
        return At(self._x, index)

    @facing_users
    def __setitem__(self, index: Any, new: Any) -> None:
        raise ArgumentError(
            "x.at[i] can't be assigned into: it makes a changed copy",
            origin=user_origin(),
            remedy="write x = x.at[i].set(v)",
        )

    @facing_users
    def set(self, new: Any, mode: str = "error") -> Any:
        """A copy of ``x`` with ``new`` at the place."""
        return named("_change_at")(self._x, self._index, new, mode, "set")

    @facing_users
    def add(self, new: Any, mode: str = "error") -> Any:
        """A copy of ``x`` with ``new`` added at the place; repeated indices add up."""
        return named("_change_at")(self._x, self._index, new, mode, "add")

    @facing_users
    def mul(self, new: Any, mode: str = "error") -> Any:
        """A copy of ``x`` with the elements at the place multiplied by ``new``."""
        return named("_change_at")(self._x, self._index, new, mode, "mul")

    multiply = mul

    @facing_users
    def min(self, new: Any, mode: str = "error") -> Any:
        """A copy of ``x`` with the minimum of ``new`` and the element at each place."""
        return named("_change_at")(self._x, self._index, new, mode, "min")

    @facing_users
    def max(self, new: Any, mode: str = "error") -> Any:
        """A copy of ``x`` with the maximum of ``new`` and the element at each place."""
        return named("_change_at")(self._x, self._index, new, mode, "max")

    @facing_users
    def get(self, mode: str = "error") -> Any:
        """The elements at the place."""
        return named("_get_at")(self._x, self._index, mode)


PUBLIC["at"] = At


@public("_change_at")
def change_at(x: Any, index: Any, new: Any, mode: str, law: str) -> Any:
    """A copy of ``x`` with old and new combined at the place."""
    return fresh(placed(staged(x), index, new, LAWS[law], mode))


@public("put_along_axis")
def put_along_axis(x: Any, indices: Any, values: Any, axis: int) -> None:
    """Assign at one position along an axis for each position along the others."""
    if not isinstance(x, Tensor):
        raise TraceError(
            f"put_along_axis: expected a staged array, found {shown(x)}",
            origin=user_origin(),
            remedy="write x = dlvm.copy(x) before, in a staged function; np.put_along_axis changes "
            "a NumPy array outside of one",
        )
    x.check_assignable()
    perm, moved, index = aligned(x, indices, axis)
    if moved.type.shape != tuple(x.type.shape[i] for i in perm):
        said = f"put_along_axis: positions {shown_shape(shape_of(indices))} do not fit {x.type}"
        raise ShapeError(said, sides=unequal(shape_of(indices), x.type.shape))
    lead = len(perm) - 1
    shape = tuple(index.type.shape[i] for i in inverse(perm))
    updates = permuted(_stretched(plain(values), x.element, shape), perm)
    x.assign(permuted(ScatterSet(moved, index, updates, lead, lead), inverse(perm)))


def placed(x: Tensor, index: Any, new: Any, law: Law, mode: str) -> Value:
    """The value of ``x`` with old and new combined at a place."""
    new = plain(new)
    chosen = selection(x.type, index)
    if chosen is not None:
        place = locate(x.type, chosen.index, mode)
        if chosen.takes(new, place.rank):
            return _through(x, place, lambda part: _selected(part, chosen, new, law))
    place = locate(x.type, index, mode)
    return _through(x, place, lambda part: _changed(part, place, new, law, mode))


def _selected(part: Value, chosen: Selection, new: Any, law: Law) -> Value:
    return chosen.write(part, _once(part, chosen.spread(new, part), law))


def _through(x: Tensor, place: Location, change: Callable[[Value], Value]) -> Value:
    """The whole, where the part that the basic steps lead to is changed."""
    wholes = [x.read()]
    for step in place.steps:
        wholes.append(step.read(wholes[-1]))
    part = change(wholes[-1])
    for step, whole in zip(reversed(place.steps), reversed(wholes[:-1]), strict=True):
        part = step.write(whole, part)
    return part


def _once(old: Value, new: Value, law: Law) -> Value:
    """Old and new combined where each place is named once."""
    if not law[1]:
        return new
    return element(named(law[1])(fresh(old), fresh(new)), old.dtype)


def _changed(whole: Value, place: Location, new: Any, law: Law, mode: str) -> Value:
    if not place.arrays:
        return _once(whole, _stretched(new, whole.dtype, whole.shape), law)
    positions = [(a, at if isinstance(at, Tensor) else staged(at)) for a, at in place.arrays]
    w = walk(whole.shape, positions, mode)
    order = w.picked(place.position)
    inner = (*w.flat[: w.axis], *w.index.type.shape, *w.flat[w.axis + 1 :])
    shape = tuple(inner[a] for a in order)
    updates = permuted(_stretched(new, whole.dtype, shape), inverse(order))
    return w.back(law[0](w.lay(whole), w.index.read(), updates, w.axis, 0, w.mode))


def _stretched(new: Any, dtype: DType, shape: tuple[Dim, ...]) -> Value:
    """What is assigned, stretched to the shape of a place and not beyond.

    Leading axes of size 1 that are more than those of the place are dropped, as NumPy does.
    """
    given = _without_ones(shape_of(new), len(shape))
    if broadcast_shapes([shape, given]) != shape:
        raise ShapeError(
            f"a value of shape {shown_shape(shape_of(new))} does not fit a place of shape "
            f"{shown_shape(shape)}",
            remedy="assign to a place of its shape, or reduce or reshape the value first",
            sides=unequal(given, shape),
        )
    return spread(reshaped(element(new, dtype), given), shape)


def _without_ones(shape: tuple[Dim, ...], rank: int) -> tuple[Dim, ...]:
    """A shape without the leading ones that are more than its rank should be."""
    while len(shape) > rank and shape[0] == 1:
        shape = shape[1:]
    return shape
