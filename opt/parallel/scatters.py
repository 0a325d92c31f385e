"""Many updates at indices, sorted by where they go: then each place is a run of neighbours.

Equal indices keep their order, so what a place becomes is the fold of its old value and its updates
in order, in chunks of what was sorted. The last update of a place needs no fold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dlvm.ir import I32, I64, U64, Dim, DType, Function, Op, Value, splat, zeros
from dlvm.ir.rewrite import Env, transform
from dlvm.ir.sizes.dims import product
from dlvm.ops import (
    And,
    Broadcast,
    DimSize,
    Equal,
    Exchange,
    Gather,
    Iota,
    Less,
    LessEqual,
    Maximum,
    Minimum,
    Not,
    Or,
    Permute,
    Reshape,
    Scatter,
    ScatterSet,
    SearchSorted,
    Select,
)
from dlvm.ops.arrays.segments import PAIRS, SegmentedFold, joined
from dlvm.ops.elements.casting import converted
from dlvm.passes import function_pass

from .scans import MOST, is_long
from .sorts import order_of

FEW, ALONE = 32, 64
"""Places beside one another that are few, and the updates that one thread makes of few places."""


@function_pass
def sort_scatters(fn: Function) -> Function:
    """Sort updates at indices where one thread would make many, one after the other."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Scatter)
        known = isinstance(op, ScatterSet | Exchange) or op.word in PAIRS
        if not known or op.indices.dtype == U64 or not _are_many(op):
            return None
        x, indices, updates = (env.get(v, v) for v in op.operands)
        return _Sorted.of(op, x, indices, updates).results(op)

    return transform(fn, visit, on=Scatter)


def _are_many(op: Scatter) -> bool:
    """Whether a thread would make more updates than are worth sorting, or nobody knows."""
    after = op.axis + op.indices.type.rank - op.batch
    shape = op.updates.shape
    count = product(shape[op.axis : after])
    beside = product((*shape[: op.axis], *shape[after:]))
    few = isinstance(beside, int) and beside < FEW
    return is_long(count) or (few and isinstance(count, int) and ALONE < count <= MOST)


@dataclass(frozen=True)
class _Sorted:
    """A table of rows, updates of rows, and where these go: ``shape`` is that of the permuted x.

    ``order`` sorts the updates, ``place`` is the row that each goes to, one past the last for none.
    """

    x: Value
    updates: Value
    order: Value
    place: Value
    perm: tuple[int, ...]
    shape: tuple[Dim, ...]
    back: tuple[tuple[int, ...], tuple[Dim, ...]]

    @staticmethod
    def of(op: Scatter, x: Value, indices: Value, updates: Value) -> _Sorted:
        """Of an update: batch axes and the indexed one become rows, all others columns."""
        batch, axis, rank, more = op.batch, op.axis, op.x.type.rank, op.indices.type.rank - op.batch
        perm = (*range(batch), axis, *range(batch, axis), *range(axis + 1, rank))
        taken = range(axis, axis + more)
        others = (*range(batch, axis), *range(axis + more, op.updates.type.rank))
        order = (*range(batch), *taken, *others)
        size, rest = op.x.shape[axis], product(tuple(op.x.shape[a] for a in perm[batch + 1 :]))
        rows, count = product(op.x.shape[:batch]) * size, product(op.indices.shape)
        turned, table = Permute(x, perm), Permute(updates, order)
        place = _places(op, indices, size, rows)
        keys = Reshape(_reversed(op, place), (count,))
        sorted_ = order_of(keys)
        if _backwards(op):
            sorted_ = _filled(count - 1, sorted_) - sorted_
        found = Gather(Reshape(place, (count,)), sorted_, 0, 0, "clip")
        x, updates = Reshape(turned, (rows, rest)), Reshape(table, (count, rest))
        return _Sorted(x, updates, sorted_, found, perm, turned.shape, (order, table.shape))

    def results(self, op: Scatter) -> tuple[Value, ...]:
        """What the operation gives."""
        rows, _ = self.x.shape
        count = self.updates.shape[0]
        moved = Gather(self.updates, self.order, 0, 0, "clip")
        first = self._starts(count)
        everywhere = Broadcast(first, moved.shape, (0,))
        last = Minimum(self.place, _filled(rows - 1, self.place))
        old = Gather(self.x, Maximum(last, zeros(last.type)), 0, 0, "clip")
        if isinstance(op, ScatterSet | Exchange):
            states: Value = moved
        else:
            wide = op.dtype.compute
            new, start = converted(moved, wide), converted(old, wide)
            begun = Select(everywhere, joined(op.word, start, new), new)
            states = converted(SegmentedFold(begun, everywhere, 0, op.word), op.dtype)
        out = self._placed(states)
        if not isinstance(op, Exchange):
            return (out,)
        position = Iota(count, self.order.dtype)
        earlier = Maximum(position - splat(1, position.type), zeros(position.type))
        found = Select(everywhere, old, Gather(moved, earlier, 0, 0, "clip"))
        if op.mode == "drop":
            inside = Less(self.place, _filled(rows, self.place))
            found = Select(Broadcast(inside, found.shape, (0,)), found, zeros(found.type))
        found = Gather(found, order_of(self.order), 0, 0, "clip")
        order, shape = self.back
        return out, Permute(Reshape(found, shape), _inverse(order))

    def _starts(self, count: Dim) -> Value:
        """Whether an update is the first that goes to its place."""
        position = Iota(count, self.order.dtype)
        zero = zeros(position.type)
        before = Maximum(position - splat(1, position.type), zero)
        same = Equal(self.place, Gather(self.place, before, 0, 0, "clip"))
        return Or(Equal(position, zero), Not(same))

    def _placed(self, states: Value) -> Value:
        """The table: of each row the last state of its run, or what it was."""
        rows, _ = self.x.shape
        row = Iota(rows, self.place.dtype)
        behind = converted(SearchSorted(self.place, row, right=True), self.place.dtype)
        last = behind - splat(1, behind.type)
        safe = Maximum(last, zeros(last.type))
        there = Equal(Gather(self.place, safe, 0, 0, "clip"), row)
        there = Broadcast(And(LessEqual(zeros(last.type), last), there), self.x.shape, (0,))
        found = Select(there, Gather(states, safe, 0, 0, "clip"), self.x)
        return Permute(Reshape(found, self.shape), _inverse(self.perm))


def _places(op: Scatter, indices: Value, size: Dim, rows: Dim) -> Value:
    """The row of the table that each index names, one past the last for what is dropped."""
    dtype: DType = I32 if isinstance(rows, int) and rows < 1 << 30 else I64
    if op.mode == "error":
        found: Value = Gather(Iota(size, dtype), indices, 0, 0, "error")
        inside = None
    else:
        wrapped = converted(indices, I64)
        zero, whole = zeros(wrapped.type), _filled(size, wrapped)
        wrapped = Select(Less(wrapped, zero), wrapped + whole, wrapped)
        inside = And(LessEqual(zero, wrapped), Less(wrapped, whole))
        safe = Maximum(Minimum(wrapped, whole - splat(1, whole.type)), zero)
        found = converted(safe, dtype)
    lead = op.indices.shape[: op.batch]
    if lead:
        number = Reshape(Iota(product(lead), dtype), lead)
        base = Broadcast(number, found.type.shape, tuple(range(op.batch)))
        found = found + base * _filled(size, found)
    if op.mode == "drop" and inside is not None:
        found = Select(inside, found, _filled(rows, found))
    return found


def _backwards(op: Scatter) -> bool:
    return isinstance(op, Exchange) and op.reverse


def _reversed(op: Scatter, place: Value) -> Value:
    """The places in the order in which updates are made."""
    count = product(place.type.shape)
    flat = Reshape(place, (count,))
    if not _backwards(op):
        return flat
    position = Iota(count, I64)
    return Gather(flat, _filled(count - 1, position) - position, 0, 0, "clip")


def _filled(size: Dim, like: Value) -> Value:
    """A size as a number, everywhere."""
    return Broadcast(converted(DimSize(size), like.dtype), like.type.shape, ())


def _inverse(perm: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(perm.index(a) for a in range(len(perm)))
