"""Windows that slide over the spatial axes: their sizes, strides, dilations and padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dlvm.onnx.sizes import larger
from dlvm.onnx.table import Call

from .operands import shape

Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Window:
    """A window over spatial axes: one entry for each axis."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[Pair, ...]

    def spans(self) -> tuple[int, ...]:
        """How many places a window covers along each axis."""
        return tuple(d * (n - 1) + 1 for n, d in zip(self.sizes, self.dilations, strict=True))


def window_of(call: Call, x: Any, sizes: Sequence[Any]) -> Window:
    """The window that the attributes of a node describe."""
    count = len(sizes)
    if not all(isinstance(n, int) for n in sizes):
        raise call.unsupported(
            "the sizes of its window are open", "fix them: dlvm.onnx.load(path, sizes={...})"
        )
    window = Window(
        tuple(sizes),
        tuple(call.get("strides") or (1,) * count),
        tuple(call.get("dilations") or (1,) * count),
        _stated(call, count),
    )
    automatic = call.get("auto_pad", "NOTSET")
    if automatic not in ("SAME_UPPER", "SAME_LOWER"):
        return window
    rows = zip(shape(x)[2:], window.spans(), window.strides, strict=True)
    pads = tuple(_same(*row, automatic == "SAME_LOWER") for row in rows)
    return Window(window.sizes, window.strides, window.dilations, pads)


def _stated(call: Call, count: int) -> tuple[Pair, ...]:
    given = call.get("pads") or [0] * 2 * count
    if call.get("auto_pad", "NOTSET") == "VALID":
        given = [0] * 2 * count
    return tuple(zip(given[:count], given[count:], strict=True))


def _same(extent: Any, span: int, step: int, lower: bool) -> Pair:
    """The padding by which there is a window for each step of an axis."""
    if step == 1:
        total: Any = span - 1
    else:
        total = larger(((extent + step - 1) // step - 1) * step + span - extent, 0)
    half = total // 2
    return (total - half, half) if lower else (half, total - half)
