"""The steps from an array to a view of it: reading a part, and the whole with a part replaced."""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.ir import Array, Dim, TensorType, Value
from dlvm.ir.dims import evaluate, symbols
from dlvm.ops import Gather, Permute, Reshape, ScatterSet, Slice, Update
from dlvm.ops.movement import window

SOME = 7


def reshaped(value: Value, shape: tuple[Dim, ...]) -> Value:
    """A value in another shape; itself where it has that shape."""
    return value if value.shape == shape else Reshape(value, shape)


def known(sizes: tuple[Dim, ...]) -> tuple[int, ...]:
    """Sizes with a number in the place of every symbol: how memory is laid out, not how much."""
    return tuple(evaluate(d, dict.fromkeys(symbols(d), SOME)) for d in sizes)


def permuted(value: Value, perm: tuple[int, ...]) -> Value:
    """A value with its axes in another order; itself where that is the order."""
    return value if perm == tuple(range(len(perm))) else Permute(value, perm)


def inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    """The order that undoes another."""
    return tuple(perm.index(i) for i in range(len(perm)))


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

    def look(self, whole: Array) -> Array:
        """The same view of an array that stands for the memory."""
        cut = window(known(self.starts), known(self.sizes), self.steps)
        return whole[cut].reshape(known(self.shape))

    def write(self, whole: Value, part: Value) -> Value:
        """The whole with the window replaced."""
        part = reshaped(part, self.sizes)
        return part if self.covers(whole.type) else Update(whole, part, self.starts, self.steps)


@dataclass(frozen=True, slots=True)
class Picked:
    """One position along an axis whose size is unknown, so that it is checked in the call."""

    index: Value
    axis: int

    def read(self, whole: Value) -> Value:
        """The slice at that position, without the axis."""
        return Gather(whole, self.index, self.axis)

    def look(self, whole: Array) -> Array:
        """The same view of an array that stands for the memory."""
        return whole[(slice(None),) * self.axis + (0,)]

    def write(self, whole: Value, part: Value) -> Value:
        """The whole with that slice replaced."""
        return ScatterSet(whole, self.index, part, self.axis)


@dataclass(frozen=True, slots=True)
class Reordered:
    """The axes in another order."""

    perm: tuple[int, ...]

    def read(self, whole: Value) -> Value:
        """The axes in the new order."""
        return permuted(whole, self.perm)

    def look(self, whole: Array) -> Array:
        """The same view of an array that stands for the memory."""
        return whole.transpose(self.perm)

    def write(self, whole: Value, part: Value) -> Value:
        """The axes back in the old order."""
        return permuted(part, inverse(self.perm))


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The elements in row-major order in another shape."""

    shape: tuple[Dim, ...]

    def read(self, whole: Value) -> Value:
        """In the new shape."""
        return reshaped(whole, self.shape)

    def look(self, whole: Array) -> Array:
        """The same view of an array that stands for the memory."""
        return whole.reshape(known(self.shape))

    def write(self, whole: Value, part: Value) -> Value:
        """Back in the old shape."""
        return reshaped(part, whole.shape)
