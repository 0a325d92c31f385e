"""The steps from an array to a view of it: reading a part, and the whole with a part replaced.

A step also says which strides the view has, by which it is known whether a reshape aliases, as
in NumPy, or copies. What an operation gives is taken to lie in row-major order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from dlvm.ir import Dim, TensorType, Value
from dlvm.ir.dims import product
from dlvm.ops import Gather, Permute, Reshape, ScatterSet, Slice, Update


def reshaped(value: Value, shape: tuple[Dim, ...]) -> Value:
    """A value in another shape; the value itself if it has that shape."""
    return value if value.shape == shape else Reshape(value, shape)


def permuted(value: Value, perm: tuple[int, ...]) -> Value:
    """A value with its axes in another order; the value itself if that is its order."""
    return value if perm == tuple(range(len(perm))) else Permute(value, perm)


def inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    """The inverse of a permutation of axes."""
    return tuple(perm.index(i) for i in range(len(perm)))


Strides = tuple[Dim, ...]


def row_major(shape: tuple[Dim, ...]) -> Strides:
    """The strides of an array whose last axis is dense, counted in elements."""
    return tuple(product(shape[i + 1 :]) for i in range(len(shape)))


def regrouped(shape: tuple[Dim, ...], strides: Strides, new: tuple[Dim, ...]) -> Strides | None:
    """The strides in another shape; None where no strides reach the elements in that order.

    Axes fall into groups of equal size, old and new; within a group the old axes must be dense.
    """
    if 0 in shape:
        return row_major(new)
    old = [(d, s) for d, s in zip(shape, strides, strict=True) if d != 1]
    sizes = [d for d in new if d != 1]
    ends = {product(tuple(sizes[:j])): j for j in range(1, len(sizes) + 1)}
    found: list[Dim] = []
    first = 0
    for i in range(1, len(old) + 1):
        stop = ends.get(product(tuple(d for d, _ in old[:i])))
        if stop is not None:
            group, first = old[first:i], i
            if any(s != d * t for (_, s), (d, t) in pairwise(group)):
                return None
            dense = row_major(tuple(sizes[len(found) : stop]))
            found += [n * group[-1][1] for n in dense]
    return among_ones(found, new)


def among_ones(strides: list[Dim], shape: tuple[Dim, ...]) -> Strides:
    """Strides of a shape from those of the axes whose size is not 1; the others have none."""
    rest = iter(strides)
    return tuple(0 if d == 1 else next(rest) for d in shape)


@dataclass(frozen=True, slots=True)
class Block:
    """A window of basic slices, shown without the axes taken by integers and with new ones."""

    starts: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    steps: tuple[int, ...]
    shape: tuple[Dim, ...]

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
