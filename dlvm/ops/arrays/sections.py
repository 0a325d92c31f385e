"""Sections of a tensor at static offsets: read, replaced, padded around, or joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ir import Array, Dim, TensorType, Value, rewrite, zeros
from dlvm.ir.dims import at_least, floordiv, mod, product
from dlvm.ir.equations import unequal, when_positive, where_positive
from dlvm.ir.numerics import ROUNDING
from dlvm.ir.positions import Index
from dlvm.ir.properties import Of, Properties
from dlvm.ops.elements.elementwise import Add
from dlvm.ops.families import Contraction, Elementwise, IndexMap, Movement, Read
from dlvm.ops.literals import is_splat

from .movement import Broadcast


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


# -- windows into zeros --------------------------------------------------------------------------


def _around(y: Value, op: Update) -> Value | None:
    """The window with zeros around it, where nothing is left out between its elements."""
    ends = zip(op.x.shape, op.starts, op.y.shape, strict=True)
    high = tuple(size - start - count for size, start, count in ends)
    straight = set(op.steps) <= {1} and all(at_least(n, 0) for n in (*op.starts, *high))
    return Pad(y, op.starts, high) if straight else None


@rewrite(
    Update,
    example=lambda x, y: Update(zeros(x.type), y, (1, 0), (1, 1)),
    given=("n[5,6]", "n[3,2]"),
)
def update_of_zeros(op: Update) -> Value | None:
    """A window of zeros that is written is what is written, padded: a kernel may compute that."""
    return _around(op.y, op) if is_splat(op.x, 0) else None


@rewrite(
    Update,
    example=lambda x: Update(x, Slice(x, (1, 0), (2, 3), (1, 2)), (1, 0), (1, 2)),
    given=("n[5,6]",),
)
def update_by_its_slice(op: Update) -> Value | None:
    """A window that is written with what it holds already changes nothing."""
    match op:
        case Update(x, Slice(y, starts, _, steps)) if x is y:
            return x if (starts, steps) == (op.starts, op.steps) else None
        case _:
            return None


PIECES = 64
"""Windows of one array that are joined."""
Placed = tuple[tuple[Dim, ...], Value]
"""Where a window starts, and what it holds."""


@rewrite(
    Update,
    example=(
        lambda x, y: _added(_added(Pad(x, (0, 2), (0, 1)), x, (0, 0)), Slice(x, *_FIRST), (0, 4)),
        lambda x, y: Update(Pad(x, (2, 0), (0, 0)), x, (0, 0), (1, 1)),
        lambda x, y: Update(Update(y, x, (2, 0), (1, 1)), x, (0, 0), (1, 1)),
    ),
    given=("n[2,2]", "n[4,2]"),
    law_class=ROUNDING,
    keeps=False,
)
def windows_of_everything(op: Update) -> Value | None:
    """Windows that are written, or added to zeros, one by one until all is written, are joined.

    Products are written one by one, so that none waits in memory for the others.
    """
    found = joined_windows(op)
    return None if found is None or any(map(_is_of_product, found.xs)) else found


def joined_windows(op: Update) -> Concat | None:
    """All that an update and those before it write, if together they write everything."""
    placed = _placed(op)
    axes = [a for a in range(op.type.rank) if any(starts[a] != 0 for starts, _ in placed)]
    if len(axes) != 1 or not all(isinstance(starts[axes[0]], int) for starts, _ in placed):
        return None
    (axis,) = axes
    placed.sort(key=lambda p: int(str(p[0][axis])))
    end: Dim = 0
    for starts, y in placed:
        others = zip(y.shape, op.shape, strict=True)
        if starts[axis] != end or any(m != n for a, (m, n) in enumerate(others) if a != axis):
            return None
        end = end + y.shape[axis]
    return Concat(tuple(y for _, y in placed), axis) if end == op.shape[axis] else None


def _is_of_product(value: Value, deep: int = 6) -> bool:
    """Whether a value is an element-wise formula of a product, or a part of one."""
    if isinstance(value, Elementwise | Movement) and deep:
        return any(_is_of_product(x, deep - 1) for x in value.operands)
    return isinstance(value, Contraction)


_FIRST = (0, 0), (2, 1), (1, 1)


def _added(x: Value, y: Value, starts: tuple[int, int]) -> Value:
    """For the example: a window with something added to it, as a derivative writes it."""
    return Update(x, Add(Slice(x, starts, y.shape, (1, 1)), y), starts, (1, 1))


def _placed(op: Update) -> list[Placed]:
    """The windows that an update and those before it write, last first; none if one is unknown."""
    found: list[Placed] = []
    value: Value = op
    adds = False
    while isinstance(value, Update) and len(found) < PIECES:
        y = value.y
        if isinstance(y, Add) and (more := _beside_own_window(value, y)) is not None:
            y, adds = more, True
        if set(value.steps) - {1}:
            return []
        found.append((value.starts, y))
        value = value.x
    if isinstance(value, Pad):
        found.append((value.low, value.x))
    return found if isinstance(value, Pad) or not adds else []


def _beside_own_window(op: Update, y: Add) -> Value | None:
    """What an update adds to what its window held."""
    for held, more in (y.operands, y.operands[::-1]):
        if isinstance(held, Slice) and held.x is op.x:
            window = (held.starts, held.sizes, held.steps)
            return more if window == (op.starts, y.shape, op.steps) else None
    return None


# -- windows of what was joined, padded, replaced or repeated -------------------------------------


def _slice(x: Value, starts: Any, sizes: Any, steps: Any) -> Value | None:
    """A window if it provably lies inside: a law that can't prove that does not fire."""
    try:
        return Slice(x, tuple(starts), tuple(sizes), tuple(steps))
    except ShapeError:
        return None


@rewrite(
    Slice,
    example=lambda x: Slice(Slice(x, (9, 1), (4, 3), (-2, 1)), (3, 0), (2, 2), (-1, 2)),
    given=("n[10,6]",),
)
def slice_twice(op: Slice) -> Value | None:
    """x[a::s][b::t] = x[a + b*s :: s*t]; reversed twice is in order again."""
    match op:
        case Slice(Slice(x, starts, _, steps), more, sizes, again):
            first = [a + b * s for a, b, s in zip(starts, more, steps, strict=True)]
            return _slice(x, first, sizes, [s * t for s, t in zip(steps, again, strict=True)])
        case _:
            return None


@rewrite(
    Slice,
    example=lambda x: Slice(Pad(x, (1, 0), (0, 2)), (2, 0), (2, 2), (1, 2)),
    given=("n[4,3]",),
)
def slice_inside_padding(op: Slice) -> Value | None:
    """A window that does not touch the padding is a window of the operand."""
    match op:
        case Slice(Pad(x, low, _), starts, sizes, steps):
            inner = [a - b for a, b in zip(starts, low, strict=True)]
            return _slice(x, inner, sizes, steps)
        case _:
            return None


@rewrite(
    Slice,
    example=lambda x, y: Slice(Update(x, y, (1, 0), (1, 2)), (1, 0), y.shape, (1, 2)),
    given=("n[5,6]", "n[3,2]"),
)
def slice_of_its_update(op: Slice) -> Value | None:
    """The window that was just written holds what was written."""
    match op:
        case Slice(Update(_, y, placed, each), starts, sizes, steps):
            return y if (placed, y.shape, each) == (starts, sizes, steps) else None
        case _:
            return None


@rewrite(
    Slice,
    example=lambda x, y: Slice(Concat((x, y, x), 1), (0, 4), (2, 2), (1, -1)),
    given=("n[2,3]", "n[2,4]"),
)
def slice_of_one_piece(op: Slice) -> Value | None:
    """A window that lies in one of the tensors that are joined is a window of that one."""
    if not isinstance(op.x, Concat):
        return None
    axis, offset = op.x.axis, 0
    for x in op.x.xs:
        starts = list(op.starts)
        starts[axis] = starts[axis] - offset
        if (found := _slice(x, starts, op.sizes, op.steps)) is not None:
            return found
        offset = offset + x.shape[axis]
    return None


@rewrite(
    Slice,
    example=lambda x: Slice(Broadcast(x, (5, 4, 3), (0, 2)), (1, 0, 2), (2, 3, 2), (1, 1, -1)),
    given=("n[5,3]",),
)
def slice_of_broadcast(op: Slice) -> Value | None:
    """Only windows of the axes that were there before have to be cut out."""
    match op:
        case Slice(Broadcast(x, _, axes), starts, sizes, steps):
            first, count = (tuple(row[a] for a in axes) for row in (starts, sizes))
            return Broadcast(Slice(x, first, count, tuple(steps[a] for a in axes)), sizes, axes)
        case _:
            return None


def window(starts: Any, sizes: Any, steps: Any) -> tuple[slice, ...]:
    """The NumPy slices of a window."""
    out: list[slice] = []
    for start, size, step in zip(starts, sizes, steps, strict=True):
        stop = start + size * step
        out.append(slice(start, None if stop < 0 else stop, step) if size else slice(0, 0))
    return tuple(out)
