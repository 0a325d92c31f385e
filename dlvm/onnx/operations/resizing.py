"""Resizing of images: each axis by itself, as a weighted sum of the elements near each place.

Places and weights depend on sizes alone and are known while the program is made: what remains is
a gather for each tap of the filter, which is linear in the image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.sizes import integers
from dlvm.onnx.table import Call, operation

from .operands import along, axes_of, is_float, kind, like, rank, shape

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Axis:
    """The change of one axis: its sizes, its scale and the part of it that is shown."""

    size: int
    wanted: int
    scale: float
    region: tuple[float, float]


@operation("Resize", known=(1, 2, 3))
def _resize(call: Call, x: Any, region: Any = None, scales: Any = None, sizes: Any = None) -> Any:
    if call.version < 11:
        return _resized(call, x, range(rank(x)), np.asarray(region), None, None, "asymmetric")
    axes = axes_of(call.get("axes") or range(rank(x)), rank(x))
    mode = call.get("coordinate_transformation_mode", "half_pixel")
    scales = None if scales is None or not scales.size else scales
    return _resized(call, x, axes, scales, sizes, region, mode)


@operation("Upsample", known=(1,))
def _upsample(call: Call, x: Any, scales: Any = None) -> Any:
    factors = np.asarray(call["scales"]) if scales is None else scales
    return _resized(call, x, range(rank(x)), factors, None, None, "asymmetric")


def _resized(call: Call, x: Any, axes: Any, scales: Any, sizes: Any, region: Any, mode: str) -> Any:
    plans = _plans(call, x, tuple(axes), scales, sizes, region)
    found = x
    for axis, plan in plans.items():
        if plan.size == plan.wanted and plan.scale == 1 and plan.region == (0.0, 1.0):
            continue
        found = _along(call, found, axis, plan, mode)
    return _rounded(found, x)


def _rounded(found: Any, x: Any) -> Any:
    if kind(found) == kind(x) or is_float(x):
        return like(found, x)
    edges = np.iinfo(kind(x))
    return like(xp.clip(found, edges.min, edges.max), x)


def _plans(
    call: Call, x: Any, axes: tuple[int, ...], scales: Any, sizes: Any, region: Any
) -> dict[int, Axis]:
    """What happens to each axis."""
    count = len(axes)
    factors = [1.0] * count if scales is None else [float(s) for s in scales.reshape(-1)]
    wanted: list[Any] = [None] * count if sizes is None else integers(sizes)
    policy = call.get("keep_aspect_ratio_policy", "stretch")
    if sizes is not None:
        factors = [float(n / _known(call, x, a)) for n, a in zip(wanted, axes, strict=True)]
        if policy != "stretch":
            one = (min if policy == "not_larger" else max)(factors)
            factors = [one] * count
            wanted = [int(one * shape(x)[a] + 0.5) for a in axes]
    parts = [0.0] * count + [1.0] * count
    if call.get("coordinate_transformation_mode") == "tf_crop_and_resize" and region is not None:
        parts = [float(r) for r in region.reshape(-1)]
    found: dict[int, Axis] = {}
    for k, axis in enumerate(axes):
        if factors[k] == 1 and sizes is None and (parts[k], parts[k + count]) == (0.0, 1.0):
            continue
        size = _known(call, x, axis)
        target = int(np.floor(size * factors[k])) if wanted[k] is None else int(wanted[k])
        found[axis] = Axis(size, target, factors[k], (parts[k], parts[k + count]))
    return found


def _known(call: Call, x: Any, axis: int) -> int:
    size = shape(x)[axis]
    if not isinstance(size, int):
        raise call.unsupported(
            f"it changes an axis of the open size {size}",
            "fix the size: dlvm.onnx.load(path, sizes={...})",
        )
    return size


def _along(call: Call, x: Any, axis: int, plan: Axis, mode: str) -> Any:
    """The array with one axis resized."""
    places = _places(plan, mode)
    if call.get("mode", "nearest") == "nearest":
        index = _nearest(places, call.get("nearest_mode", _usual(call)))
        found = xp.take(x, np.clip(index, 0, plan.size - 1).astype(np.int64), axis=axis)
    else:
        found = _weighted(call, x, axis, plan, places)
    if mode != "tf_crop_and_resize":
        return found
    outside = along((places < 0) | (places > plan.size - 1), axis, rank(x))
    return xp.where(outside, call.get("extrapolation_value", 0.0), found)


def _usual(call: Call) -> str:
    return "round_prefer_floor" if call.version >= 11 else "floor"


def _nearest(places: Array, mode: str) -> Array:
    ways: dict[str, Callable[[Array], Array]] = {
        "round_prefer_floor": lambda p: np.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: np.floor(p + 0.5),
        "floor": np.floor,
        "ceil": np.ceil,
    }
    return ways[mode](places)


def _places(plan: Axis, mode: str) -> Array:
    """Where each element of the result lies in the image, as a fractional index."""
    steps, size, scale = np.arange(plan.wanted, dtype=np.float64), plan.size, plan.scale
    reach = scale * size
    start, end = plan.region
    if mode == "align_corners":
        return steps * 0 if reach == 1 else steps * (size - 1) / (reach - 1)
    if mode == "asymmetric":
        return steps / scale
    if mode == "tf_crop_and_resize":
        if reach == 1:
            return steps * 0 + (start + end) * (size - 1) / 2
        return start * (size - 1) + steps * (end - start) * (size - 1) / (reach - 1)
    if mode == "pytorch_half_pixel" and plan.wanted == 1:
        return steps * 0 - 0.5
    offset = size / 2 * (1 - plan.wanted / reach) if mode == "half_pixel_symmetric" else 0.0
    return offset + (steps + 0.5) / scale - 0.5


def _weighted(call: Call, x: Any, axis: int, plan: Axis, places: Array) -> Any:
    """The sum of the taps of the filter, each a gather."""
    x = x if is_float(x) else xp.astype(x, np.float32)
    smooth = bool(call.get("antialias", 0))
    stretch = min(plan.scale, 1.0) if smooth else 1.0
    reach, filtered = (2, _cubic(call)) if call.get("mode") == "cubic" else (1, _linear)
    first = int(np.floor(-reach / stretch)) + 1
    taps = np.arange(first, 2 - first)
    left = np.ceil(places) - 1  # an element exactly at a place is the one to the right
    weights = filtered((taps - (places - left)[:, None]) * stretch)
    index = (left[:, None] + taps).astype(np.int64)
    if call.get("exclude_outside", 0):
        weights = np.where((index < 0) | (index >= plan.size), 0, weights)
    if smooth or call.get("exclude_outside", 0):
        weights = weights / weights.sum(axis=1, keepdims=True)
    index, weights = np.clip(index, 0, plan.size - 1), weights.astype(kind(x))
    parts = [
        xp.take(x, index[:, k], axis=axis) * along(weights[:, k], axis, rank(x))
        for k in range(len(taps))
    ]
    return sum(parts[1:], parts[0])


def _linear(x: Array) -> Array:
    return np.clip(1 - np.abs(x), 0, 1)


def _cubic(call: Call) -> Callable[[Array], Array]:
    """Keys' filter with the coefficient of the node."""
    a = call.get("cubic_coeff_a", -0.75)

    def run(x: Array) -> Array:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((x - 5) * x + 8) * x * a - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0.0))

    return run


@operation("AffineGrid", known=(1,))
def _affine_grid(call: Call, theta: Any, sizes: Any) -> Any:
    """The places of a grid from -1 to 1 under the affine maps ``theta``, the last axis first."""
    space = integers(sizes)[2:]
    rows = [_ticks(n, bool(call.get("align_corners", 0))) for n in space]
    grid = np.stack([*np.meshgrid(*rows, indexing="ij")[::-1], np.ones(space)], axis=-1)
    flat = grid.reshape(-1, len(space) + 1).astype(kind(theta))
    found = xp.matmul(flat, xp.matrix_transpose(theta))
    return xp.reshape(found, (shape(theta)[0], *space, len(space)))


def _ticks(count: int, corners: bool) -> Array:
    if corners:
        return np.linspace(-1, 1, count)
    return (np.arange(count) * 2 + 1) / count - 1
