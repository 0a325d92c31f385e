"""Sliding windows as an array of their own, and their elements back at the places they came from.

``Patches`` is what convolutions and pooling are products and reductions over. Its derivative adds
up, at each place, what the windows over that place hold: ``Unpatch`` finds the elements by an index
map, as ``Patches`` does, and a sum over the taps adds them.
"""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.ir import Dim, Op, TensorType, Value, rewrite
from dlvm.ir.sizes.dims import at_least, floordiv, maximum, mod
from dlvm.ir.sizes.positions import Index
from dlvm.ops.families import IndexMap, Read

from .movement import Diagonal, Permute, Reshape
from .sections import Slice
from .sums import Sum


def span(size: Dim, dilation: int) -> Dim:
    """How many places a window covers from its first tap to its last; none if it has no tap."""
    return maximum(0, (size - 1) * dilation + 1)


def positions(extent: Dim, size: Dim, step: int, dilation: int) -> Dim:
    """How many windows fit along an axis; a window of no tap fits before and behind each place."""
    return floordiv(extent - span(size, dilation), step) + 1


def _check(op: Op, x: TensorType, axes: Any, *others: Any) -> None:
    """Each axis once, in ascending order, and as much of everything else, none of it below 1."""
    if list(axes) != sorted(set(axes)) or any(not 0 <= a < x.rank for a in axes):
        raise ShapeError(f"{op.name}: axes {axes} do not fit {x}; ascending, each once")
    if any(len(numbers) != len(axes) for numbers in others):
        raise ShapeError(f"{op.name}: needs a size, a step and a dilation for each of axes {axes}")
    if any(n < 1 for numbers in others[1:] for n in numbers):
        raise ShapeError(f"{op.name}: expected steps and dilations of at least 1, found {others}")


class Patches(IndexMap):
    """The windows that slide along some axes: ``y[.., q, .., p] = x[.., q*step + p*dilation, ..]``.

    The positions ``q`` take the place of the axis and the taps ``p`` come last, one axis for each
    of ``axes`` in order. Every window lies inside. An axis is at most one step too short for a
    window, and gives none then.
    """

    name = "patches"
    x: Value
    axes: tuple[int, ...]
    sizes: tuple[Dim, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]

    def infer(self) -> TensorType:
        """The positions in place of each axis, then the taps."""
        x = self.x.type
        _check(self, x, self.axes, self.sizes, self.steps, self.dilations)
        shape = list(x.shape)
        numbers = zip(self.axes, self.sizes, self.steps, self.dilations, strict=True)
        for axis, size, step, dilation in numbers:
            extent = x.shape[axis]
            shape[axis] = positions(extent, size, step, dilation)
            if not at_least(size, 0) or not at_least(shape[axis], 0):
                raise ShapeError(
                    f"patches: {size} elements, {dilation} apart, do not fit axis {axis} of {x}",
                    sides=(size, extent),
                )
        return x.with_shape((*shape, *self.sizes))

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"axes": tuple(a + 1 for a in self.axes)}

    def reads(self, index: Index) -> tuple[Read, ...]:
        rank, found = self.x.type.rank, list(index[: self.x.type.rank])
        numbers = zip(self.axes, index[rank:], self.steps, self.dilations, strict=True)
        for axis, tap, step, dilation in numbers:
            found[axis] = found[axis] * step + tap * dilation
        return (Read(0, tuple(found)),)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        extents = tuple(self.x.shape[a] for a in self.axes)
        placed = Unpatch(dy[0], self.axes, extents, self.steps, self.dilations)
        return (Sum(placed, tuple(range(self.x.type.rank, placed.type.rank))),)


@rewrite(
    Patches,
    example=lambda x: Patches(x, (0, 1), (1, 1), (1, 2), (1, 1)),
    given=("n[5,6]",),
)
def patches_of_one_tap(op: Patches) -> Value | None:
    """Windows of one element are the elements at their positions."""
    if any(size != 1 for size in op.sizes):
        return None
    steps = [1] * op.x.type.rank
    for axis, step in zip(op.axes, op.steps, strict=True):
        steps[axis] = step
    places = op.shape[: len(steps)]
    return Reshape(Slice(op.x, (0,) * len(steps), places, tuple(steps)), op.shape)


def all_known(sizes: tuple[Dim, ...]) -> bool:
    """Whether no size is open."""
    return all(isinstance(n, int) for n in sizes)


class Unpatch(IndexMap):
    """The taps of windows at their places: ``y[.., q*step + p*dilation, .., p] = x[.., q, .., p]``.

    Elsewhere 0. Along each of ``axes`` the positions ``q`` become as many places as ``extents``
    says; the taps are the last axes, as in ``Patches``. A sum over the taps adds overlapping
    windows.
    """

    name = "unpatch"
    x: Value
    axes: tuple[int, ...]
    extents: tuple[Dim, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]

    def infer(self) -> TensorType:
        """The places in place of the positions, which must be those of the windows that fit."""
        x = self.x.type
        _check(self, x, self.axes, self.extents, self.steps, self.dilations)
        rank = x.rank - len(self.axes)
        if any(a >= rank for a in self.axes):
            raise ShapeError(f"unpatch: expected an axis of taps for each of {self.axes}, last")
        shape = list(x.shape)
        numbers = zip(self.axes, self.extents, self.steps, self.dilations, strict=True)
        for size, (axis, extent, step, dilation) in zip(x.shape[rank:], numbers, strict=True):
            fitting = positions(extent, size, step, dilation)
            if not at_least(extent, 0) or x.shape[axis] != fitting:
                raise ShapeError(
                    f"unpatch: axis {axis} of {x} does not hold the windows of {size} elements, "
                    f"{dilation} apart, at every {step} of {extent}",
                    sides=(x.shape[axis], fitting),
                )
            shape[axis] = extent
        return x.with_shape(tuple(shape))

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"axes": tuple(a + 1 for a in self.axes)}

    def reads(self, index: Index) -> tuple[Read, ...]:
        """The window that has its tap at a place, if one of the positions does."""
        found, conditions = list(index), list[Dim]()
        taps = index[self.type.rank - len(self.axes) :]
        for axis, tap, step, dilation in zip(
            self.axes, taps, self.steps, self.dilations, strict=True
        ):
            ahead = index[axis] - tap * dilation
            found[axis] = floordiv(ahead, step)
            conditions += (ahead, (self.x.shape[axis] - 1) * step - ahead, -mod(ahead, step))
        return (Read(0, tuple(found), tuple(conditions)),)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """The windows of each tap's own array: those of all arrays, where both taps are one."""
        sizes = self.x.shape[self.x.type.rank - len(self.axes) :]
        dx, first = dy[0], self.x.type.rank - len(self.axes)
        for i, axis in enumerate(self.axes):
            dx = Patches(dx, (axis,), (sizes[i],), (self.steps[i],), (self.dilations[i],))
            dx = _on_the_diagonal(dx, first + i)
        return (dx,)


def _on_the_diagonal(x: Value, axis: int) -> Value:
    """The elements where an axis and the last one have one index, along the former."""
    last = x.type.rank - 1
    others = [a for a in range(last) if a != axis]
    diagonal = Diagonal(Permute(x, (*others, axis, last)))
    order = [*range(axis), last - 1, *range(axis, last - 1)]
    return Permute(diagonal, tuple(order))
