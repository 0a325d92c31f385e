"""Reading and writing at places that are computed: slices, gathers and scatters.

StableHLO brings the start of a slice inside and leaves out updates that are outside. A gather or
scatter of whole rows along one axis is one of ours; any other goes by positions in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dlvm import ops
from dlvm.ir import BOOL, I64, TensorType, Value, splat, zeros
from dlvm.ops.arrays.scattering import SCATTERS

from .table import Place, Results, permuted, reads, reshaped, simple
from .tree import Block, Node, unreadable

WRITES = {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}


def wide(x: Value) -> Value:
    """Indices as i64."""
    return x if x.dtype == I64 else ops.Cast(x, I64)


def inside(start: Value, most: int) -> Value:
    """A start brought between 0 and the last one that fits."""
    low, high = zeros(start.type), splat(most, start.type)
    return ops.Minimum(ops.Maximum(start, low), high)


# -- slices ---------------------------------------------------------------------------------------


@reads("stablehlo.dynamic_slice")
def dynamic_slice(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A window that starts at places which are computed."""
    x, starts = xs[0], xs[1:]
    for axis, (start, size) in enumerate(zip(starts, node.types[0].shape, strict=True)):
        if size != x.shape[axis]:
            x = ops.Gather(x, _run_of(start, int(size), int(x.shape[axis])), axis, 0, "clip")
    return x


def _run_of(start: Value, size: int, extent: int) -> Value:
    """The indices of a window along an axis."""
    first = inside(wide(start), extent - size)
    like = TensorType(I64, (size,))
    return ops.Broadcast(first, like.shape, ()) + ops.Iota(size)


@reads("stablehlo.dynamic_update_slice")
def dynamic_update_slice(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """The array with such a window replaced."""
    x, y, *starts = xs
    return _updated(x, y, starts, 0)


def _updated(x: Value, y: Value, starts: Sequence[Value], axis: int) -> Value:
    """Along each axis on which the window is smaller: what is there, changed, and put back."""
    while axis < x.type.rank and x.shape[axis] == y.shape[axis]:
        axis += 1
    if axis == x.type.rank:
        return y
    at = _run_of(starts[axis], int(y.shape[axis]), int(x.shape[axis]))
    if x.shape[axis + 1 :] != y.shape[axis + 1 :]:
        y = _updated(ops.Gather(x, at, axis, 0, "clip"), y, starts, axis + 1)
    return ops.ScatterSet(x, at, y, axis, 0, "clip")


# -- gathers --------------------------------------------------------------------------------------


class Numbers:
    """The axes of a gather or a scatter by their roles, under one set of names for both."""

    def __init__(self, found: dict[str, Any], rank: int, starts: Value) -> None:
        def axes(*names: str) -> list[int]:
            given: list[list[int]] = [found[n] for n in names if n in found]
            return given[0] if given else []

        self.window = axes("offset_dims", "update_window_dims")
        self.dropped = axes("collapsed_slice_dims", "inserted_window_dims")
        self.batch = axes("operand_batching_dims", "input_batching_dims")
        self.start_batch = axes("start_indices_batching_dims", "scatter_indices_batching_dims")
        self.indexed = axes("start_index_map", "scatter_dims_to_operand_dims")
        self.vector = found.get("index_vector_dim", 0)
        self.kept = [i for i in range(rank) if i not in (*self.dropped, *self.batch)]
        self.starts = starts if self.vector < starts.type.rank else _with_one(starts)

    def component(self, i: int) -> Value:
        """The i-th index of each vector, as i64."""
        shape = list(self.starts.shape)
        first = [0] * len(shape)
        first[self.vector], shape[self.vector] = i, 1
        part = ops.Slice(self.starts, tuple(first), tuple(shape), (1,) * len(shape))
        return wide(reshaped(part, self.points))

    @property
    def points(self) -> list[int]:
        """The shape of the indices without the axis of their vectors."""
        return [int(n) for i, n in enumerate(self.starts.shape) if i != self.vector]

    def batch_axes(self, rank: int) -> list[int]:
        """The axes of the result, or of the updates, that are not those of a window."""
        return [i for i in range(rank) if i not in self.window]

    def rows(self, x: TensorType, sizes: Sequence[int]) -> int | None:
        """The one axis that is indexed, if whole rows are read along it, and nothing else."""
        if len(self.indexed) != 1 or self.batch or self.dropped != self.indexed:
            return None
        (axis,) = self.indexed
        whole = all(sizes[i] == n for i, n in enumerate(x.shape) if i != axis)
        return axis if whole and sizes[axis] == 1 else None


def _with_one(x: Value) -> Value:
    return reshaped(x, (*x.shape, 1))


@reads("stablehlo.gather")
def gather(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Windows at places that are computed, brought inside."""
    x, starts = xs
    numbers = Numbers(node.attributes["dimension_numbers"], x.type.rank, starts)
    sizes = [int(n) for n in node.attributes["slice_sizes"]]
    (t,) = node.types
    if 0 in t.shape:
        return zeros(t)
    if (axis := numbers.rows(x.type, sizes)) is not None:
        at = inside(numbers.component(0), int(x.shape[axis]) - 1)
        return permuted(ops.Gather(x, at, axis, 0, "clip"), _to_result(numbers, axis, t.rank))
    at, _ = positions(x.type, numbers, sizes, t, clip=True)
    flat = reshaped(x, (math.prod(int(n) for n in x.shape),))
    return ops.Gather(flat, at, 0, 0, "clip")


def _to_result(numbers: Numbers, axis: int, rank: int) -> list[int]:
    """From the order of axes that our gather gives to that of StableHLO."""
    count = len(numbers.points)
    points = iter(range(axis, axis + count))
    windows = iter([*range(axis), *range(axis + count, rank)])
    return [next(windows) if i in numbers.window else next(points) for i in range(rank)]


def positions(
    x: TensorType, numbers: Numbers, sizes: Sequence[int], t: TensorType, clip: bool
) -> tuple[Value, Value]:
    """For each element of ``t`` its position in ``x`` in row-major order, and if it is inside."""
    like, free = t.with_dtype(I64), numbers.batch_axes(t.rank)
    total = zeros(like)
    fits = splat(True, t.with_dtype(BOOL))
    for axis, extent in enumerate(int(n) for n in x.shape):
        part = zeros(like)
        if axis in numbers.indexed:
            start = numbers.component(numbers.indexed.index(axis))
            start = inside(start, extent - sizes[axis]) if clip else start
            part = part + ops.Broadcast(start, t.shape, tuple(free))
        if axis in numbers.batch:
            lane = free[_point(numbers, numbers.start_batch[numbers.batch.index(axis)])]
            part = part + ops.Broadcast(ops.Iota(extent), t.shape, (lane,))
        if axis in numbers.kept:
            along = numbers.window[numbers.kept.index(axis)]
            part = part + ops.Broadcast(ops.Iota(t.shape[along]), t.shape, (along,))
        here = ops.And(ops.LessEqual(zeros(like), part), ops.Less(part, splat(extent, like)))
        fits = ops.And(fits, here)
        total = total * splat(extent, like) + part
    return total, fits


def _point(numbers: Numbers, axis: int) -> int:
    """An axis of the indices among those that are not their vectors."""
    return axis - (axis > numbers.vector)


# -- scatters -------------------------------------------------------------------------------------


@reads("stablehlo.scatter")
def scatter(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Writes windows at places that are computed; what is outside is left out."""
    if len(xs) != 3:
        raise unreadable(node.name, "it writes several operands")
    x, starts, updates = xs
    write = _write(node.regions[0], node.name, x)
    numbers = Numbers(node.attributes["scatter_dimension_numbers"], x.type.rank, starts)
    sizes = [1] * x.type.rank
    for axis, along in zip(numbers.kept, numbers.window, strict=True):
        sizes[axis] = int(updates.shape[along])
    if 0 in updates.shape or 0 in x.shape:
        return x
    if (axis := numbers.rows(x.type, sizes)) is not None:
        at, extent = numbers.component(0), splat(int(x.shape[axis]), TensorType(I64))
        below = ops.Less(at, zeros(at.type))
        at = ops.Select(below, ops.Broadcast(extent, at.shape, ()), at)
        order = _to_result(numbers, axis, updates.type.rank)
        ours = permuted(updates, [order.index(i) for i in range(len(order))])
        return write(x, at, ours, axis, 0, "drop")
    return _by_positions(x, updates, numbers, sizes, write)


def _by_positions(
    x: Value, updates: Value, numbers: Numbers, sizes: Sequence[int], write: Callable[..., Value]
) -> Value:
    at, fits = positions(x.type, numbers, sizes, updates.type, clip=False)
    total, count = (math.prod(int(n) for n in v.shape) for v in (x, updates))
    at = ops.Select(fits, at, splat(total, at.type))
    flat = write(
        reshaped(x, (total,)), reshaped(at, (count,)), reshaped(updates, (count,)), 0, 0, "drop"
    )
    return reshaped(flat, x.shape)


def _write(block: Block, name: str, x: Value) -> Callable[..., Value]:
    """How old and new are combined: the new one, or a sum, a product, an extreme."""
    if not block.nodes and block.returned == block.params[1:]:
        return SCATTERS["set"]
    word = simple(block, name)
    if word not in WRITES or x.dtype.kind == "b":
        raise unreadable(name, f"its region is {word}")
    return SCATTERS[WRITES[word]]
