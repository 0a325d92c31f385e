"""Operations on whole arrays in StableHLO: movement, windows, products, folds, sorts, indexing.

An index outside of its axis can't end a program here. Where the language would raise, the nearest
element is read and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dlvm import ops
from dlvm.exporting.formulas import Formula, combining, identities
from dlvm.exporting.inlining import Inline, TypedName
from dlvm.ir import BOOL, I64, Builder, Dim, Function, Op, Param, TensorType, Value, literal
from dlvm.ops import Reduction, Scatter
from dlvm.ops.arrays.scattering import SCATTERS

from .elements import compared, converted, selected
from .spelling import integers, listed
from .text import Text, fixed

Form = Callable[[Text, Any, Sequence[TypedName], Inline], TypedName | tuple[TypedName, ...]]


# -- values from nothing, and movement ------------------------------------------------------------


def constant(t: Text, op: ops.Constant, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """An array that is part of the program."""
    if not op.value.size:
        return t.filled(0, op.type)
    return t.constant(op.value, op.dtype)


def dim(t: Text, op: ops.DimSize, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """A size as a number."""
    return t.size(op.size)


def iota(t: Text, op: ops.Iota, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """Counting; small integers wrap, so that they are made of i64."""
    if op.dtype.is_integer and op.dtype.bits < 64:
        return converted(t, t.iota(op.type.with_dtype(I64), 0), op.dtype)
    return t.iota(op.type, 0)


def reshape(t: Text, op: ops.Reshape, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """Another shape."""
    return t.reshape(xs[0], op.type)


def permute(t: Text, op: ops.Permute, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """The axes in another order."""
    return t.one("transpose", xs, op.type, {"permutation": integers(op.perm)})


def broadcast(t: Text, op: ops.Broadcast, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """Repeated along new axes."""
    return t.broadcast(xs[0], op.type, op.axes)


def concat(t: Text, op: ops.Concat, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """Joined along an axis."""
    return t.one("concatenate", xs, op.type, {"dimension": f"{op.axis} : i64"})


# -- windows --------------------------------------------------------------------------------------


def cut(t: Text, op: ops.Slice, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """A window; steps back are steps forward, reversed."""
    back = [i for i, step in enumerate(op.steps) if step < 0]
    numbers = [*zip(op.starts, op.sizes, op.steps, strict=True)]
    starts = tuple(a + (n - 1) * s if s < 0 else a for a, n, s in numbers)
    steps = tuple(map(abs, op.steps))
    found = window(t, xs[0], starts, op.type, steps)
    return t.one("reverse", (found,), op.type, {"dimensions": integers(back)}) if back else found


def window(
    t: Text, x: TypedName, starts: tuple[Dim, ...], result: TensorType, steps: tuple[int, ...]
) -> TypedName:
    """The elements from ``starts`` on, ``steps`` apart."""
    numbers = [*zip(starts, result.shape, steps, strict=True)]
    if any(n == 0 for n in result.shape):
        return t.filled(0, result)
    ends = tuple(a + (n - 1) * s + 1 for a, n, s in numbers)
    if fixed(TensorType(I64, (*starts, *ends))) and fixed(result):
        said = {"start_indices": starts, "limit_indices": ends, "strides": steps}
        texts = {k: integers(int(n) for n in v) for k, v in said.items()}
        return t.one("slice", (x,), result, texts)
    places = (t.shape(starts), t.shape(ends), t.shape(steps))
    return t.one("real_dynamic_slice", (x, *places), result)


def pad(t: Text, op: ops.Pad, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """Zeros around."""
    zero = t.constant(literal(0, op.dtype), op.dtype)
    none = (0,) * op.type.rank
    if all(isinstance(n, int) for n in (*op.low, *op.high)):
        edges = {"edge_padding_low": op.low, "edge_padding_high": op.high, "interior_padding": none}
        texts = {k: integers(int(n) for n in v) for k, v in edges.items()}
        return t.one("pad", (xs[0], zero), op.type, texts)
    sizes = (t.shape(op.low), t.shape(op.high), t.shape(none))
    return t.one("dynamic_pad", (xs[0], zero, *sizes), op.type)


def update(t: Text, op: ops.Update, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """A window without steps replaced."""
    return t.one("dynamic_update_slice", (*xs, *map(t.size, op.starts)), op.type)


def taken(t: Text, x: TypedName, i: TypedName) -> TypedName:
    """Row ``i`` of the leading axis."""
    shape, zero = x.type.shape, t.size(0)
    single = x.type.with_shape((1, *shape[1:]))
    if fixed(single):
        starts = (i, *(zero for _ in shape[1:]))
        said = {"slice_sizes": integers(int(d) for d in single.shape)}
        found = t.one("dynamic_slice", (x, *starts), single, said)
    else:
        first = _at(t, i, len(shape))
        last = t.one("add", (first, t.shape(single.shape)), first.type)
        ones = t.shape((1,) * len(shape))
        found = t.one("real_dynamic_slice", (x, first, last, ones), single)
    return t.reshape(found, x.type.with_shape(shape[1:]))


def _at(t: Text, i: TypedName, rank: int) -> TypedName:
    row = TensorType(I64, (1,))
    parts = [t.one("reshape", (v,), row) for v in (i, *(t.size(0) for _ in range(rank - 1)))]
    return t.one("concatenate", parts, TensorType(I64, (rank,)), {"dimension": "0 : i64"})


def placed(t: Text, whole: TypedName, row: TypedName, i: TypedName) -> TypedName:
    """The array with row ``i`` of its leading axis replaced."""
    shape = whole.type.shape
    if not fixed(whole.type):
        return _scattered(t, whole, row, i)
    single = t.reshape(row, whole.type.with_shape((1, *shape[1:])))
    starts = (i, *(t.size(0) for _ in shape[1:]))
    return t.one("dynamic_update_slice", (whole, single, *starts), whole.type)


def _scattered(t: Text, whole: TypedName, row: TypedName, i: TypedName) -> TypedName:
    """The same for open sizes, along which IREE updates no slices."""
    at = t.one("reshape", (i,), TensorType(I64, (1,)))
    window = listed(range(whole.type.rank - 1))
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {window}, inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 0>"
    )
    said = {"scatter_dimension_numbers": numbers}
    said |= dict.fromkeys(("indices_are_sorted", "unique_indices"), "true")
    scalar = TensorType(whole.type.dtype)
    body = t.region((scalar, scalar), lambda xs: xs[1:])
    return t.one("scatter", (whole, at, row), whole.type, said, (body,))


# -- products and folds ---------------------------------------------------------------------------


def matmul(t: Text, op: ops.Matmul, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """A product with full precision; halves are summed in f32."""
    if op.type.rank == 2 and 1 in op.type.shape and not all(fixed(x.type) for x in xs):
        return _by_vector(t, op, *xs)
    rank, wide = op.type.rank, op.type.with_dtype(op.dtype.compute)
    batch = listed(range(rank - 2))
    said = {
        "dot_dimension_numbers": f"#stablehlo.dot<lhs_batching_dimensions = {batch}, "
        f"rhs_batching_dimensions = {batch}, lhs_contracting_dimensions = [{rank - 1}], "
        f"rhs_contracting_dimensions = [{rank - 2}]>",
        "precision_config": "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]",
    }
    return converted(t, t.one("dot_general", xs, wide, said), op.dtype)


def _by_vector(t: Text, op: ops.Matmul, left: TypedName, right: TypedName) -> TypedName:
    """An open product with one row or column as sums of products: IREE has no ``dot_general``."""
    compute = op.dtype.compute
    one, many, axis = (right, left, 1) if op.type.shape[1] == 1 else (left, right, 0)
    one, many = converted(t, one, compute), converted(t, many, compute)
    vector = t.reshape(one, TensorType(compute, (many.type.shape[axis],)))
    parts = t.one("multiply", (many, t.broadcast(vector, many.type, (axis,))), many.type)
    zero, scalar = t.constant(literal(0, compute), compute), TensorType(compute)
    body = t.region((scalar, scalar), lambda xs: (t.one("add", xs, scalar),))
    sums = TensorType(compute, (many.type.shape[1 - axis],))
    found = t.one("reduce", (parts, zero), sums, {"dimensions": integers((axis,))}, (body,))
    return t.reshape(converted(t, found, op.dtype), op.type)


def fold(t: Text, op: ops.Fold, xs: Sequence[TypedName], inline: Inline) -> tuple[TypedName, ...]:
    """A fold with a region."""
    return _reduce(t, op.combine_region, op.identities, op.axes, xs, op.result_types, inline)


def reduce(
    t: Text, op: Reduction, xs: Sequence[TypedName], inline: Inline
) -> tuple[TypedName, ...]:
    """A reduction whose state is one number of the type of the elements."""
    types = op.result_types
    return _reduce(t, combining(op), identities(op), op.axes, xs, types, inline)


def _reduce(
    t: Text,
    combine: Function,
    start: Sequence[float],
    axes: tuple[int, ...],
    xs: Sequence[TypedName],
    types: Sequence[TensorType],
    inline: Inline,
) -> tuple[TypedName, ...]:
    dtypes = [x.type.dtype for x in xs]
    init = [t.constant(literal(n, d), d) for n, d in zip(start, dtypes, strict=True)]
    scalars = [TensorType(d) for d in dtypes]
    body = t.region((*scalars, *scalars), lambda params: inline(combine, params))
    return t.op("reduce", (*xs, *init), types, {"dimensions": integers(axes)}, (body,))


def sort(t: Text, op: ops.Sort, xs: Sequence[TypedName], inline: Inline) -> tuple[TypedName, ...]:
    """A stable sort with the positions carried along, NaN last."""
    last = op.operands[0].type.rank - 1
    values, places = op.result_types
    order = _before(values, op.descending)
    compare = t.region([p.type for p in order.params], lambda params: inline(order, params))
    said = {"dimension": f"{last} : i64", "is_stable": "true"}
    return t.op("sort", (*xs, t.iota(places, last)), op.result_types, said, (compare,))


def _before(values: TensorType, descending: bool) -> Function:
    """Whether the first of two elements, with their positions, comes before the second."""
    names = ("a", "b", "i", "j")
    types = (values.dtype, values.dtype, I64, I64)
    params = [Param(TensorType(d), n) for n, d in zip(names, types, strict=True)]
    a, b = params[:2]
    with (builder := Builder()):
        less: Value = ops.Less(b, a) if descending else ops.Less(a, b)
        if values.dtype.is_float:
            less = ops.Or(less, ops.And(ops.Not(ops.Equal(b, b)), ops.Equal(a, a)))
    return Function("before", tuple(params), tuple(builder.ops), (less,))


# -- indexing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Places:
    """Indices with the numbers of the axes that an indexed operation walks."""

    safe: TypedName
    inside: TypedName
    batch: range
    offsets: tuple[int, ...]


def places(t: Text, op: Any, x: TypedName, indices: TypedName) -> Places:
    """Indices wrapped once and brought inside, and whether they were."""
    at = converted(t, indices, I64)
    axis: int = op.axis
    extent = x.type.shape[axis]
    zero = t.filled(0, at.type)
    size = t.broadcast(t.size(extent), at.type, ())
    if indices.type.dtype.kind == "i":
        more = t.one("add", (at, size), at.type)
        at = selected(t, compared(t, "LT", at, zero), more, at)
    above, below = compared(t, "LE", zero, at), compared(t, "LT", at, size)
    inside = t.one("and", (above, below), above.type)
    last = t.one("subtract", (size, t.filled(1, at.type)), at.type)
    clipped = t.one("clamp", (zero, at, last), at.type)
    free = indices.type.rank - op.batch
    offsets = (*range(op.batch, op.axis), *range(op.axis + free, x.type.rank - 1 + free))
    if isinstance(op, Scatter) and op.mode != "clip":
        clipped = selected(t, inside, clipped, size)  # outside, so that nothing is written
    return Places(clipped, inside, range(op.batch), offsets)


def gather(t: Text, op: ops.Gather, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """Reads at indices; outside of the axis the nearest element, or 0 by mode ``drop``."""
    x, indices = xs
    if x.type.shape[op.axis] == 0 or 0 in op.shape:
        return t.filled(0, op.type)
    p = places(t, op, x, indices)
    batch = listed(p.batch)
    numbers = (
        f"#stablehlo.gather<offset_dims = {listed(p.offsets)}, collapsed_slice_dims = "
        f"[{op.axis}], operand_batching_dims = {batch}, start_indices_batching_dims = {batch}, "
        f"start_index_map = [{op.axis}], index_vector_dim = {indices.type.rank}>"
    )
    said = {"dimension_numbers": numbers, "indices_are_sorted": "false"}
    sizes = tuple(1 if i in (*p.batch, op.axis) else d for i, d in enumerate(x.type.shape))
    if fixed(TensorType(I64, sizes)):
        said["slice_sizes"] = integers(int(d) for d in sizes)
        found = t.one("gather", (x, p.safe), op.type, said)
    elif not p.batch:
        axis = {"dim": f"{op.axis} : i64", "batch_dims": "0 : i64"}
        found = t.one("torch_index_select", (x, p.safe), op.type, axis)
    else:
        found = t.one("dynamic_gather", (x, p.safe, t.shape(sizes)), op.type, said)
    if op.mode != "drop":
        return found
    free = indices.type.rank - op.batch
    axes = (*range(op.batch), *range(op.axis, op.axis + free))
    mask = t.broadcast(p.inside, op.type.with_dtype(BOOL), axes)
    return selected(t, mask, found, t.filled(0, op.type))


def scatter(t: Text, op: Scatter, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """Writes at indices; outside of the axis nothing, but for mode ``clip``."""
    x, indices, updates = xs
    if x.type.shape[op.axis] == 0 or 0 in updates.type.shape:
        return x
    p = places(t, op, x, indices)
    batch = listed(p.batch)
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {listed(p.offsets)}, inserted_window_dims = "
        f"[{op.axis}], input_batching_dims = {batch}, scatter_indices_batching_dims = {batch}, "
        f"scatter_dims_to_operand_dims = [{op.axis}], index_vector_dim = {indices.type.rank}>"
    )
    said = {"scatter_dimension_numbers": numbers}
    said |= dict.fromkeys(("indices_are_sorted", "unique_indices"), "false")
    scalar = TensorType(x.type.dtype)
    written = _written(op, scalar)
    body = t.region((scalar, scalar), lambda params: inline(written, params))
    return t.one("scatter", (x, p.safe, updates), op.type, said, (body,))


def _written(op: Scatter, scalar: TensorType) -> Function:
    """What an element becomes: of what it was and of an update."""
    old, new = Param(scalar, "old"), Param(scalar, "new")
    with (builder := Builder()):
        found = op.combine(Formula(()), old, new)
    return Function("write", (old, new), tuple(builder.ops), (found,))


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
    ops.Update: update,
    ops.Matmul: matmul,
    ops.Fold: fold,
    ops.Sum: reduce,
    ops.Prod: reduce,
    ops.Max: reduce,
    ops.Min: reduce,
    ops.Sort: sort,
    ops.Gather: gather,
    **dict.fromkeys(SCATTERS.values(), scatter),
}


def has(op: Op) -> bool:
    """Whether an operation on arrays is written here."""
    if isinstance(op, ops.Sum | ops.Prod | ops.Max | ops.Min):
        return op.dtype.compute == op.dtype
    if isinstance(op, ops.Update):
        return set(op.steps) <= {1}
    return type(op) in FORMS
