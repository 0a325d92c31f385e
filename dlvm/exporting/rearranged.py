"""Operations on arrays, written in gathers, scans and selections for formats without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm import ops
from dlvm.ir import I64, Builder, Dim, Function, Param, TensorType, Value, splat, zeros
from dlvm.ir.sizes.dims import product
from dlvm.ops import Broadcast, Gather, Less, LessEqual, Permute, Reshape, Select
from dlvm.ops.arrays.maps import as_gathers

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
    ops.IndexMap: as_gathers,
    ops.Exchange: exchange,
    ops.SearchSorted: searchsorted,
}
