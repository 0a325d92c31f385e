"""Reading at indices that are known only at run time, and adding there, which is its adjoint.

An index wraps once when negative. Outside the axis, mode ``error`` ends the call with the
user's line, ``clip`` takes the nearest element, ``drop`` reads zero and writes nothing.
``batch`` leading axes of all operands are walked together.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dlvm.base.errors import DTypeError, IndexOutOfRange, IRError, ShapeError
from dlvm.ir import Array, Dim, Param, TensorType, Value, rewrite, zeros
from dlvm.ir.numerics import ROUNDING
from dlvm.ir.scalar import S, Scalars
from dlvm.ir.sharding.factors import Factors, Places, all_of
from dlvm.ir.sizes.equations import unequal
from dlvm.ops.elements.elementwise import Add
from dlvm.ops.families import Movement
from dlvm.ops.literals import Iota, is_splat

from .movement import Reshape

MODES = ("error", "clip", "drop")


class IndexedFields:
    """What their fields include; each class says where among its own."""

    x: Value
    indices: Value
    updates: Value
    axis: int
    batch: int
    mode: str


class Indexed(IndexedFields, Movement):
    """What gather and scatter share."""

    @property
    def may_raise(self) -> bool:
        """Only the mode ``error`` can end a call."""
        return self.mode == "error"

    def batched(self, size: Dim) -> dict[str, Any]:
        """One batch axis more."""
        return {"axis": self.axis + 1, "batch": self.batch + 1}

    def moved(self, x: TensorType) -> tuple[Dim, ...]:
        """The shape of what the indices pick: the axis replaced by the shape of the indices."""
        index = self.indices.type
        if not index.dtype.is_integer:
            raise DTypeError(f"{self.name}: expected integer indices, found {index}")
        if self.mode not in MODES:
            raise ShapeError(f"{self.name}: mode must be one of {MODES}, found {self.mode!r}")
        if not 0 <= self.batch <= self.axis < x.rank or self.batch > index.rank:
            raise ShapeError(f"{self.name}: axis {self.axis} with {self.batch} batch axes in {x}")
        if x.shape[: self.batch] != index.shape[: self.batch]:
            raise ShapeError(f"{self.name}: the {self.batch} batch axes of {x} and {index} differ")
        before, after = x.shape[: self.axis], x.shape[self.axis + 1 :]
        return (*before, *index.shape[self.batch :], *after)

    def _cut(self) -> tuple[Places, Places, Places]:
        """The factors of ``x``, of the indices, and of what is picked or written."""
        rank, count = self.x.type.rank, self.indices.type.rank - self.batch
        x = all_of(rank, (self.axis,))
        picked = tuple(range(rank, rank + count))
        indices = (*x[: self.batch], *picked)
        return x, indices, (*x[: self.axis], *picked, *x[self.axis + 1 :])

    def resolve(self, indices: Array, size: int) -> tuple[Array, Array]:
        """Indices made safe, and which of them were inside."""
        wrapped = indices.astype(np.int64) if indices.dtype != np.uint64 else indices
        wrapped = np.where(wrapped < 0, wrapped + size, wrapped)
        inside = (wrapped >= 0) & (wrapped < size)
        if self.mode == "error" and not inside.all():
            bad = int(np.asarray(indices)[~inside].reshape(-1)[0])
            raise out_of_range(bad, size)
        return np.clip(wrapped, 0, max(size - 1, 0)).astype(np.int64), inside

    def pairs(self, x: Array, indices: Array) -> list[tuple[Any, Array]]:
        """For each position in the batch, its key and the indices there."""
        keys = np.ndindex(*x.shape[: self.batch])
        return [(key, indices[key]) for key in keys]


def out_of_range(index: int, size: int) -> IndexOutOfRange:
    """The error that interpreter and machine code share."""
    return IndexOutOfRange(
        f"index {index} is out of range for an axis of size {size}",
        remedy='pass mode="clip" or mode="drop" where that is meant',
    )


class Gather(Indexed):
    """``x[..., indices, ...]`` along one axis: ``y[b, p, i, q] = x[b, p, indices[b, i], q]``."""

    name = "gather"
    x: Value
    indices: Value
    axis: int
    batch: int = 0
    mode: str = "error"

    def infer(self) -> TensorType:
        """The axis is replaced by the shape of the indices (without batch axes)."""
        return self.x.type.with_shape(self.moved(self.x.type))

    def factors(self) -> Factors:
        """All but the axis in which the indices point."""
        x, indices, picked = self._cut()
        return Factors((x, indices), (picked,), cleared=(1,) if self.may_raise else ())

    def reference(self, *operands: Array) -> Any:
        x, indices = operands
        size = x.shape[self.axis]
        safe, inside = self.resolve(indices, size)
        shape = (*x.shape[: self.axis], *indices.shape[self.batch :], *x.shape[self.axis + 1 :])
        out = np.zeros(shape, x.dtype)
        if size == 0:
            return out
        axis = self.axis - self.batch
        for key, at in self.pairs(x, safe):
            picked = np.array(np.take(x[key], at, axis))
            if self.mode == "drop":
                grouped = picked.reshape(_grouped(x[key].shape, axis, at.size))
                grouped[:, ~np.asarray(inside[key]).reshape(-1)] = 0
            out[key] = picked
        return out

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        zero = zeros(self.x.type)
        return ScatterAdd(zero, self.indices, dy[0], self.axis, self.batch, self.mode), None


def one_part(op: Gather) -> bool:
    """Whether it picks one part, at an index that a body is given, as a slice at a start would."""
    return not op.indices.shape and isinstance(op.indices, Param) and op.mode == "clip"


@rewrite(
    Gather,
    example=lambda x, i: Gather(x, Reshape(i, (*i.shape, 1)), 1, batch=1, mode="clip"),
    given=("n[B,3,N]", "i[B,K]"),
)
def gather_at_reshaped(op: Gather) -> Value | None:
    """Reshaped indices pick the same elements in another shape."""
    match op:
        case Gather(x, Reshape(i, shape), axis, batch, mode) if i.shape[:batch] == shape[:batch]:
            return Reshape(Gather(x, i, axis, batch, mode), op.shape)
        case _:
            return None


def _grouped(shape: tuple[int, ...], axis: int, count: int) -> tuple[int, int, int]:
    before = int(np.prod(shape[:axis], dtype=np.int64))
    after = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    return before, count, after


class Scatter(Indexed):
    """What the ways to write at indices share; each says how it combines old and new."""

    word: ClassVar[str] = ""
    """The scalar function of the old and the new element, where it is one."""
    joined: ClassVar[bool] = False
    """Whether ranks may share the updates, and join by the word what each has written."""
    x: Value
    indices: Value
    updates: Value
    axis: int
    batch: int = 0
    mode: str = "error"

    def infer(self) -> TensorType:
        """The type of ``x``; the updates have the type that a gather would give."""
        expected = self.x.type.with_shape(self.moved(self.x.type))
        if self.updates.dtype != expected.dtype:
            raise DTypeError(f"{self.name}: expected updates {expected}, found {self.updates.type}")
        if self.updates.shape != expected.shape:
            raise ShapeError(
                f"{self.name}: expected updates {expected}, found {self.updates.type}",
                sides=unequal(expected.shape, self.updates.shape),
            )
        return self.x.type

    def factors(self) -> Factors:
        """All but the axis in which the indices point, and the indices, unless they are joined."""
        x, indices, written = self._cut()
        new = [f for f in indices if f is not None and f not in x]
        results = (x, written)[: len(self.result_types)]
        cleared = (1,) if self.may_raise else ()
        if not self.joined:
            indices, written = (
                tuple(None if f in new else f for f in s) for s in (indices, written)
            )
            results = (x, written)[: len(self.result_types)]
            return Factors((x, indices, written), results, cleared=cleared)
        folds = dict.fromkeys(new, self.word)
        return Factors((x, indices, written), results, folds, (None, 0, 0), cleared, start=0)

    def reference(self, *operands: Array) -> Any:
        x, indices, updates = operands
        safe, inside = self.resolve(indices, x.shape[self.axis])
        out = x.copy()
        if x.shape[self.axis] == 0:
            return out
        axis = self.axis - self.batch
        for key, at in self.pairs(x, safe):
            target = np.moveaxis(out[key], axis, 0)
            rows = np.moveaxis(
                updates[key].reshape(*x[key].shape[:axis], at.size, *x[key].shape[axis + 1 :]),
                axis,
                0,
            )
            keep = slice(None) if self.mode == "clip" else np.asarray(inside[key]).reshape(-1)
            self.write(target, np.asarray(at).reshape(-1)[keep], rows[keep])
        return out

    def write(self, target: Array, at: Array, rows: Array) -> None:
        """Write the rows into the target, in place and in order."""
        raise IRError(f"{self.name} does not say how it writes")

    def combine(self, s: Scalars[S], old: S, new: S) -> S:
        """The element at an index after an update, from the element before it."""
        if not self.word:
            raise IRError(f"{self.name} does not say what it writes")
        return s.binary(self.word, old, new)


class ScatterAdd(Scatter):
    """``x`` with ``updates`` added at the indices; repeated indices add up, in order."""

    name = "scatter_add"
    word = "add"
    joined = True

    def write(self, target: Array, at: Array, rows: Array) -> None:
        """Unbuffered addition; half precision rounds after each."""
        np.add.at(target, at, rows)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return dy[0], None, Gather(dy[0], self.indices, self.axis, self.batch, self.mode)


@rewrite(
    Add,
    example=(
        lambda a, u, x: Add(a, ScatterAdd(zeros(x.type), Iota(2), u, 0)),
        lambda a, u, x: Add(ScatterAdd(zeros(x.type), Iota(2), u, 0), a),
    ),
    given=("f[3,N]", "f[2,N]", "f[3,N]"),
    law_class=ROUNDING,
)
def accumulate_in_place(op: Add) -> Value | None:
    """a + scatter_add(0, i, u) = scatter_add(a + 0, i, u): the sum is formed where a lies."""
    match op:
        case Add(a, ScatterAdd(zero, i, u, axis, batch, mode)) if is_splat(zero, 0):
            return ScatterAdd(a + zero, i, u, axis, batch, mode)
        case Add(ScatterAdd(zero, i, u, axis, batch, mode), a) if is_splat(zero, 0):
            return ScatterAdd(a + zero, i, u, axis, batch, mode)
        case _:
            return None


@rewrite(
    ScatterAdd,
    example=lambda x, i, u: ScatterAdd(x, Reshape(i, (*i.shape, 1)), u, 1, batch=1, mode="clip"),
    given=("i[B,3,N]", "i[B,K]", "i[B,K,1,N]"),
)
def add_at_reshaped(op: ScatterAdd) -> Value | None:
    """Reshaped indices write the same updates, reshaped with them."""
    return at_flat(op)


def at_flat(op: Scatter) -> Value | None:
    """A scatter at indices without the reshape that gave them their shape."""
    indices, batch = op.indices, op.batch
    if not isinstance(indices, Reshape) or indices.x.shape[:batch] != indices.shape[:batch]:
        return None
    before, after = op.x.shape[: op.axis], op.x.shape[op.axis + 1 :]
    updates = Reshape(op.updates, (*before, *indices.x.shape[batch:], *after))
    (out,) = op.rebuild((op.x, indices.x, updates)).results
    return out
