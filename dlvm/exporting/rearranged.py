"""Operations on arrays, written in gathers, scans and selections for formats without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm import ops
from dlvm.ir import I64, Builder, Dim, Function, Param, TensorType, Value, splat, zeros
from dlvm.ir.dims import product
from dlvm.ops import Broadcast, Gather, Iota, Less, LessEqual, Permute, Reshape, Select

MOST_BITS = 31
"""Bits of a size that is open: a row that is searched has fewer than 2**31 elements."""


def number(size: Dim, like: TensorType) -> Value:
    """A size as an i64 in every element."""
    return Broadcast(ops.DimSize(size), like.shape, ())


def moved(x: Value, axis: int, to: int) -> Value:
    """The axis brought to another place, the others in order."""
    order = [i for i in range(x.type.rank) if i != axis]
    order.insert(to, axis)
    return Permute(x, tuple(order))


def diagonal(op: ops.Diagonal) -> Value:
    """Row ``i`` at column ``i``: a gather with the rows as batch."""
    rank = op.x.type.rank
    n, rest = op.x.shape[-1], op.x.shape[:-2]
    x = Permute(op.x, (rank - 2, rank - 1, *range(rank - 2)))
    at = Reshape(Iota(n), (n, 1))
    picked = Reshape(Gather(x, at, 1, 1, "clip"), (n, *rest))
    return moved(picked, 0, rank - 2)


def patches(op: ops.Patches) -> Value:
    """A gather along each axis at ``q*step + p*dilation``, whose taps then go last."""
    x, rank = op.x, op.x.type.rank
    numbers = zip(op.axes, op.sizes, op.steps, op.dilations, strict=True)
    for i, (axis, size, step, dilation) in enumerate(numbers):
        shape = (op.shape[axis], size)
        like = TensorType(I64, shape)
        q, p = Broadcast(Iota(shape[0]), shape, (0,)), Broadcast(Iota(size), shape, (1,))
        at = q * splat(step, like) + p * splat(dilation, like)
        x = moved(Gather(x, at, axis, 0, "clip"), axis + 1, rank + i)
    return x


def unpatch(op: ops.Unpatch) -> Value:
    """For each tap the gather of the position whose window has it there; elsewhere 0."""
    x, rank = op.x, op.type.rank - len(op.axes)
    numbers = zip(op.axes, op.extents, op.steps, op.dilations, strict=True)
    for i, (axis, extent, step, dilation) in enumerate(numbers):
        size, count = x.shape[rank + i], x.shape[axis]
        at = _positions(extent, size, count, step, dilation)
        x = moved(x, rank + i, 0)
        x = moved(Gather(x, at, axis + 1, 1, "drop"), 0, rank + i)
    return x


def _positions(extent: Dim, size: Dim, count: Dim, step: int, dilation: int) -> Value:
    """For each tap and place the window there, or ``count`` where there is none."""
    like = TensorType(I64, (size, extent))
    place, tap = Broadcast(Iota(extent), like.shape, (1,)), Broadcast(Iota(size), like.shape, (0,))
    offset, each = place - tap * splat(dilation, like), splat(step, like)
    found, zero = ops.FloorDiv(offset, each), zeros(like)
    exact = ops.Equal(found * each, offset)
    inside = ops.And(LessEqual(zero, found), Less(found, number(count, like)))
    return Select(ops.And(exact, inside), found, number(count, like))


def update(op: ops.Update) -> Value:
    """The window spread over the whole by gathers, and chosen where it lies."""
    y: Value = op.y
    inside = splat(True, op.type.with_dtype(ops.Equal(op.x, op.x).dtype))
    for axis, (start, step) in enumerate(zip(op.starts, op.steps, strict=True)):
        extent, size = op.x.shape[axis], op.y.shape[axis]
        if start == 0 and step == 1 and size == extent:
            continue
        like = TensorType(I64, (extent,))
        offset = Iota(extent) - number(start, like)
        at = ops.FloorDiv(offset, splat(step, like))
        exact = ops.Equal(at * splat(step, like), offset)
        fits = ops.And(LessEqual(zeros(like), at), Less(at, number(size, like)))
        here = ops.And(exact, fits)
        at = Select(here, at, zeros(like))
        y = Gather(y, at, axis, 0, "clip") if size != 0 else _nothing(y, axis, extent)
        inside = ops.And(inside, Broadcast(here, op.shape, (axis,)))
    return Select(inside, y, op.x)


def _nothing(y: Value, axis: int, extent: Dim) -> Value:
    shape = (*y.shape[:axis], extent, *y.shape[axis + 1 :])
    return zeros(y.type.with_shape(shape))


def exchange(op: ops.Exchange) -> tuple[Value, ...]:
    """One update after the other in a scan, which gathers what is there and writes."""
    batch, axis = op.batch, op.axis
    lead, free = op.indices.shape[:batch], op.indices.shape[batch:]
    count = product(free)
    at = moved(Reshape(op.indices, (*lead, count)), batch, 0)
    behind = op.x.shape[axis + 1 :]
    flat = Reshape(op.updates, (*op.x.shape[:axis], count, *behind))
    rows = moved(flat, axis, 0)
    body = _exchanging(op, at, rows)
    scan = ops.Scan((op.x,), (at, rows), (), body, count, op.reverse)
    after, found = scan.results
    return after, Reshape(moved(found, 0, axis), op.updates.shape)


def _exchanging(op: ops.Exchange, at: Value, rows: Value) -> Function:
    x, i = Param(op.x.type, "x"), Param(at.type.with_shape(at.shape[1:]), "i")
    row = Param(rows.type.with_shape(rows.shape[1:]), "row")
    where = (op.axis, op.batch, op.mode)
    with (builder := Builder()):
        one = Reshape(i, (*i.shape, 1))
        old = Gather(x, one, *where)
        shape = old.shape
        new = ops.ScatterSet(x, one, Reshape(row, shape), *where)
        found = Reshape(old, row.shape)
    return Function("exchange", (x, i, row), tuple(builder.ops), (new, found))


def searchsorted(op: ops.SearchSorted) -> Value:
    """By halving, from the largest power of two on, all keys of a row at once."""
    lead, n = op.a.shape[:-1], op.a.shape[-1]
    last = len(lead)
    keys = Reshape(op.v, (*lead, product(op.v.shape[last:])))
    like = keys.type.with_dtype(I64)
    found, most = zeros(like), number(n, like)
    bits = n.bit_length() if isinstance(n, int) else MOST_BITS
    for step in (1 << k for k in reversed(range(bits))):
        probe = found + splat(step, like)
        at = ops.Minimum(probe, most) - splat(1, like)
        x = Gather(op.a, at, last, last, "clip")
        passed = ops.Not(_before(keys, x)) if op.right else _before(x, keys)
        found = Select(ops.And(LessEqual(probe, most), passed), probe, found)
    return Reshape(found, op.v.shape)


def _before(x: Value, y: Value) -> Value:
    """Whether x comes strictly before y, NaN being last."""
    if x.dtype.kind == "b":
        return ops.And(ops.Not(x), y)
    less = Less(x, y)
    if not x.dtype.is_float:
        return less
    return ops.Or(less, ops.And(ops.Not(ops.Equal(y, y)), ops.Equal(x, x)))


REARRANGED: dict[type, Callable[[Any], Any]] = {
    ops.Diagonal: diagonal,
    ops.Patches: patches,
    ops.Unpatch: unpatch,
    ops.Update: update,
    ops.Exchange: exchange,
    ops.SearchSorted: searchsorted,
}
