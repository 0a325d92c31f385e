"""Reading at a place: ``x[i]``, ``x.at[i].get()``, ``take``, ``take_along_axis``.

Arrays along several axes are walked together, through one index into these axes laid end to
end, so that reading costs in proportion to the elements that are picked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.elementwise import refuse_out
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.operands import as_array, broadcast_shapes, fit, fresh, plain, spread, staged
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import named
from dlvm.dsl.words.views import inverse, permuted, reshaped
from dlvm.ir import I64, Dim, Value
from dlvm.ir.sizes.dims import product
from dlvm.ops import Gather, Iota, Slice

from .indexing import Location, locate

Positions = Sequence[tuple[int, Tensor]]
Shape = tuple[Dim, ...]


@public("_getitem", views=True)
def getitem(x: Any, index: Any) -> Any:
    """``x[index]``: a view for integers and slices, a value for an element or arrays.

    One element is a view too where the index has an ellipsis, as in NumPy.
    """
    x = staged(x)
    place = locate(x.type, index)
    at = x
    for step in place.steps:
        at = at.part(step)
    if place.arrays:
        return fresh(gather(at.read(), place))
    return fresh(at.read()) if place.single and not _has_ellipsis(index) else as_array(at)


def _has_ellipsis(index: Any) -> bool:
    return any(i is Ellipsis for i in (index if isinstance(index, tuple) else (index,)))  # pyright: ignore[reportUnknownVariableType]


@public("_get_at")
def get_at(x: Any, index: Any, mode: str = "error") -> Any:
    """The elements at the place, as a value."""
    x = staged(x)
    place = locate(x.type, index, mode)
    value = x.read()
    for step in place.steps:
        value = step.read(value)
    return fresh(gather(value, place, mode) if place.arrays else value)


# -- arrays as positions ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Walk:
    """Positions along one axis of a value that is laid out for them: permuted, then reshaped."""

    perm: tuple[int, ...]
    front: Shape
    flat: Shape
    axis: int
    index: Tensor
    mode: str

    def lay(self, x: Value) -> Value:
        """A value with the axes that are walked along as one."""
        return reshaped(permuted(x, self.perm), self.flat)

    def back(self, x: Value) -> Value:
        """The value as it was before it was laid out."""
        return permuted(reshaped(x, self.front), inverse(self.perm))

    def picked(self, position: int) -> tuple[int, ...]:
        """The order in which the axes of what is picked are shown: its own at a position."""
        count, rest = self.index.ndim, len(self.flat) - 1
        others = [*range(self.axis), *range(self.axis + count, rest + count)]
        own = range(self.axis, self.axis + count)
        return (*others[:position], *own, *others[position:])


def walk(shape: Shape, positions: Positions, mode: str) -> Walk:
    """The layout in which positions along some axes are read through one axis."""
    axes = [axis for axis, _ in positions]
    if len(axes) == 1:
        return Walk(tuple(range(len(shape))), shape, shape, axes[0], positions[0][1], mode)
    beside = axes == list(range(axes[0], axes[0] + len(axes)))
    first = axes[0] if beside else 0
    others = [a for a in range(len(shape)) if a not in axes]
    perm = (*others[:first], *axes, *others[first:])
    front = tuple(shape[a] for a in perm)
    sizes, after = front[first : first + len(axes)], front[first + len(axes) :]
    index = _end_to_end([i for _, i in positions], sizes, mode)
    safe = "drop" if mode == "drop" else "clip"
    return Walk(perm, front, (*front[:first], product(sizes), *after), first, index, safe)


def gather(x: Value, place: Location, mode: str = "error") -> Value:
    """The elements that arrays pick; known positions beside them are sliced first."""
    x, positions = _cut(x, place)
    w = walk(x.type.shape, positions, mode)
    found = Gather(w.lay(x), w.index.read(), w.axis, 0, w.mode)
    return permuted(found, w.picked(place.position))


def _cut(x: Value, place: Location) -> tuple[Value, Positions]:
    """A value without the axes of known positions, and the positions that are left."""
    known = {axis: at for axis, at in place.arrays if not isinstance(at, Tensor)}
    left = [a for a in range(x.type.rank) if a not in known]
    if known:
        starts = tuple(known.get(a, 0) for a in range(x.type.rank))
        sizes = tuple(1 if a in known else d for a, d in enumerate(x.type.shape))
        cut = Slice(x, starts, sizes, (1,) * x.type.rank)
        x = reshaped(cut, tuple(x.type.shape[a] for a in left))
    return x, [(left.index(a), at) for a, at in place.arrays if isinstance(at, Tensor)]


def _end_to_end(indices: Sequence[Tensor], sizes: Shape, mode: str) -> Tensor:
    """Row-major positions of indices made safe one axis at a time, as the mode says."""
    shape = broadcast_shapes([i.type.shape for i in indices])
    indices = [fresh(fit(i, I64, shape)) for i in indices]
    position, inside = indices[0] * 0, indices[0] == indices[0]
    for index, size in zip(indices, sizes, strict=True):
        safe = _resolved(index, size, mode)
        if mode == "drop":
            inside = inside & (safe >= 0) & (safe < size)
        position = position * size + safe
    beyond = fresh(fit(product(sizes), I64, shape))
    return named("where")(inside, position, beyond) if mode == "drop" else position


def _resolved(index: Tensor, size: Dim, mode: str) -> Tensor:
    """Positions along one axis: checked in the call, clipped, or left outside to be dropped."""
    where = named("where")
    if mode == "error":
        return fresh(Gather(Iota(size), index.read(), 0))
    wrapped = where(index < 0, index + size, index)
    if mode == "drop":
        return wrapped
    capped = where(wrapped >= size, fresh(fit(size - 1, I64, index.type.shape)), wrapped)
    return where(capped < 0, 0, capped)


# -- functions -------------------------------------------------------------------------------------


MODES = {"raise": "error"}


def modulo(index: Any, size: Any) -> Any:
    """Positions modulo a size, never negative."""
    return index - index // size * size


@public("take")
def take(
    x: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "error"
) -> Any:
    """Elements along an axis (of the flattened array without one) at integer positions.

    Mode ``"wrap"`` takes positions modulo the size; ``"clip"`` takes the first element for every
    negative one, as NumPy does, and the last beyond the end; the others are those of ``.at[...]``.
    """
    refuse_out(out)
    x = staged(x)
    if axis is None:
        x, axis = fresh(reshaped(x.read(), (x.type.size,))), 0
    index = staged(plain(indices))
    (axis,) = axes_of(x, axis)
    if mode == "wrap":
        index, mode = modulo(index, x.type.shape[axis]), "error"
    elif mode == "clip":
        index = named("maximum")(index, 0)
    return fresh(Gather(x.read(), index.read(), axis, 0, MODES.get(mode, mode)))


def aligned(x: Tensor, indices: Any, axis: int) -> tuple[tuple[int, ...], Value, Value]:
    """An array and positions along an axis, this axis last and the others stretched alike."""
    index = staged(indices)
    (axis,) = axes_of(x, axis)
    if index.ndim != x.ndim:
        raise ShapeError(f"expected positions with as many axes as {x.type}, found {index.type}")
    perm = (*(i for i in range(x.ndim) if i != axis), axis)
    moved, at = permuted(x.read(), perm), permuted(index.read(), perm)
    lead = broadcast_shapes([moved.type.shape[:-1], at.type.shape[:-1]])
    return (
        perm,
        spread(moved, (*lead, moved.type.shape[-1])),
        spread(at, (*lead, at.type.shape[-1])),
    )


@public("take_along_axis")
def take_along_axis(x: Any, indices: Any, axis: int | None = -1, mode: str = "error") -> Any:
    """``x`` at one position along an axis for each position along the others."""
    x = staged(x)
    if axis is None:
        x, axis = named("ravel")(x), 0
    perm, moved, index = aligned(x, indices, axis)
    lead = len(perm) - 1
    return fresh(permuted(Gather(moved, index, lead, lead, mode), inverse(perm)))
