"""Operations that move elements without computing with them: reshape, slice, pad and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from dlvm.dsl.trace.operands import staged
from dlvm.dsl.words.namespace import xp
from dlvm.onnx.sizes import has_sizes, integers, is_known, is_open, is_zero
from dlvm.onnx.table import Call, operation

from .operands import along, axes_of, axis_of, given, kind, product, rank, shape

FARTHEST = 2**31 - 1
"""Ends of slices from here on mean the end of the axis."""


@operation("Reshape", known=(1,))
def _reshape(call: Call, x: Any, sizes: Any = None) -> Any:
    wanted = given(sizes, call.get("shape")) or []
    if not call.get("allowzero", 0):
        wanted = [shape(x)[k] if is_zero(n) else n for k, n in enumerate(wanted)]
    return xp.reshape(x, tuple(wanted))


@operation("Transpose")
def _transpose(call: Call, x: Any) -> Any:
    return xp.permute_dims(x, tuple(call.get("perm", range(rank(x))[::-1])))


@operation("Flatten")
def _flatten(call: Call, x: Any) -> Any:
    axis = axis_of(call.get("axis", 1), rank(x))
    return xp.reshape(x, (product(shape(x)[:axis]), product(shape(x)[axis:])))


@operation("Squeeze", known=(1,))
def _squeeze(call: Call, x: Any, axes: Any = None) -> Any:
    ones = [k for k, n in enumerate(shape(x)) if isinstance(n, int) and n == 1]
    wanted = given(axes, call.get("axes"))
    return xp.squeeze(x, axis=axes_of(ones if wanted is None else wanted, rank(x)))


@operation("Unsqueeze", known=(1,))
def _unsqueeze(call: Call, x: Any, axes: Any = None) -> Any:
    wanted = given(axes, call.get("axes")) or []
    sizes = list(shape(x))
    for axis in sorted(axes_of(wanted, rank(x) + len(wanted))):
        sizes.insert(axis, 1)
    return xp.reshape(x, tuple(sizes))


@operation("Expand", known=(1,))
def _expand(call: Call, x: Any, sizes: Any) -> Any:
    wanted: list[Any] = integers(sizes)
    mine: list[Any] = [*shape(x)]
    count = max(len(wanted), len(mine))
    wanted, mine = ([1] * (count - len(row)) + row for row in (wanted, mine))
    both = zip(wanted, mine, strict=True)
    return xp.broadcast_to(x, tuple(m if isinstance(n, int) and n == 1 else n for n, m in both))


@operation("Tile", known=(1, 2))
def _tile(call: Call, x: Any, repeats: Any, axis: Any = None) -> Any:
    if axis is None:
        return xp.tile(x, tuple(integers(repeats)))
    (at,), (count,) = integers(axis), integers(repeats)  # version 1
    return xp.tile(x, tuple(count if k == at else 1 for k in range(rank(x))))


@operation("Concat")
def _concat(call: Call, *xs: Any) -> Any:
    if all(map(is_known, xs)) and not any(map(has_sizes, xs)):
        call.check_bytes(sum(x.size for x in xs), kind(xs[0]).itemsize, share=4)
    return xp.concat(xs, axis=call.get("axis", 1))


@operation("Split", known=(1,))
def _split(call: Call, x: Any, sizes: Any = None) -> Any:
    axis = axis_of(call.get("axis", 0), rank(x))
    wanted = given(sizes, call.get("split"))
    if wanted is None:
        parts = call.get("num_outputs", len(call.node.output))
        each = -(-shape(x)[axis] // parts)
        wanted = [each] * (parts - 1) + [shape(x)[axis] - each * (parts - 1)]
    ends = list(accumulate(wanted))
    starts = [0, *ends[:-1]]
    return tuple(_cut(x, {axis: slice(a, b)}) for a, b in zip(starts, ends, strict=True))


def _cut(x: Any, slices: dict[int, slice]) -> Any:
    """A part of an array; a known one becomes a staged one if the part has an open size."""
    bounds = (n for s in slices.values() for n in (s.start, s.stop))
    if is_known(x) and any(is_open(n) for n in bounds):
        x = staged(x)
    return x[tuple(slices.get(k, slice(None)) for k in range(rank(x)))]


@operation("Slice", known=(1, 2, 3, 4))
def _slice(
    call: Call, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None
) -> Any:
    first = given(starts, call.get("starts")) or []
    last = given(ends, call.get("ends")) or []
    where = axes_of(given(axes, call.get("axes")) or range(len(first)), rank(x))
    by = given(steps) or [1] * len(first)
    rows = zip(where, first, last, by, strict=True)
    return _cut(x, {a: _clamped(shape(x)[a], i, j, step) for a, i, j, step in rows})


def _clamped(size: Any, start: Any, end: Any, step: int) -> slice:
    """A slice of an axis by the rules of ONNX: what lies outside of it is cut off."""
    if not all(isinstance(n, int) for n in (size, start, end)):
        return _open_slice(start, end, step)
    start, end = (n + size if n < 0 else n for n in (start, end))
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start, end = min(max(start, low if step > 0 else 0), high), min(max(end, low), high)
    return slice(start, None if end < 0 else end, step)


def _open_slice(start: Any, end: Any, step: int) -> slice:
    """A slice of an axis of open size: numbers beyond any axis mean its ends."""
    far_start = isinstance(start, int) and abs(start) >= FARTHEST
    far_end = isinstance(end, int) and abs(end) >= FARTHEST
    return slice(None if far_start else start, None if far_end else end, step)


@operation("Pad", known=(1, 3))
def _pad(call: Call, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    widths = given(pads, call.get("pads", call.get("paddings"))) or []
    where = range(rank(x)) if axes is None else axes_of(integers(axes), rank(x))
    pairs: list[tuple[Any, Any]] = [(0, 0)] * rank(x)
    for k, axis in enumerate(where):
        pairs[axis] = (widths[k], widths[k + len(where)])
    fill = call.get("value", 0.0) if value is None or not value.size else value.reshape(())
    return padded(x, pairs, call.get("mode", "constant"), fill)


def padded(x: Any, pairs: Sequence[tuple[Any, Any]], mode: str = "constant", fill: Any = 0) -> Any:
    """An array with elements around it; negative widths cut elements off."""
    cuts = {
        k: slice(max(-low, 0), shape(x)[k] - max(-high, 0))
        for k, (low, high) in enumerate(pairs)
        if _negative(low) or _negative(high)
    }
    widths = [(0 if _negative(a) else a, 0 if _negative(b) else b) for a, b in pairs]
    x = _cut(x, cuts) if cuts else x
    if mode != "constant":
        return xp.pad(x, widths, mode=mode)
    if isinstance(fill, float) and kind(x).kind in "biu":
        fill = int(fill)
    return xp.pad(x, widths, constant_values=fill)


def _negative(n: Any) -> bool:
    return isinstance(n, int) and n < 0


@operation("CenterCropPad", known=(1,))
def _center_crop_pad(call: Call, x: Any, sizes: Any) -> Any:
    where = axes_of(call.get("axes", range(rank(x))), rank(x))
    pairs: list[tuple[Any, Any]] = [(0, 0)] * rank(x)
    for axis, wanted in zip(where, integers(sizes), strict=True):
        more = wanted - shape(x)[axis]
        before = more // 2 if more > 0 else -(-more // 2)
        pairs[axis] = (before, more - before)
    return padded(x, pairs)


@operation("DepthToSpace")
def _depth_to_space(call: Call, x: Any) -> Any:
    n, c, h, w = shape(x)
    b = call["blocksize"]
    if call.get("mode", "DCR") == "DCR":
        sizes, order = (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2)
    else:
        sizes, order = (n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3)
    found = xp.permute_dims(xp.reshape(x, sizes), order)
    return xp.reshape(found, (n, c // (b * b), h * b, w * b))


@operation("SpaceToDepth")
def _space_to_depth(call: Call, x: Any) -> Any:
    n, c, h, w = shape(x)
    b = call["blocksize"]
    order = (0, 3, 5, 1, 2, 4) if call.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    found = xp.permute_dims(xp.reshape(x, (n, c, h // b, b, w // b, b)), order)
    return xp.reshape(found, (n, c * b * b, h // b, w // b))


@operation("ReverseSequence")
def _reverse_sequence(call: Call, x: Any, lengths: Any) -> Any:
    batch, time = call.get("batch_axis", 1), call.get("time_axis", 0)
    steps = along(xp.arange(shape(x)[time]), time, rank(x))
    ends = xp.astype(along(lengths, batch, rank(x)), np.int64)
    places = xp.where(steps < ends, ends - 1 - steps, steps)
    return xp.take_along_axis(x, xp.broadcast_to(places, shape(x)), axis=time)
