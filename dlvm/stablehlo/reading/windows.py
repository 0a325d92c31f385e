"""Padding, sliding windows and convolutions of StableHLO, as patches, folds and products."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlvm import ops
from dlvm.ir import OPS, Value, zeros
from dlvm.ops import scalar_value
from dlvm.ops.arrays.running import Cumulative

from .arrays import backwards, fold_named, folded, folded_by_region
from .table import Place, Results, filled, permuted, reads, reshaped, simple
from .tree import Node, unreadable

RUNNING = {cls.folds: cls for cls in OPS.values() if issubclass(cls, Cumulative)}
"""The running scan of each reduction."""


@reads("stablehlo.pad")
def pad(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A value around elements and between them; negative edges cut off."""
    a = node.attributes
    edges = [*zip(a["edge_padding_low"], a["edge_padding_high"], strict=True)]
    return padded(xs[0], xs[1], edges, a["interior_padding"])


def padded(
    x: Value, value: Value, edges: Sequence[tuple[int, int]], interior: Sequence[int]
) -> Value:
    """The elements ``interior`` apart with edges around them, all of one value."""
    x = _spread(x, value, interior)
    starts = tuple(max(-low, 0) for low, _ in edges)
    sizes = tuple(
        max(int(n) - max(-low, 0) - max(-high, 0), 0)
        for n, (low, high) in zip(x.shape, edges, strict=True)
    )
    if x.shape != sizes:
        x = ops.Slice(x, starts, sizes, (1,) * len(sizes))
    low, high = (tuple(max(e[i], 0) for e in edges) for i in (0, 1))
    if not any((*low, *high)):
        return x
    number = scalar_value(value)
    if number is not None and number == 0:
        return ops.Pad(x, low, high)
    shape = tuple(a + int(n) + b for a, n, b in zip(low, x.shape, high, strict=True))
    around = filled(value, x.type.with_shape(shape))
    return ops.Update(around, x, low, (1,) * len(shape)) if math.prod(sizes) else around


def _spread(x: Value, value: Value, interior: Sequence[int]) -> Value:
    if not any(interior):
        return x
    sizes = [int(n) for n in x.shape]
    shape = tuple((n - 1) * (k + 1) + 1 if n else 0 for n, k in zip(sizes, interior, strict=True))
    between = filled(value, x.type.with_shape(shape))
    return ops.Update(between, x, (0,) * len(shape), tuple(k + 1 for k in interior))


def edges_of(node: Node, rank: int) -> list[tuple[int, int]]:
    """The padding of a sliding window."""
    found = node.attributes.get("padding")
    return [(0, 0)] * rank if found is None else [(int(a), int(b)) for a, b in found]


def numbers_of(node: Node, name: str, rank: int) -> list[int]:
    """A list of one number for each axis; ones if it is left out."""
    return node.attributes.get(name) or [1] * rank


def windows(
    x: Value, sizes: Sequence[int], steps: Sequence[int], dilations: Sequence[int]
) -> tuple[Value, tuple[int, ...]]:
    """The elements of sliding windows, and the axes that hold the taps, which come last."""
    moving = [i for i, (n, s) in enumerate(zip(sizes, steps, strict=True)) if n != 1 or s != 1]
    rank = x.type.rank
    rows = (tuple(v[i] for i in moving) for v in (sizes, steps, dilations))
    return ops.Patches(x, tuple(moving), *rows), tuple(range(rank, rank + len(moving)))


@reads("stablehlo.reduce_window")
def reduce_window(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A fold of each window, or a running scan where the window is all that came before."""
    half = len(xs) // 2
    values, starts = xs[:half], xs[half:]
    rank, (block,) = xs[0].type.rank, node.regions
    sizes = numbers_of(node, "window_dimensions", rank)
    steps = numbers_of(node, "window_strides", rank)
    dilations = numbers_of(node, "window_dilations", rank)
    between = [n - 1 for n in numbers_of(node, "base_dilations", rank)]
    edges = edges_of(node, rank)
    alone = half == 1 and len(block.nodes) == 1
    if alone and not any(between) and {*steps, *dilations} == {1}:
        found = _running(simple(block, node.name), values[0], starts[0], sizes, edges)
        if found is not None:
            return found
    pairs = zip(values, starts, strict=True)
    seen = [windows(padded(x, v, edges, between), sizes, steps, dilations) for x, v in pairs]
    taps = seen[0][1]
    if alone:
        return folded(simple(block, node.name), seen[0][0], starts[0], taps)
    return folded_by_region(node, [y for y, _ in seen], starts, taps, place)


def _running(
    name: str, x: Value, start: Value, sizes: Sequence[int], edges: Sequence[tuple[int, int]]
) -> Value | None:
    """A scan along the one axis on which a window reaches from the first element to the last."""
    kind, _, identity = fold_named(name, x)
    moving = [i for i, n in enumerate(sizes) if n != 1]
    still = all(edges[i] == (0, 0) for i in range(len(sizes)) if i not in moving)
    if len(moving) != 1 or not still or scalar_value(start) != identity(x.dtype):
        return None
    (axis,) = moving
    n = int(x.shape[axis])
    if sizes[axis] != n or edges[axis] not in ((n - 1, 0), (0, n - 1)) or x.dtype.kind == "b":
        return None
    make: Any = RUNNING[kind]
    return make(x, axis, edges[axis][0] == 0)


@reads("stablehlo.select_and_scatter")
def select_and_scatter(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """What comes back to the extreme of each window, the first of equals."""
    x, source, start = xs
    rank, (choose, combine) = x.type.rank, node.regions
    direction = choose.nodes[0].attributes.get("comparison_direction") if choose.nodes else ""
    if direction not in ("GE", "LE") or simple(combine, node.name) != "add":
        raise unreadable(node.name, "its regions are not those of the gradient of a maximum")
    sizes, steps = (numbers_of(node, f"window_{k}", rank) for k in ("dimensions", "strides"))
    edges, ones = edges_of(node, rank), [1] * rank
    worst = x.dtype.lowest if direction == "GE" else x.dtype.highest
    outside = ops.Constant(_scalar(worst, x))
    wide = padded(x, outside, edges, [0] * rank)
    total = math.prod(int(n) for n in x.shape)
    index = reshaped(ops.Iota(total), x.shape)
    places = padded(index, ops.Constant(_scalar(total, index)), edges, [0] * rank)
    y, taps = windows(wide, sizes, steps, ones)
    at, _ = windows(places, sizes, steps, ones)
    best = (ops.ArgMax if direction == "GE" else ops.ArgMin)(y, taps)
    flat = reshaped(at, (*at.shape[:rank], math.prod(int(at.shape[i]) for i in taps)))
    chosen = ops.Gather(flat, reshaped(best, (*best.shape, 1)), rank, rank, "clip")
    base = filled(start, zeros(x.type.with_shape((total,))).type)
    count = math.prod(int(n) for n in source.shape)
    where, what = reshaped(chosen, (count,)), reshaped(source, (count,))
    return reshaped(ops.ScatterAdd(base, where, what, 0, 0, "drop"), x.shape)


def _scalar(number: float, like: Value) -> Any:
    from dlvm.ir import literal

    return literal(number, like.dtype)


# -- convolutions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The axes of an operand of a convolution: two by name, then the spatial ones in order."""

    first: int
    second: int
    spatial: tuple[int, ...]

    @classmethod
    def of(cls, axes: Mapping[str, Any], operand: str, first: str, second: str) -> Layout:
        """The layout of an operand, from the axes of a convolution by their names."""
        one, other = axes[f"{operand}_{first}_dimension"], axes[f"{operand}_{second}_dimension"]
        return cls(one, other, tuple(axes[f"{operand}_spatial_dimensions"]))

    @property
    def order(self) -> tuple[int, ...]:
        """The first, the spatial ones, the second."""
        return (self.first, *self.spatial, self.second)


def layouts(axes: Mapping[str, Any]) -> tuple[Layout, Layout, Layout]:
    """Image, taps and result."""
    return (
        Layout.of(axes, "input", "batch", "feature"),
        Layout.of(axes, "kernel", "input_feature", "output_feature"),
        Layout.of(axes, "output", "batch", "feature"),
    )


@reads("stablehlo.convolution")
def convolution(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A product of patches of the image with the taps, in groups."""
    a, (t,) = node.attributes, node.types
    image, taps, result = layouts(a["dimension_numbers"])
    k = len(image.spatial)
    x, w = (v if v.dtype == t.dtype else ops.Cast(v, t.dtype) for v in xs)
    x, w = permuted(x, image.order), permuted(w, taps.order)
    if any(turned := a.get("window_reversal") or []):
        w = backwards(w, [i + 1 for i, back in enumerate(turned) if back])
    groups = a["feature_group_count"]
    if (batches := a["batch_group_count"]) > 1:
        x, groups = _batches_as_features(x, batches), batches
    edges = [(0, 0), *edges_of(node, k), (0, 0)]
    between = [0, *(n - 1 for n in numbers_of(node, "lhs_dilation", k)), 0]
    x = padded(x, ops.Constant(_scalar(0, x)), edges, between)
    steps, dilations = (numbers_of(node, n, k) for n in ("window_strides", "rhs_dilation"))
    y = _products(x, w, steps, dilations, groups)
    back = result.order
    return permuted(y, [back.index(i) for i in range(k + 2)])


def _batches_as_features(x: Value, groups: int) -> Value:
    """Groups of the batch become groups of features."""
    b, *spatial, f = x.shape
    split = reshaped(x, (groups, int(b) // groups, *spatial, f))
    k = len(spatial)
    moved = permuted(split, [1, *range(2, 2 + k), 0, 2 + k])
    return reshaped(moved, (int(b) // groups, *spatial, groups * int(f)))


def _products(
    x: Value, w: Value, steps: Sequence[int], dilations: Sequence[int], groups: int
) -> Value:
    """Image ``b q.. f`` with taps ``i p.. o`` as one product of matrices for each group."""
    k = len(steps)
    depth, *sizes, wide = (int(n) for n in w.shape)
    patches = ops.Patches(x, tuple(range(1, k + 1)), tuple(sizes), tuple(steps), tuple(dilations))
    places = [int(n) for n in patches.shape[: k + 1]]
    rows, count = math.prod(places), math.prod(sizes)
    y = reshaped(patches, (rows, groups, depth, count))
    left = reshaped(permuted(y, [1, 0, 2, 3]), (groups, rows, depth * count))
    split = reshaped(w, (depth * count, groups, wide // groups))
    found = ops.Matmul(left, permuted(split, [1, 0, 2]))
    return reshaped(permuted(found, [1, 0, 2]), (*places, wide))
