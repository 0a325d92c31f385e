"""Operations that move elements: no arithmetic, an index map each; static offsets."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.errors import DTypeError, ShapeError
from dlvm.ir import Array, Dim, TensorType, Value, rewrite, zeros
from dlvm.ir.dims import at_least, when_positive

from .families import Movement
from .reduction import Sum


class Broadcast(Movement):
    """Repeat along new axes: operand axis ``i`` becomes result axis ``axes[i]``.

    Sizes are never stretched here: an operand axis has the size of the result axis it becomes.
    """

    name = "broadcast"
    x: Value
    shape_to: tuple[Dim, ...]
    axes: tuple[int, ...]

    def infer(self) -> TensorType:
        """The given shape, which must agree with the operand's on ``axes``."""
        x, shape = self.x.type, self.shape_to
        ascending = list(self.axes) == sorted(set(self.axes))
        if (
            len(self.axes) != x.rank
            or not ascending
            or any(not 0 <= a < len(shape) for a in self.axes)
        ):
            raise ShapeError(f"broadcast: axes {self.axes} do not place {x} in {shape}")
        for axis, size in zip(self.axes, x.shape, strict=True):
            if shape[axis] != size:
                raise ShapeError(f"broadcast: axis {axis} of {shape} must be {size} for {x}")
        return x.with_shape(shape)

    def batched(self, size: Dim) -> dict[str, Any]:
        axes = (0, *(a + 1 for a in self.axes))
        return {"shape_to": (size, *self.shape_to), "axes": axes}

    def reference(self, *operands: Array) -> Any:
        shape = [1] * len(self.shape_to)
        for axis, size in zip(self.axes, operands[0].shape, strict=True):
            shape[axis] = size
        return np.broadcast_to(operands[0].reshape(shape), [int(d) for d in self.shape_to])

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        added = tuple(i for i in range(len(self.shape_to)) if i not in self.axes)
        return (Sum(dy[0], added),)


@rewrite(Broadcast, example=lambda x: Broadcast(x, x.shape, tuple(range(len(x.shape)))))
def broadcast_to_itself(op: Broadcast) -> Value | None:
    """A broadcast that adds no axis does nothing."""
    return op.x if op.x.shape == op.shape_to else None


@rewrite(
    Broadcast,
    example=lambda x: Broadcast(Broadcast(x, (*x.shape, 2), (0,)), (3, *x.shape, 2), (1, 2)),
    given=("n[M]",),
)
def broadcast_twice(op: Broadcast) -> Value | None:
    """Two broadcasts place axes one after the other, as one does."""
    match op:
        case Broadcast(Broadcast(x, _, inner), shape, outer):
            return Broadcast(x, shape, tuple(outer[a] for a in inner))
        case _:
            return None


class Permute(Movement):
    """Reorder axes: result axis ``i`` is operand axis ``perm[i]``."""

    name = "permute"
    x: Value
    perm: tuple[int, ...]

    def infer(self) -> TensorType:
        """The shape in the new order."""
        if sorted(self.perm) != list(range(self.x.type.rank)):
            raise ShapeError(f"permute: {self.perm} is no order of the axes of {self.x.type}")
        return self.x.type.with_shape(tuple(self.x.shape[p] for p in self.perm))

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"perm": (0, *(p + 1 for p in self.perm))}

    def reference(self, *operands: Array) -> Any:
        return np.transpose(operands[0], self.perm)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (Permute(dy[0], tuple(self.perm.index(i) for i in range(len(self.perm)))),)


@rewrite(Permute, example=lambda x: Permute(Permute(x, (1, 0)), (1, 0)))
def permute_twice(op: Permute) -> Value | None:
    """(x permuted by p) permuted by q is x permuted by p[q]."""
    match op:
        case Permute(Permute(x, inner), outer):
            return Permute(x, tuple(inner[p] for p in outer))
        case _:
            return None


@rewrite(Permute, example=lambda x: Permute(x, (0, 1)))
def permute_in_order(op: Permute) -> Value | None:
    """The order that is already there changes nothing."""
    return op.x if op.perm == tuple(range(len(op.perm))) else None


class Reshape(Movement):
    """The same elements in row-major order in another shape of equal size."""

    name = "reshape"
    x: Value
    shape_to: tuple[Dim, ...]

    def infer(self) -> TensorType:
        """The given shape, which must have as many elements."""
        out = self.x.type.with_shape(self.shape_to)
        if out.size != self.x.type.size:
            raise ShapeError(
                f"reshape: {self.x.type} has {self.x.type.size} elements, {out} has {out.size}"
            )
        return out

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"shape_to": (size, *self.shape_to)}

    def reference(self, *operands: Array) -> Any:
        return operands[0].reshape([int(d) for d in self.shape_to])

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (Reshape(dy[0], self.x.shape),)


@rewrite(Reshape, example=lambda x: Reshape(Reshape(x, (x.type.size,)), (1, x.type.size)))
def reshape_twice(op: Reshape) -> Value | None:
    """Only the last of two shapes matters."""
    match op:
        case Reshape(Reshape(x, _), shape):
            return Reshape(x, shape)
        case _:
            return None


@rewrite(Reshape, example=lambda x: Reshape(x, x.shape))
def reshape_to_itself(op: Reshape) -> Value | None:
    """A reshape to the shape that is already there does nothing."""
    return op.x if op.x.shape == op.shape_to else None


class Window(Movement):
    """What slices and updates share: ``starts``, ``sizes`` and ``steps`` inside a tensor.

    Index ``i`` along an axis of the window is ``start + i * step`` of the whole; steps may be
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
        last = start + (size - 1) * step
        low, high = (start, last) if step > 0 else (last, start)
        ranges = when_positive(size)
        if not (at_least(low, 0, ranges) and at_least(extent - 1, high, ranges)):
            raise ShapeError(
                f"{self.name}: {size} elements from {start} by {step} do not fit an axis of "
                f"size {extent} in {whole}"
            )


class Slice(Window):
    """A window of ``x``: element ``i`` along each axis is ``x[start + i*step]``."""

    name = "slice"
    x: Value
    starts: tuple[Dim, ...]
    sizes: tuple[Dim, ...]
    steps: tuple[int, ...]

    def infer(self) -> TensorType:
        """The type of the window."""
        return self.check(self.x.type, self.starts, self.sizes, self.steps)

    def batched(self, size: Dim) -> dict[str, Any]:
        sizes = (size, *self.sizes)
        return {"starts": (0, *self.starts), "sizes": sizes, "steps": (1, *self.steps)}

    def reference(self, *operands: Array) -> Any:
        return operands[0][window(self.starts, self.sizes, self.steps)]

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (Update(zeros(self.x.type), dy[0], self.starts, self.steps),)


@rewrite(Slice, example=lambda x: Slice(x, (0, 0), x.shape, (1, 1)))
def slice_of_everything(op: Slice) -> Value | None:
    """A window of the whole size, taken forwards, is the tensor itself."""
    forwards = all(step > 0 for step in op.steps)
    return op.x if forwards and op.sizes == op.x.shape else None


class Update(Window):
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

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"starts": (0, *self.starts), "steps": (1, *self.steps)}

    def reference(self, *operands: Array) -> Any:
        out = operands[0].copy()
        out[window(self.starts, operands[1].shape, self.steps)] = operands[1]
        return out

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        inside = Slice(dy[0], self.starts, self.y.shape, self.steps)  # read before dy is cleared
        return Update(dy[0], zeros(self.y.type), self.starts, self.steps), inside


@rewrite(Update, example=lambda x, y: Update(x, y, (0, 0), (1, 1)), given=("n[M,N]", "n[M,N]"))
def update_of_everything(op: Update) -> Value | None:
    """Nothing is left of what is replaced as a whole."""
    forwards = all(step > 0 for step in op.steps)
    return op.y if forwards and op.y.shape == op.x.shape else None


def window(starts: Any, sizes: Any, steps: Any) -> tuple[slice, ...]:
    """The NumPy slices of a window."""
    out: list[slice] = []
    for start, size, step in zip(starts, sizes, steps, strict=True):
        stop = start + size * step
        out.append(slice(start, None if stop < 0 else stop, step) if size else slice(0, 0))
    return tuple(out)


class Concat(Movement):
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
            if self._others(x.shape) != self._others(first.shape):
                raise ShapeError(f"concat along {self.axis}: {first} and {x.type} differ elsewhere")
            total = total + x.shape[self.axis]
        return first.with_shape((*first.shape[: self.axis], total, *first.shape[self.axis + 1 :]))

    def _others(self, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return shape[: self.axis] + shape[self.axis + 1 :]

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
