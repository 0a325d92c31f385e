"""Operations on whole arrays in ONNX: movement, windows, products, folds, sorts, indexing.

An index outside of its axis can't end a program here. Where the language would raise, the nearest
element is read and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm import ops
from dlvm.exporting.inlining import TypedName
from dlvm.ir import BOOL, I32, I64, U8, DType, Op, TensorType
from dlvm.ir.sizes.dims import product
from dlvm.ops import Scatter
from dlvm.ops.arrays.scattering import SCATTERS

from .nodes import Nodes

Form = Callable[[Nodes, Any, Sequence[TypedName]], "TypedName | tuple[TypedName, ...]"]
REDUCTIONS: dict[type[Op], str] = {
    ops.Sum: "ReduceSum",
    ops.Prod: "ReduceProd",
    ops.Max: "ReduceMax",
    ops.Min: "ReduceMin",
    ops.LogSumExp: "ReduceLogSumExp",
}
WRITES: dict[type[Op], str] = {
    cls: "none" if how == "set" else how for how, cls in SCATTERS.items()
}


def constant(n: Nodes, op: ops.Constant, xs: Sequence[TypedName]) -> TypedName:
    """An array of the program."""
    return n.constant(op.value, op.dtype)


def dim(n: Nodes, op: ops.DimSize, xs: Sequence[TypedName]) -> TypedName:
    """A size as a number."""
    return n.size(op.size)


def iota(n: Nodes, op: ops.Iota, xs: Sequence[TypedName]) -> TypedName:
    """Counting."""
    return n.cast(count(n, op.size), op.dtype)


def count(n: Nodes, size: Any) -> TypedName:
    """The positions along an axis."""
    return n.one("Range", (n.size(0), n.size(size), n.size(1)), TensorType(I64, (size,)))


def reshape(n: Nodes, op: ops.Reshape, xs: Sequence[TypedName]) -> TypedName:
    """Another shape."""
    return n.reshape(xs[0], op.shape)


def permute(n: Nodes, op: ops.Permute, xs: Sequence[TypedName]) -> TypedName:
    """The axes in another order."""
    return n.permute(xs[0], op.perm)


def broadcast(n: Nodes, op: ops.Broadcast, xs: Sequence[TypedName]) -> TypedName:
    """Ones for the new axes, then expanded."""
    return spread(n, xs[0], op.type, op.axes)


def spread(n: Nodes, x: TypedName, t: TensorType, axes: Sequence[int]) -> TypedName:
    """Repeats along the axes that are not among those given."""
    ones = [t.shape[i] if i in axes else 1 for i in range(t.rank)]
    if tuple(ones) != x.type.shape:
        x = n.reshape(x, ones)
    return x if x.type.shape == t.shape else n.one("Expand", (x, n.shape(t.shape)), t)


def concat(n: Nodes, op: ops.Concat, xs: Sequence[TypedName]) -> TypedName:
    """Joined along an axis."""
    return n.one("Concat", xs, op.type, axis=op.axis)


def cut(n: Nodes, op: ops.Slice, xs: Sequence[TypedName]) -> TypedName:
    """A window; ends of steps back are counted from the end, so that they may lie before 0."""
    if any(size == 0 for size in op.sizes):
        return n.filled(0, op.type)
    rows = [*zip(op.starts, op.sizes, op.steps, op.x.shape, strict=True)]
    ends = [
        a + (size - 1) * s + 1 if s > 0 else a + (size - 1) * s - 1 - extent
        for a, size, s, extent in rows
    ]
    axes = n.shape(tuple(range(len(rows))))
    return n.one(
        "Slice", (xs[0], n.shape(op.starts), n.shape(ends), axes, n.shape(op.steps)), op.type
    )


def pad(n: Nodes, op: ops.Pad, xs: Sequence[TypedName]) -> TypedName:
    """Zeros around."""
    return n.one("Pad", (xs[0], n.shape((*op.low, *op.high)), n.number(0, op.dtype)), op.type)


def matmul(n: Nodes, op: ops.Matmul, xs: Sequence[TypedName]) -> TypedName:
    """A product; halves are multiplied in f32."""
    wide = op.dtype.compute
    found = n.one("MatMul", [n.cast(x, wide) for x in xs], op.type.with_dtype(wide))
    return n.cast(found, op.dtype)


def reduce(n: Nodes, op: Any, xs: Sequence[TypedName]) -> TypedName:
    """A fold over axes; extremes of bools are those of numbers."""
    x, axes, t = xs[0], tuple(op.axes), op.type
    if not axes and not isinstance(op, ops.LogSumExp):
        return x
    x = n.cast(x, U8) if t.dtype.kind == "b" else x
    found = n.one(REDUCTIONS[type(op)], (x, n.shape(axes)), t.with_dtype(x.type.dtype), keepdims=0)
    return n.cast(found, t.dtype)


def extreme_at(n: Nodes, op: Any, xs: Sequence[TypedName]) -> TypedName:
    """The position of an extreme, over one axis or over several laid in a row."""
    x, axes = xs[0], tuple(op.axes)
    kept = [i for i in range(x.type.rank) if i not in axes]
    x = n.permute(x, (*kept, *axes))
    rest = x.type.shape[: len(kept)]
    if len(axes) != 1:
        x = n.reshape(x, (*rest, product(x.type.shape[len(kept) :])))
    x = n.cast(x, plain(x.type.dtype))
    kind = "ArgMax" if isinstance(op, ops.ArgMax) else "ArgMin"
    return n.one(kind, (x,), TensorType(I64, rest), axis=len(kept), keepdims=0)


def plain(dtype: DType) -> DType:
    """A type in which runtimes order elements."""
    return I32 if dtype.kind == "b" or (dtype.bits < 32 and dtype.is_integer) else dtype


def running_sum(n: Nodes, op: ops.CumulativeSum, xs: Sequence[TypedName]) -> TypedName:
    """A running sum."""
    axis = n.constant(np.asarray(op.axis, np.int64), I64)
    given = {"exclusive": int(op.exclusive), "reverse": int(op.reverse)}
    return n.one("CumSum", (xs[0], axis), op.type, **given)


def sort(n: Nodes, op: ops.Sort, xs: Sequence[TypedName]) -> tuple[TypedName, ...]:
    """All of the largest or smallest elements, in order; of equals the first comes first."""
    values, places = op.result_types
    x = n.cast(xs[0], plain(values.dtype))
    k = n.shape((values.shape[-1],))
    largest = int(op.descending)
    types = (x.type, places)
    found, at = n.op("TopK", (x, k), types, axis=-1, largest=largest, sorted=1)
    return n.cast(found, values.dtype), at


# -- indexing -------------------------------------------------------------------------------------


def resolved(n: Nodes, op: Any, x: TypedName, indices: TypedName) -> tuple[TypedName, TypedName]:
    """Indices wrapped once and brought inside, and whether they were."""
    at = n.cast(indices, I64)
    axis: int = op.axis
    size, zero, t = n.size(x.type.shape[axis]), n.size(0), at.type
    if indices.type.dtype.kind == "i":
        below = n.one("Less", (at, zero), t.with_dtype(BOOL))
        at = n.one("Where", (below, n.one("Add", (at, size), t), at), t)
    above = n.one("LessOrEqual", (zero, at), t.with_dtype(BOOL))
    inside = n.one("And", (above, n.one("Less", (at, size), above.type)), above.type)
    last = n.one("Sub", (size, n.size(1)), TensorType(I64))
    clipped = n.one("Min", (n.one("Max", (at, zero), t), last), t)
    return clipped, inside


def fronted(n: Nodes, x: TypedName, axis: int, batch: int) -> TypedName:
    """The axis brought right behind the batch."""
    rest = [i for i in range(batch, x.type.rank) if i != axis]
    return n.permute(x, (*range(batch), axis, *rest))


def gather(n: Nodes, op: ops.Gather, xs: Sequence[TypedName]) -> TypedName:
    """Reads at indices; outside of the axis the nearest element, or 0 by mode ``drop``."""
    x, indices = xs
    if x.type.shape[op.axis] == 0 or 0 in op.shape:
        return n.filled(0, op.type)
    at, inside = resolved(n, op, x, indices)
    free = indices.type.rank - op.batch
    if op.batch == 0:
        picked = n.one("Gather", (x, at), op.type, axis=op.axis)
    else:
        moved = fronted(n, x, op.axis, op.batch)
        vectors = n.reshape(at, (*at.type.shape, 1))
        shape = (*at.type.shape, *moved.type.shape[op.batch + 1 :])
        rows = n.one("GatherND", (moved, vectors), x.type.with_shape(shape), batch_dims=op.batch)
        picked = n.permute(rows, _behind(op, free, op.type.rank))
    if op.mode != "drop":
        return picked
    axes = (*range(op.batch), *range(op.axis, op.axis + free))
    mask = spread(n, inside, op.type.with_dtype(BOOL), axes)
    return n.one("Where", (mask, picked, n.number(0, op.dtype)), op.type)


def _behind(op: Any, free: int, rank: int) -> list[int]:
    """From axes batch, indices, before, after to batch, before, indices, after."""
    b, before = op.batch, op.axis - op.batch
    points = [*range(b, b + free)]
    earlier = [*range(b + free, b + free + before)]
    return [*range(b), *earlier, *points, *range(b + free + before, rank)]


def scatter(n: Nodes, op: Scatter, xs: Sequence[TypedName]) -> TypedName:
    """Writes at indices; a row behind the last takes what is outside."""
    x, indices, updates = xs
    if x.type.shape[op.axis] == 0 or 0 in updates.type.shape:
        return x
    at, inside = resolved(n, op, x, indices)
    free, batch = indices.type.rank - op.batch, op.batch
    data = fronted(n, x, op.axis, batch)
    whole, shape = data.type, data.type.shape
    order = _behind(op, free, updates.type.rank)
    rows = n.permute(updates, [order.index(i) for i in range(len(order))])
    if op.mode != "clip":
        more = whole.with_shape((*shape[:batch], 1, *shape[batch + 1 :]))
        grown = whole.with_shape((*shape[:batch], shape[batch] + 1, *shape[batch + 1 :]))
        data = n.one("Concat", (data, n.filled(0, more)), grown, axis=batch)
        at = n.one("Where", (inside, at, n.size(shape[batch])), at.type)
    vectors = _vectors(n, at, batch)
    found = n.one("ScatterND", (data, vectors, rows), data.type, reduction=WRITES[type(op)])
    if op.mode != "clip":
        ends = (n.shape((0,)), n.shape((shape[batch],)), n.shape((batch,)))
        found = n.one("Slice", (found, *ends), whole)
    back = [*range(batch), *range(batch + 1, op.axis + 1), batch, *range(op.axis + 1, x.type.rank)]
    return n.permute(found, back)


def _vectors(n: Nodes, at: TypedName, batch: int) -> TypedName:
    """Each index with the position in the batch before it."""
    shape = at.type.shape
    single = at.type.with_shape((*shape, 1))
    lanes = [spread(n, count(n, shape[i]), at.type, (i,)) for i in range(batch)]
    parts = [n.reshape(v, single.shape) for v in (*lanes, at)]
    return n.one("Concat", parts, at.type.with_shape((*shape, batch + 1)), axis=len(shape))


FORMS: dict[type[Op], Form] = {
    ops.Constant: constant,
    ops.DimSize: dim,
    ops.Iota: iota,
    ops.Reshape: reshape,
    ops.Permute: permute,
    ops.Broadcast: broadcast,
    ops.Concat: concat,
    ops.Slice: cut,
    ops.Pad: pad,
    ops.Matmul: matmul,
    **dict.fromkeys(REDUCTIONS, reduce),
    ops.ArgMax: extreme_at,
    ops.ArgMin: extreme_at,
    ops.CumulativeSum: running_sum,
    ops.Sort: sort,
    ops.Gather: gather,
    **dict.fromkeys(WRITES, scatter),
}


def has(op: Op) -> bool:
    """Whether an operation on arrays is written here."""
    if type(op) in REDUCTIONS or isinstance(op, ops.CumulativeSum):
        return op.type.dtype.compute == op.type.dtype
    return type(op) in FORMS
