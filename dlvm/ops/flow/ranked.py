"""What depends on which rank of a mesh it is, and needs no other rank.

Programs have these, and the ``collectives``, from the stage ``partitioned`` on, behind all
derivatives and laws. ``axes`` are the axes of ``mesh`` along which ranks differ that take part
together, and ``reference_of_ranks`` says what each gets, by its index along them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dlvm.base.errors import IRError, ShapeError
from dlvm.ir import I64, Array, Dim, Op, TensorType, Value, literal
from dlvm.ir.sharding import ranks
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ir.sharding.pieces import part
from dlvm.ops.arrays.indexing import Gather
from dlvm.ops.arrays.sums import Broadcast
from dlvm.ops.elements.logic import Less, Select
from dlvm.ops.literals import Constant, DimSize, Iota

Pieces = tuple[Array, ...]


class Ranked(Op):
    """What gives another result on each rank along ``axes``."""

    stage = "partitioned"
    from_passes = True
    nondifferentiable = "only passes write it, behind all derivatives"
    exchanged: ClassVar[str] = ""
    """How machine code does it, where it does: ``swap``, ``gather``, ``send``, ``sum`` or
    ``index``."""
    axes: tuple[str, ...]
    mesh: str

    @cached_property
    def among(self) -> Mesh:
        """The mesh."""
        return Mesh.named(self.mesh)

    @property
    def count(self) -> int:
        """How many ranks there are along the axes."""
        return self.among.count(self.axes)

    def check_axes(self) -> None:
        """Demand axes of the mesh, each once."""
        if sorted(self.axes) != sorted({*self.axes} & self.among.sizes.keys()):
            said = f"{self.name}: expected axes of the mesh {self.mesh}, each once"
            raise ShapeError(f"{said}, found {self.axes}")

    def reference_of_ranks(self, pieces: Sequence[Pieces]) -> Sequence[Pieces]:
        """What each rank gets, from what each gives, both by their index along the axes."""
        raise IRError(f"{self.name} does not say what ranks get")

    def placed(self, t: TensorType, axis: int, size: Dim) -> TensorType:
        """The type with another size of an axis."""
        self.along(t, axis)
        return t.with_shape((*t.shape[:axis], size, *t.shape[axis + 1 :]))

    def along(self, t: TensorType, axis: int) -> Dim:
        """The size of an axis, which must be one."""
        if not 0 <= axis < t.rank:
            raise ShapeError(f"{self.name}: axis {axis} does not fit {t}")
        return t.shape[axis]

    def piece(self, t: TensorType, axis: int) -> TensorType:
        """The type of a piece along an axis."""
        self.check_axes()
        return self.placed(t, axis, self.among.local(self.along(t, axis), self.axes))


class RankIndex(Ranked):
    """Which piece the rank has of what ``axes`` share, as i64."""

    name = "rank_index"
    asks_python: ClassVar[bool] = True
    exchanged = "index"
    axes: tuple[str, ...]
    mesh: str

    def infer(self) -> TensorType:
        """A scalar."""
        self.check_axes()
        return TensorType(I64)

    def reference(self, *operands: Array) -> Any:
        return np.int64(ranks.index(self.axes))

    def reference_of_ranks(self, pieces: Sequence[Pieces]) -> Sequence[Pieces]:
        return [(np.asarray(np.int64(i)),) for i in range(len(pieces))]


class _Own(Ranked):
    """What a rank makes of its own value, knowing its index."""

    axis: int
    x: Value

    def of_index(self, index: int, *operands: Array) -> Array:
        """The result on the rank with this index."""
        raise IRError(f"{self.name} does not say what ranks get")

    def reference(self, *operands: Array) -> Any:
        return self.of_index(ranks.index(self.axes), *operands)

    def reference_of_ranks(self, pieces: Sequence[Pieces]) -> Sequence[Pieces]:
        return [(self.of_index(i, *given),) for i, given in enumerate(pieces)]

    def first(self, size: Dim) -> Value:
        """The position of the first of the elements of the rank, which are so many."""
        return RankIndex(self.axes, self.mesh) * _number(size)

    def inside(self, first: Value, local: Dim, size: Dim) -> Value | None:
        """Which of the elements count that begin at ``first``; None if all do."""
        if self.count * local == size:
            return None
        vector = TensorType(I64, (local,))
        limit = Broadcast(_number(size), vector.shape, ())
        return Less(Iota(local) + Broadcast(first, vector.shape, ()), limit)


def _number(size: Dim) -> Value:
    return Constant(literal(size, I64)) if isinstance(size, int) else DimSize(size)


def _kept(inside: Value, x: Value, fill: Value, axis: int) -> Value:
    where = Broadcast(inside, x.shape, (axis,))
    return Select(where, x, Broadcast(fill, x.shape, ()))


class ShardOf(_Own):
    """The piece of ``x`` along ``axis`` that the rank has; zeros beyond its end."""

    name = "shard_of"

    def infer(self) -> TensorType:
        """The size of a piece."""
        return self.piece(self.x.type, self.axis)

    def of_index(self, index: int, *operands: Array) -> Array:
        size = self.among.local(operands[0].shape[self.axis], self.axes)
        return part(operands[0], self.axis, index, int(size))

    def lowering(self) -> Value:
        """A gather of elements that follow one another."""
        local, size = self.type.shape[self.axis], self.x.shape[self.axis]
        first = self.first(local)
        at = Iota(local) + Broadcast(first, (local,), ())
        found = Gather(self.x, at, self.axis, mode="clip")
        inside = self.inside(first, local, size)
        zero = Constant(literal(0, self.dtype))
        return found if inside is None else _kept(inside, found, zero, self.axis)


class MaskShard(_Own):
    """A piece ``x`` of an axis of so many elements (``full``), with ``fill`` beyond its end."""

    name = "mask_shard"
    fill: Value
    full: Dim

    def infer(self) -> TensorType:
        """The type of the piece."""
        if self.fill.type != TensorType(self.x.dtype):
            raise ShapeError(
                f"mask_shard: expected a scalar as {self.x.type}, found {self.fill.type}"
            )
        self.check_axes()
        local = self.among.local(self.full, self.axes)
        if self.placed(self.x.type, self.axis, local) != self.x.type:
            raise ShapeError(f"mask_shard: pieces of {self.full} have {local}, found {self.x.type}")
        return self.x.type

    def of_index(self, index: int, *operands: Array) -> Array:
        x, fill = operands
        local = x.shape[self.axis]
        count = min(local, max(0, int(self.full) - index * local))
        out = x.copy()
        out[(slice(None),) * self.axis + (slice(count, None),)] = fill
        return out

    def lowering(self) -> Value:
        """A choice by positions."""
        local = self.x.shape[self.axis]
        inside = self.inside(self.first(local), local, self.full)
        return self.x if inside is None else _kept(inside, self.x, self.fill, self.axis)
