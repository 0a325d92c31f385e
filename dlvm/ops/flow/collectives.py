"""What the ranks of a mesh exchange; see ``ranked`` for what they have in common.

Sums are folded in the order of ranks, unless the mesh leaves them to the library of MPI.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from dlvm.base.errors import DTypeError, IRError, ShapeError
from dlvm.ir import (
    F32,
    F64,
    Array,
    Builder,
    Dim,
    Op,
    Param,
    TensorType,
    Value,
    dtype_of,
)
from dlvm.ir.sharding import ranks
from dlvm.ir.sharding.pieces import part
from dlvm.ir.sizes.dims import floordiv
from dlvm.ops.arrays.movement import Permute, Reshape
from dlvm.ops.arrays.sections import Concat, Pad, Slice
from dlvm.ops.elements.casting import converted
from dlvm.ops.elements.elementwise import Add, Maximum, Minimum, Mul
from dlvm.ops.families import wide

from .ranked import Pieces, Ranked

WORDS: dict[str, Any] = {"add": Add, "mul": Mul, "max": Maximum, "min": Minimum}
"""The operation by which what ranks have is joined, for each word of a fold."""


class Collective(Ranked):
    """What ranks exchange: ``xs`` of each, several at once."""

    asks_python: ClassVar[bool] = True
    kind: ClassVar[str] = "permute"
    """What it costs; see ``dlvm.cost.exchange``."""
    xs: tuple[Value, ...]

    def reference(self, *operands: Array) -> Any:
        return tuple(ranks.exchange(self, operands))

    def infer(self) -> tuple[TensorType, ...]:
        """A result for each operand."""
        named = [f for f in ("dims", "full", "gathered", "cut") if f in self.attributes]
        self.check_axes()
        if any(len(getattr(self, f)) != len(self.xs) for f in named):
            raise ShapeError(f"{self.name}: expected {' and '.join(named)} for each operand")
        return tuple(self.given(i, x.type) for i, x in enumerate(self.xs))

    def given(self, i: int, t: TensorType) -> TensorType:
        """The type of the i-th result."""
        raise IRError(f"{self.name} has no shape rule")

    def reference_of_ranks(self, pieces: Sequence[Pieces]) -> Sequence[Pieces]:
        each = [self.meet(i, xs) for i, xs in enumerate(zip(*pieces, strict=True))]
        return list(zip(*each, strict=True)) if each else [()] * len(pieces)

    def meet(self, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        """What each rank gets as the i-th result."""
        raise IRError(f"{self.name} does not say what ranks get")


class SwapRows(Collective):
    """Row ``i`` of ``xs`` goes to rank ``i``; row ``i`` of the result comes from there."""

    name = "swap_rows"
    kind = "all_to_all"
    exchanged = "swap"

    def given(self, i: int, t: TensorType) -> TensorType:
        """The same type, which has a row for each rank."""
        if self.along(t, 0) != self.count:
            raise ShapeError(f"{self.name}: expected {self.count} rows, found {t}")
        return t

    def meet(self, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        return [np.stack([x[r] for x in xs]) for r in range(len(xs))]


class GatherRows(Collective):
    """``xs`` of all ranks, one behind the other along a new first axis."""

    name = "gather_rows"
    kind = "gather"
    exchanged = "gather"

    def given(self, i: int, t: TensorType) -> TensorType:
        """One axis more."""
        self.check_axes()
        return t.with_shape((self.count, *t.shape))

    def meet(self, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        return [np.stack(xs)] * len(xs)


class AddRanks(Collective):
    """The sum of ``xs`` of all ranks, in whatever order the library of MPI adds."""

    name = "add_ranks"
    kind = "reduce"
    exchanged = "sum"

    def given(self, i: int, t: TensorType) -> TensorType:
        """The same type, of f32 or f64."""
        if t.dtype not in (F32, F64):
            raise DTypeError(f"{self.name}: expected f32 or f64, found {t}")
        return t

    def meet(self, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        return [joined(xs, "add")] * len(xs)


def check_word(op: Op, word: str, t: TensorType) -> None:
    """Demand a word of a fold, and elements for which it is defined."""
    if word not in WORDS:
        raise IRError(f"{op.name}: expected one of {', '.join(WORDS)}, found {word!r}")
    if t.dtype.kind not in WORDS[word].accepts:
        raise DTypeError(f"{op.name}: {word} is not defined for {t}")


def joined(xs: Sequence[Array], word: str) -> Array:
    """The fold of arrays, in order; halves are folded in f32 and rounded once."""
    first, *others = map(wide, xs)
    dtype = dtype_of(first)
    assert dtype is not None
    with Builder():  # so that no body that is being written gets it
        join = WORDS[word](*(Param(TensorType(dtype, first.shape)) for _ in "ab"))
    with np.errstate(all="ignore"):
        for x in others:
            first = np.asarray(join.reference(first, x))
    return first.astype(xs[0].dtype)


class AllReduce(Collective):
    """The fold of ``xs`` of all ranks, in their order, by ``word``: add, mul, max or min."""

    name = "all_reduce"
    kind = "reduce"
    word: str = "add"

    def lowering(self) -> Any:
        """Each rank folds a part of all operands together, in order, and gives it to the others.

        What is small all get at once, and each folds all of it.
        """
        out: dict[int, Value] = {}
        for dtype in dict.fromkeys(x.dtype for x in self.xs):
            mine = [i for i, x in enumerate(self.xs) if x.dtype == dtype]
            flat = [Reshape(self.xs[i], (self.xs[i].type.size,)) for i in mine]
            whole = Concat(tuple(flat), 0) if len(flat) > 1 else flat[0]
            total, at = self._joined(whole), 0
            for i in mine:
                t = self.xs[i].type
                out[i] = Reshape(Slice(total, (at,), (t.size,), (1,)), t.shape)
                at = at + t.size
        return tuple(out[i] for i in range(len(self.xs)))

    def _joined(self, x: Value) -> Value:
        size, bytes_ = x.shape[0], x.dtype.bytes
        if self.among.library_sums and self.word == "add" and x.dtype in (F32, F64):
            return AddRanks(self.axes, self.mesh, (x,)).results[0]
        if isinstance(size, int) and size * bytes_ <= SMALL:
            return in_order(rows_of_all(self, x), self.word)
        each = floordiv(size + (self.count - 1), self.count)
        padded = Pad(x, (0,), (each * self.count - size,))
        own = in_order(swapped(self, Reshape(padded, (self.count, each))), self.word)
        every = Reshape(rows_of_all(self, own), (self.count * each,))
        return Slice(every, (0,), (size,), (1,))

    def given(self, i: int, t: TensorType) -> TensorType:
        """The same type."""
        check_word(self, self.word, t)
        return t

    def meet(self, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        return [joined(xs, self.word)] * len(xs)


class AllGather(Collective):
    """The whole of which each rank has a piece along ``dims``, of sizes ``full``."""

    name = "all_gather"
    kind = "gather"
    dims: tuple[int, ...]
    full: tuple[Dim, ...]

    def given(self, i: int, t: TensorType) -> TensorType:
        """The whole size."""
        return self.placed(t, self.dims[i], self.full[i])

    def lowering(self) -> Any:
        """Rows of all ranks, one behind the other along the axis, without their tail."""
        given = zip(self.xs, self.dims, self.full, strict=True)
        return tuple(behind(rows_of_all(self, x), axis, full) for x, axis, full in given)

    def meet(self, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        whole = np.concatenate(xs, self.dims[i])
        return [np.take(whole, range(int(self.full[i])), self.dims[i])] * len(xs)


class ReduceScatter(Collective):
    """The piece along ``dims`` of the fold of ``xs`` of all ranks, in their order."""

    name = "reduce_scatter"
    kind = "scatter"
    dims: tuple[int, ...]
    word: str = "add"

    def given(self, i: int, t: TensorType) -> TensorType:
        """The size of a piece."""
        check_word(self, self.word, t)
        return self.piece(t, self.dims[i])

    def lowering(self) -> Any:
        """Pieces for each rank are swapped, and each folds its own, in order."""
        given = zip(self.xs, self.dims, strict=True)
        return tuple(in_order(swapped(self, split(self, x, a)), self.word) for x, a in given)

    def meet(self, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        axis, total = self.dims[i], joined(xs, self.word)
        local = int(self.among.local(total.shape[axis], self.axes))
        return [part(total, axis, r, local) for r in range(len(xs))]


class AllToAll(Collective):
    """Pieces along ``gathered`` axes, of sizes ``full``, become pieces along ``cut`` axes."""

    name = "all_to_all"
    kind = "all_to_all"
    gathered: tuple[int, ...]
    cut: tuple[int, ...]
    full: tuple[Dim, ...]

    def given(self, i: int, t: TensorType) -> TensorType:
        """The whole of one axis, a piece of the other."""
        return self.piece(self.placed(t, self.gathered[i], self.full[i]), self.cut[i])

    def lowering(self) -> Any:
        """Pieces for each rank are swapped, and put behind one another along the other axis."""
        given = zip(self.xs, self.gathered, self.cut, self.full, strict=True)
        return tuple(
            behind(swapped(self, split(self, x, cut)), axis, full) for x, axis, cut, full in given
        )

    def meet(self, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        whole = np.concatenate(xs, self.gathered[i])
        whole = np.take(whole, range(int(self.full[i])), self.gathered[i])
        local = int(self.among.local(whole.shape[self.cut[i]], self.axes))
        return [part(whole, self.cut[i], r, local) for r in range(len(xs))]


class PermuteRanks(Collective):
    """``xs`` of another rank: that with index ``i`` gets those of ``sources[i]``."""

    name = "permute_ranks"
    exchanged = "send"
    sources: tuple[int, ...]

    def given(self, i: int, t: TensorType) -> TensorType:
        """The same type."""
        if sorted(self.sources) != list(range(self.count)):
            raise IRError(f"{self.name}: {self.sources} is no order of {self.count} ranks")
        return t

    def meet(self, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        return [xs[s].copy() for s in self.sources]  # the other rank goes on with its own


# -- exchanges in rows, which machine code does itself --------------------------------------------

SMALL = 1024
"""Bytes of a sum that ranks give to all others instead of a part to each."""


def rows_of_all(op: Ranked, x: Value) -> Value:
    """What all ranks have, along a new first axis."""
    return GatherRows(op.axes, op.mesh, (x,)).results[0]


def swapped(op: Ranked, rows: Value) -> Value:
    """A row from each rank, for one that goes to each."""
    return SwapRows(op.axes, op.mesh, (rows,)).results[0]


def split(op: Ranked, x: Value, axis: int) -> Value:
    """The pieces along an axis, along a new first axis; zeros behind the end."""
    size = x.shape[axis]
    local = op.among.local(size, op.axes)
    ends = tuple(local * op.count - size if a == axis else 0 for a in range(x.type.rank))
    padded = Pad(x, (0,) * x.type.rank, ends) if any(e != 0 for e in ends) else x
    rows = Reshape(padded, (*x.shape[:axis], op.count, local, *x.shape[axis + 1 :]))
    return moved_axis(rows, axis, 0)


def behind(rows: Value, axis: int, full: Dim) -> Value:
    """Rows along a first axis put behind one another along another one, as many as count."""
    (count, *rest) = rows.shape
    one = moved_axis(rows, 0, axis)
    shape = (*rest[:axis], count * rest[axis], *rest[axis + 1 :])
    whole = Reshape(one, shape)
    sizes = (*rest[:axis], full, *rest[axis + 1 :])
    return Slice(whole, (0,) * len(sizes), sizes, (1,) * len(sizes))


def moved_axis(x: Value, source: int, target: int) -> Value:
    """An axis put in another place."""
    order = [a for a in range(x.type.rank) if a != source]
    order.insert(target, source)
    return x if order == sorted(order) else Permute(x, tuple(order))


def in_order(rows: Value, word: str) -> Value:
    """The fold of rows from first to last; halves are folded in f32 and rounded once."""
    dtype, sizes = rows.dtype, (1, *rows.shape[1:])
    steps = (1,) * len(sizes)
    found = [
        converted(Slice(rows, (i, *(0,) * (len(sizes) - 1)), sizes, steps), dtype.compute)
        for i in range(int(rows.shape[0]))
    ]
    total = found[0]
    for x in found[1:]:
        total = WORDS[word](total, x)
    return Reshape(converted(total, dtype), sizes[1:])
