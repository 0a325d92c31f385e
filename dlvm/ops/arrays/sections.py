"""Sections of a tensor at static offsets: read, replaced, padded around, or joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ir import Array, Dim, TensorType, Value, rewrite, zeros
from dlvm.ir.properties import Of, Properties
from dlvm.ir.sizes.dims import at_least, floordiv, mod, product
from dlvm.ir.sizes.equations import unequal, when_positive, where_positive
from dlvm.ir.sizes.positions import Index
from dlvm.ops.families import IndexMap, Read


class Section(IndexMap):
    """What slices and updates share: ``starts``, ``sizes`` and ``steps`` inside a tensor.

    Index ``i`` along an axis of the section is ``start + i * step`` of the whole; steps may be
    negative. Every index must provably lie inside for every value of the symbols.
    """

    def check(self, whole: TensorType, starts: Any, sizes: Any, steps: Any) -> TensorType:
        """The type of the window."""
        if not len(starts) == len(sizes) == len(steps) == whole.rank:
            raise ShapeError(
                f"{self.name}: needs a start, a size and a step for each axis of {whole}"
            )
        for start, size, step, extent in zip(starts, sizes, steps, whole.shape, strict=True):
            self._axis(whole, start, size, step, extent)
        return whole.with_shape(tuple(sizes))

    def _axis(self, whole: TensorType, start: Dim, size: Dim, step: int, extent: Dim) -> None:
        if step == 0 or not at_least(size, 0):
            raise ShapeError(f"{self.name}: step {step}, size {size} make no window of {whole}")
        if size == 0:
            return
        last = start + (where_positive(size) - 1) * step
        low, high = (start, last) if step > 0 else (last, start)
        ranges = when_positive(size)
        if not (at_least(low, 0, ranges) and at_least(extent - 1, high, ranges)):
            raise ShapeError(
                f"{self.name}: {size} elements from {start} by {step} do not fit an axis of "
                f"size {extent} in {whole}",
                sides=(size, extent),
            )


class Slice(Section):
    """A window of ``x``: element ``i`` along each axis is ``x[start + i*step]``."""

    name = "slice"
    x: Value
    starts: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    steps: tuple[int, ...]

    def infer(self) -> TensorType:
        """The type of the window."""
        return self.check(self.x.type, self.starts, self.sizes, self.steps)

    def reads(self, index: Index) -> tuple[Read, ...]:
        return (Read(0, in_whole(self, index)),)

    def batched(self, size: Dim) -> dict[str, Any]:
        sizes = (size, *self.sizes)
        return {"starts": (0, *self.starts), "sizes": sizes, "steps": (1, *self.steps)}

    def resized(self, *shapes: tuple[Dim, ...]) -> dict[str, Any]:
        return {"sizes": shapes[0]}

    def properties(self, of: Of) -> Properties:
        """Those of a principal part: the same rows as columns."""
        found = of(self.x)
        same = all(s[-1] == s[-2] for s in (self.starts, self.sizes, self.steps) if len(s) > 1)
        if not same:
            return found & {"nonnegative"}
        ordered = {"lower", "upper"} if self.steps[-1:] > (0,) else set[str]()
        return found & {"symmetric", "psd", "spd", "diagonal", "nonnegative", *ordered}

    def reference(self, *operands: Array) -> Any:
        return operands[0][window(self.starts, self.sizes, self.steps)]

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (Update(zeros(self.x.type), dy[0], self.starts, self.steps),)


@rewrite(Slice, example=lambda x: Slice(x, (0, 0), x.shape, (1, 1)))
def slice_of_everything(op: Slice) -> Value | None:
    """A window of the whole size, taken forwards, is the tensor itself."""
    forwards = all(step > 0 for step in op.steps)
    return op.x if forwards and op.sizes == op.x.shape else None


class Update(Section):
    """``x`` with a window of it, as in ``Slice``, replaced by ``y``."""

    name = "update"
    x: Value
    y: Value
    starts: tuple[Dim, ...]
    steps: tuple[int, ...]

    def infer(self) -> TensorType:
        """The type of ``x``; ``y`` must fit inside."""
        if self.x.dtype != self.y.dtype:
            raise DTypeError(
                f"update: expected one element type, found {self.x.type}, {self.y.type}"
            )
        self.check(self.x.type, self.starts, self.y.shape, self.steps)
        return self.x.type

    def reads(self, index: Index) -> tuple[Read, ...]:
        """An element of the window, or what was there."""
        found, conditions = list[Dim](), list[Dim]()
        axes = zip(index, self.starts, self.y.shape, self.steps, strict=True)
        for i, start, size, step in axes:
            ahead, stride = (i - start, step) if step > 0 else (start - i, -step)
            found.append(floordiv(ahead, stride))
            conditions += (ahead, (size - 1) * stride - ahead, -mod(ahead, stride))
        return (Read(1, tuple(found), tuple(conditions)), Read(0, index))

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"starts": (0, *self.starts), "steps": (1, *self.steps)}

    def reference(self, *operands: Array) -> Any:
        out = operands[0].copy()
        out[window(self.starts, operands[1].shape, self.steps)] = operands[1]
        return out

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        inside = Slice(dy[0], self.starts, self.y.shape, self.steps)  # read before dy is cleared
        return Update(dy[0], zeros(self.y.type), self.starts, self.steps), inside


def window(starts: Any, sizes: Any, steps: Any) -> tuple[slice, ...]:
    """The NumPy slices of a window."""
    out: list[slice] = []
    for start, size, step in zip(starts, sizes, steps, strict=True):
        stop = start + size * step
        out.append(slice(start, None if stop < 0 else stop, step) if size else slice(0, 0))
    return tuple(out)


def in_whole(op: Slice | Update, index: Sequence[Dim]) -> tuple[Dim, ...]:
    """The index in the whole of an element of a window."""
    return tuple(b + i * s for b, i, s in zip(op.starts, index, op.steps, strict=True))


def start_of_adjacent(op: Slice) -> Dim | None:
    """Where a window of elements that lie beside one another in memory starts, if it is one."""
    shape, sizes = op.x.shape, op.sizes
    first = next((i for i, n in enumerate(sizes) if n != 1), len(shape))
    if sizes[first + 1 :] != shape[first + 1 :] or any(step != 1 for step in op.steps):
        return None
    strides = (product(shape[i + 1 :]) for i in range(len(shape)))
    return sum((a * b for a, b in zip(op.starts, strides, strict=True)), 0)


@rewrite(Update, example=lambda x, y: Update(x, y, (0, 0), (1, 1)), given=("n[M,N]", "n[M,N]"))
def update_of_everything(op: Update) -> Value | None:
    """Nothing is left of what is replaced as a whole."""
    forwards = all(step > 0 for step in op.steps)
    return op.y if forwards and op.y.shape == op.x.shape else None


@rewrite(
    Update,
    example=(
        lambda x, y, z: Update(Update(x, y, (1, 0), (1, 2)), z, (1, 0), (1, 2)),
        lambda x, y, z: Update(
            Update(x, Slice(y, (1, 1), (2, 1), (1, 1)), (2, 1), (1, 1)), z, (1, 0), (1, 1)
        ),
    ),
    given=("n[5,6]", "n[3,2]", "n[3,2]"),
)
def update_twice(op: Update) -> Value | None:
    """What is replaced inside of a window that is replaced afterwards is never seen."""
    match op.x:
        case Update(x, y, starts, steps) if _covers(op, starts, y.shape, steps):
            return Update(x, op.y, op.starts, op.steps)
        case _:
            return None


def _covers(op: Update, starts: Any, sizes: Any, steps: tuple[int, ...]) -> bool:
    """Whether an update replaces all of a window."""
    if (op.starts, op.y.shape, op.steps) == (starts, sizes, steps):
        return True
    if {*op.steps, *steps} != {1}:
        return False
    axes = zip(op.starts, op.y.shape, starts, sizes, strict=True)
    return all(at_least(b, a) and at_least(a + n, b + m) for a, n, b, m in axes)


class Pad(IndexMap):
    """``x`` with ``low`` zeros before and ``high`` zeros behind along each axis."""

    name = "pad"
    x: Value
    low: tuple[Dim, ...]
    high: tuple[Dim, ...]

    def infer(self) -> TensorType:
        """Sizes grow by what is added, which is never negative."""
        x = self.x.type
        if not len(self.low) == len(self.high) == x.rank:
            raise ShapeError(f"pad: needs two sizes for each axis of {x}")
        if not all(at_least(n, 0) for n in (*self.low, *self.high)):
            raise ShapeError(f"pad: the sizes {self.low}, {self.high} may be negative")
        columns = zip(self.low, x.shape, self.high, strict=True)
        return x.with_shape(tuple(before + size + after for before, size, after in columns))

    def reads(self, index: Index) -> tuple[Read, ...]:
        found = tuple(i - low for i, low in zip(index, self.low, strict=True))
        ends = zip(found, self.x.shape, strict=True)
        return (Read(0, found, tuple(d for i, n in ends for d in (i, n - 1 - i))),)

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"low": (0, *self.low), "high": (0, *self.high)}

    def reference(self, *operands: Array) -> Any:
        (x,) = operands
        before, behind = (tuple(map(int, sizes)) for sizes in (self.low, self.high))
        columns = [*zip(before, x.shape, behind, strict=True)]
        out = np.zeros([low + n + high for low, n, high in columns], x.dtype)
        out[tuple(slice(low, low + n) for low, n, _ in columns)] = x
        return out

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (Slice(dy[0], self.low, self.x.shape, (1,) * self.x.type.rank),)


@rewrite(Pad, example=lambda x: Pad(x, (0, 0), (0, 0)))
def pad_by_nothing(op: Pad) -> Value | None:
    """Nothing around a tensor is the tensor."""
    return op.x if op.x.shape == op.shape else None


@rewrite(Pad, example=lambda x: Pad(Pad(x, (1, 0), (0, 2)), (2, 1), (1, 0)))
def pad_twice(op: Pad) -> Value | None:
    """Zeros around zeros are that many more."""
    match op:
        case Pad(Pad(x, low, high), more_low, more_high):
            return Pad(x, _plus(low, more_low), _plus(high, more_high))
        case _:
            return None


def _plus(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return tuple(m + n for m, n in zip(a, b, strict=True))


class Concat(IndexMap):
    """Tensors one after the other along ``axis``; other sizes agree."""

    name = "concat"
    xs: tuple[Value, ...]
    axis: int

    def infer(self) -> TensorType:
        """Sizes along the axis add up."""
        if not self.xs:
            raise ShapeError("concat: expected at least one tensor, found none")
        first = self.xs[0].type
        if not 0 <= self.axis < first.rank:
            raise ShapeError(f"concat: no axis {self.axis} in {first}")
        total: Dim = 0
        for x in self.xs:
            if x.dtype != first.dtype:
                raise DTypeError(f"concat: expected one element type, found {first} and {x.type}")
            if x.type.rank != first.rank or self._others(x.shape) != self._others(first.shape):
                raise ShapeError(
                    f"concat along {self.axis}: {first} and {x.type} differ elsewhere",
                    sides=unequal(self._others(first.shape), self._others(x.shape)),
                )
            total = total + x.shape[self.axis]
        return first.with_shape((*first.shape[: self.axis], total, *first.shape[self.axis + 1 :]))

    def _others(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return shape[: self.axis] + shape[self.axis + 1 :]

    def reads(self, index: Index) -> tuple[Read, ...]:
        """Each piece where the index lies in it; it lies in the last if in no other."""
        found, i, start = list[Read](), index[self.axis], 0
        for number, x in enumerate(self.xs):
            begin, start = start, start + x.shape[self.axis]
            inside = (*index[: self.axis], i - begin, *index[self.axis + 1 :])
            found.append(Read(number, inside, (i - begin, start - 1 - i)))
        return tuple(found)

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"axis": self.axis + 1}

    def reference(self, *operands: Array) -> Any:
        return np.concatenate(operands, self.axis)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        out: list[Value] = []
        offset: Dim = 0
        for x in self.xs:
            starts: list[Dim] = [0] * x.type.rank
            starts[self.axis] = offset
            out.append(Slice(dy[0], tuple(starts), x.shape, (1,) * x.type.rank))
            offset = offset + x.shape[self.axis]
        return tuple(out)


@rewrite(Concat, example=lambda x: Concat((x,), 0))
def concat_one(op: Concat) -> Value | None:
    """One tensor concatenated is itself."""
    return op.xs[0] if len(op.xs) == 1 else None


@rewrite(
    Concat,
    example=lambda x, y: Concat((x, Concat((y, x), 1), y), 1),
    given=("n[M,N]", "n[M,K]"),
)
def concat_twice(op: Concat) -> Value | None:
    """What is joined along one axis is joined at once, up to 128 parts.

    An array that is joined to itself again and again would double its parts each time.
    """
    if not any(isinstance(x, Concat) and x.axis == op.axis for x in op.xs):
        return None
    nested = [x.xs if isinstance(x, Concat) and x.axis == op.axis else (x,) for x in op.xs]
    parts = sum(map(len, nested))
    return None if parts > 128 else Concat(tuple(x for xs in nested for x in xs), op.axis)
