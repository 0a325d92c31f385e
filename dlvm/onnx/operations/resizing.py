"""Resizing of images: each axis by itself, as a weighted sum of the elements near each place.

Places and weights depend on sizes alone. Where these are known, so are places and weights while the
program is made; along an axis of open size they are computed in the call. What remains is a gather
for each tap of the filter, which is linear in the image. An image that becomes a whole number of
times as large by its nearest elements is one that is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.sizes import integers, is_open, same
from dlvm.onnx.table import Call, operation

from .operands import along, axes_of, is_float, kind, like, rank, shape

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Axis:
    """The change of one axis: its sizes, its scale and the part of it that is shown."""

    size: Any
    wanted: Any
    scale: Any
    region: tuple[float, float]

    @property
    def is_known(self) -> bool:
        """Whether its places are known while the program is made."""
        return isinstance(self.size, int) and isinstance(self.wanted, int)

    @property
    def words(self) -> Any:
        """The functions that compute its places: NumPy's if they are known."""
        return np if self.is_known else xp

    def is_idle(self) -> bool:
        """Whether the axis stays as it is."""
        same_size = same(self.size, self.wanted)
        return same_size and _is_number(self.scale, 1) and self.region == (0.0, 1.0)


def _is_number(x: Any, n: float) -> bool:
    return isinstance(x, int | float) and x == n


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
        if not plan.is_idle():
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
        factors = [_ratio(n, shape(x)[a]) for n, a in zip(wanted, axes, strict=True)]
        if policy != "stretch":
            _known(call, [*wanted, *(shape(x)[a] for a in axes)])
            one = (min if policy == "not_larger" else max)(factors)
            factors = [one] * count
            wanted = [int(one * shape(x)[a] + 0.5) for a in axes]
    parts = [0.0] * count + [1.0] * count
    if call.get("coordinate_transformation_mode") == "tf_crop_and_resize" and region is not None:
        parts = [float(r) for r in region.reshape(-1)]
    found: dict[int, Axis] = {}
    for k, axis in enumerate(axes):
        size, factor = shape(x)[axis], factors[k]
        target = _times(size, factor) if wanted[k] is None else wanted[k]
        found[axis] = Axis(size, target, factor, (parts[k], parts[k + count]))
    return found


def _ratio(wanted: Any, size: Any) -> Any:
    """By how much an axis becomes larger: a number if it is known."""
    return 1.0 if same(wanted, size) else wanted / size


def _times(size: Any, factor: float) -> Any:
    """``floor(size * factor)``."""
    if isinstance(size, int):
        return int(np.floor(size * factor))
    above, below = factor.as_integer_ratio()
    return size * above // below


def _known(call: Call, sizes: Sequence[Any]) -> None:
    for size in sizes:
        if is_open(size):
            raise call.unsupported(
                f"it changes an axis of the open size {size} by a ratio that depends on others",
                "fix the size: dlvm.onnx.load(path, sizes={...})",
            )


def _along(call: Call, x: Any, axis: int, plan: Axis, mode: str) -> Any:
    """The array with one axis resized."""
    nearest, rounding = call.get("mode", "nearest"), call.get("nearest_mode", _usual(call))
    if nearest == "nearest" and _repeats(plan, mode, rounding):
        return _repeated(x, axis, int(plan.scale))
    places = _places(plan, mode)
    if nearest == "nearest":
        index = _nearest(plan.words, places, rounding)
        found = xp.take(x, _inside(plan, index), axis=axis)
    else:
        found = _weighted(call, x, axis, plan, places)
    if mode != "tf_crop_and_resize":
        return found
    outside = along((places < 0) | (places > plan.size - 1), axis, rank(x))
    return xp.where(outside, call.get("extrapolation_value", 0.0), found)


def _inside(plan: Axis, index: Any) -> Any:
    return plan.words.clip(index, 0, plan.size - 1).astype(np.int64)


def _repeats(plan: Axis, mode: str, rounding: str) -> bool:
    """Whether element ``i`` of the result is element ``floor(i / scale)``, with a whole scale.

    Between whole scales no half pixel lies in the middle of two elements.
    """
    if not isinstance(plan.scale, int | float) or plan.scale != int(plan.scale) or plan.scale < 1:
        return False
    if mode == "asymmetric":
        return rounding == "floor"
    return mode in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")


def _repeated(x: Any, axis: int, count: int) -> Any:
    """The array in which each element along an axis stands several times."""
    before, size, behind = shape(x)[:axis], shape(x)[axis], shape(x)[axis + 1 :]
    wide = xp.broadcast_to(xp.expand_dims(x, axis + 1), (*before, size, count, *behind))
    return xp.reshape(wide, (*before, size * count, *behind))


def _usual(call: Call) -> str:
    return "round_prefer_floor" if call.version >= 11 else "floor"


def _nearest(words: Any, places: Any, mode: str) -> Any:
    ways: dict[str, Callable[[Any], Any]] = {
        "round_prefer_floor": lambda p: words.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: words.floor(p + 0.5),
        "floor": words.floor,
        "ceil": words.ceil,
    }
    return ways[mode](places)


def _places(plan: Axis, mode: str) -> Any:
    """Where each element of the result lies in the image, as a fractional index."""
    words, size, scale = plan.words, plan.size, plan.scale
    steps = words.arange(plan.wanted, dtype=np.float64)
    reach = scale * size
    start, end = plan.region
    if mode == "align_corners":
        return words.where(reach == 1, 0.0, steps * (size - 1) / _not_zero(words, reach - 1))
    if mode == "asymmetric":
        return steps / scale
    if mode == "tf_crop_and_resize":
        middle = (start + end) * (size - 1) / 2
        spread = steps * (end - start) * (size - 1) / _not_zero(words, reach - 1)
        return words.where(reach == 1, middle, start * (size - 1) + spread)
    offset = size / 2 * (1 - plan.wanted / reach) if mode == "half_pixel_symmetric" else 0.0
    found = offset + (steps + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel":
        return words.where(plan.wanted == 1, steps * 0 - 0.5, found)
    return found


def _not_zero(words: Any, x: Any) -> Any:
    return words.where(x == 0, 1.0, x)


def _weighted(call: Call, x: Any, axis: int, plan: Axis, places: Any) -> Any:
    """The sum of the taps of the filter, each a gather."""
    x, words = x if is_float(x) else xp.astype(x, np.float32), plan.words
    smooth = bool(call.get("antialias", 0))
    if smooth and not isinstance(plan.scale, int | float):
        _known(call, [plan.size, plan.wanted])
    stretch = min(plan.scale, 1.0) if smooth else 1.0
    reach, filtered = (2, _cubic(call)) if call.get("mode") == "cubic" else (1, _linear)
    first = int(np.floor(-reach / stretch)) + 1
    taps = np.arange(first, 2 - first)
    left = words.ceil(places) - 1  # an element exactly at a place is the one to the right
    weights = filtered(words, (taps - (places - left)[:, None]) * stretch)
    index = (left[:, None] + taps).astype(np.int64)
    if call.get("exclude_outside", 0):
        weights = words.where((index < 0) | (index >= plan.size), 0, weights)
    if smooth or call.get("exclude_outside", 0):
        weights = weights / weights.sum(axis=1, keepdims=True)
    index, weights = _inside(plan, index), weights.astype(kind(x))
    parts = [
        xp.take(x, index[:, k], axis=axis) * along(weights[:, k], axis, rank(x))
        for k in range(len(taps))
    ]
    return sum(parts[1:], parts[0])


def _linear(words: Any, x: Any) -> Any:
    return words.clip(1 - words.abs(x), 0, 1)


def _cubic(call: Call) -> Callable[[Any, Any], Any]:
    """Keys' filter with the coefficient of the node."""
    a = call.get("cubic_coeff_a", -0.75)

    def run(words: Any, x: Any) -> Any:
        x = words.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((x - 5) * x + 8) * x * a - 4 * a
        return words.where(x <= 1, near, words.where(x < 2, far, 0.0))

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
