"""The steps from an array to a view of it: reading a part, and the whole with a part replaced.

A step also says which strides the view has, by which ``layout`` knows what NumPy would share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from dlvm.ir import Dim, TensorType, Value
from dlvm.ops import (
    Broadcast,
    Diagonal,
    Gather,
    Patches,
    Permute,
    Reshape,
    ScatterSet,
    Slice,
    Update,
)

from .layout import Moves, Strides, among_ones, regrouped


def reshaped(value: Value, shape: tuple[Dim, ...]) -> Value:
    """A value in another shape; the value itself if it has that shape."""
    return value if value.shape == shape else Reshape(value, shape)


def permuted(value: Value, perm: tuple[int, ...]) -> Value:
    """A value with its axes in another order; the value itself if that is its order."""
    return value if perm == tuple(range(len(perm))) else Permute(value, perm)


def stretched(value: Value, shape: tuple[Dim, ...]) -> Value:
    """A value repeated along new leading axes, and along its axes of size 1, to fill a shape."""
    if value.shape == shape:
        return value
    offset = len(shape) - len(value.shape)
    kept = [i for i, d in enumerate(value.shape) if not (d == 1 and shape[i + offset] != 1)]
    value = reshaped(value, tuple(value.shape[i] for i in kept))
    return Broadcast(value, shape, tuple(i + offset for i in kept))


def inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    """The inverse of a permutation of axes."""
    return tuple(perm.index(i) for i in range(len(perm)))


class Step(Moves, Protocol):
    """One step from an array to a view: how to read the part, and how to write it back."""

    def read(self, whole: Value) -> Value:
        """The part that the view shows."""
        ...

    def write(self, whole: Value, part: Value) -> Value:
        """The whole array with that part replaced."""
        ...


@dataclass(frozen=True, slots=True)
class Block:
    """A window of basic slices, shown without the axes taken by integers and with new ones."""

    starts: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    steps: tuple[int, ...]
    shape: tuple[Dim, ...]
    in_order: ClassVar[bool] = False

    def covers(self, whole: TensorType) -> bool:
        """Whether the window is everything, in order."""
        ordered = all(s == 1 for s in self.steps) and all(s == 0 for s in self.starts)
        return ordered and self.sizes == whole.shape

    def read(self, whole: Value) -> Value:
        """The window in its own shape."""
        if not self.covers(whole.type):
            whole = Slice(whole, self.starts, self.sizes, self.steps)
        return reshaped(whole, self.shape)

    def write(self, whole: Value, part: Value) -> Value:
        """The whole with the window replaced."""
        part = reshaped(part, self.sizes)
        return part if self.covers(whole.type) else Update(whole, part, self.starts, self.steps)

    def strides(self, shape: tuple[Dim, ...], of: Strides) -> Strides | None:
        """The strides of the remaining axes, times their steps."""
        columns = zip(self.sizes, self.steps, of, strict=True)
        return among_ones([step * s for d, step, s in columns if d != 1], self.shape)


@dataclass(frozen=True, slots=True)
class Picked:
    """One position along an axis whose size is unknown, so that it is checked in the call."""

    index: Value
    axis: int
    in_order: ClassVar[bool] = False

    def read(self, whole: Value) -> Value:
        """The slice at that position, without the axis."""
        return Gather(whole, self.index, self.axis)

    def write(self, whole: Value, part: Value) -> Value:
        """The whole with that slice replaced."""
        return ScatterSet(whole, self.index, part, self.axis)

    def strides(self, shape: tuple[Dim, ...], of: Strides) -> Strides | None:
        """The strides of the other axes."""
        return (*of[: self.axis], *of[self.axis + 1 :])


@dataclass(frozen=True, slots=True)
class Reordered:
    """The axes in another order."""

    perm: tuple[int, ...]
    in_order: ClassVar[bool] = False

    def read(self, whole: Value) -> Value:
        """The axes in the new order."""
        return permuted(whole, self.perm)

    def write(self, whole: Value, part: Value) -> Value:
        """The axes back in the old order."""
        return permuted(part, inverse(self.perm))

    def strides(self, shape: tuple[Dim, ...], of: Strides) -> Strides | None:
        """The strides in the new order."""
        return tuple(of[i] for i in self.perm)


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The elements in row-major order in another shape."""

    shape: tuple[Dim, ...]
    in_order: ClassVar[bool] = True

    def read(self, whole: Value) -> Value:
        """The elements in the new shape."""
        return reshaped(whole, self.shape)

    def write(self, whole: Value, part: Value) -> Value:
        """The elements back in the old shape."""
        return reshaped(part, whole.shape)

    def strides(self, shape: tuple[Dim, ...], of: Strides) -> Strides | None:
        """The strides in the new shape; None if no strides reach the elements, so that NumPy
        copies.
        """
        return regrouped(shape, of, self.shape)


# -- what can't be assigned into, as in NumPy ------------------------------------------------------


class ReadOnly:
    """A step through which elements are read only: an assignment into the view is an error."""

    __slots__ = ()
    in_order: ClassVar[bool] = False

    def write(self, whole: Value, part: Value) -> Value:
        """Not called, because the assignment is refused before."""
        raise TypeError(f"{type(self).__name__} is read only")


@dataclass(frozen=True, slots=True)
class Stretched(ReadOnly):
    """The elements repeated to fill a shape."""

    shape: tuple[Dim, ...]

    def read(self, whole: Value) -> Value:
        """The elements in the shape."""
        return stretched(whole, self.shape)

    def strides(self, shape: tuple[Dim, ...], of: Strides) -> Strides | None:
        """The strides of the axes that there are; none along those that repeat."""
        own = (0 if d == 1 else s for d, s in zip(shape, of, strict=True))
        return (*(0,) * (len(self.shape) - len(shape)), *own)


@dataclass(frozen=True, slots=True)
class OnDiagonal(ReadOnly):
    """The elements whose last two indices are equal."""

    def read(self, whole: Value) -> Value:
        """The diagonal of each matrix."""
        return Diagonal(whole)

    def strides(self, shape: tuple[Dim, ...], of: Strides) -> Strides | None:
        """A step along both axes."""
        return (*of[:-2], of[-2] + of[-1])


@dataclass(frozen=True, slots=True)
class Windows(ReadOnly):
    """Windows that slide along some axes, with an axis for the places in a window each."""

    axes: tuple[int, ...]
    sizes: tuple[Dim, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]

    def read(self, whole: Value) -> Value:
        """The windows."""
        return Patches(whole, self.axes, self.sizes, self.steps, self.dilations)

    def strides(self, shape: tuple[Dim, ...], of: Strides) -> Strides | None:
        """The steps from window to window, then those inside of a window."""
        apart = dict(zip(self.axes, self.steps, strict=True))
        inside = (of[a] * n for a, n in zip(self.axes, self.dilations, strict=True))
        return (*(s * apart.get(a, 1) for a, s in enumerate(of)), *inside)
