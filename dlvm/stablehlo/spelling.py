"""How MLIR spells types, numbers and attributes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from dlvm.ir import Array, Dim, DType, TensorType

LISTED = 16
"""Elements up to which a constant is written as numbers; a longer one is written as its bytes."""


def element(dtype: DType) -> str:
    """An element type: ``f32``, ``i64``, ``ui8``, ``i1``."""
    if dtype.kind == "b":
        return "i1"
    return f"ui{dtype.bits}" if dtype.kind == "u" else dtype.name


def tensor(t: TensorType) -> str:
    """A tensor type; a size that is open is ``?``."""
    sizes = "".join(f"{size(d)}x" for d in t.shape)
    return f"tensor<{sizes}{element(t.dtype)}>"


def size(d: Dim) -> str:
    """A size in a type."""
    return str(d) if isinstance(d, int) else "?"


def integers(numbers: Iterable[int]) -> str:
    """An attribute of integers: ``array<i64: 1, 2>``."""
    found = ", ".join(map(str, numbers))
    return f"array<i64: {found}>" if found else "array<i64>"


def listed(numbers: Iterable[int]) -> str:
    """A list of integers inside of an attribute: ``[1, 2]``."""
    return f"[{', '.join(map(str, numbers))}]"


def dense(array: Array, t: TensorType) -> str:
    """The elements of a constant."""
    if array.size == 1 or (array.size and _uniform(array)):
        return f"dense<{number(array.reshape(-1)[0], t.dtype)}> : {tensor(t)}"
    if array.size > LISTED and t.dtype.kind != "b":
        raw = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        return f'dense<"0x{raw.tobytes().hex().upper()}"> : {tensor(t)}'
    return f"dense<{_nested(array, t.dtype)}> : {tensor(t)}"


def _uniform(array: Array) -> bool:
    """Whether all elements have the same bits."""
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
    return bool((raw == raw[0]).all())


def _nested(array: Array, dtype: DType) -> str:
    if array.ndim == 0:
        return number(array[()], dtype)
    return f"[{', '.join(_nested(np.asarray(row), dtype) for row in array)}]"


def number(value: Any, dtype: DType) -> str:
    """One number; floats that are not finite are written as their bits."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if not dtype.is_float:
        return str(int(value))
    found = float(value)
    if not math.isfinite(found):
        raw = np.asarray(value, dtype.numpy)
        return f"0x{int(raw.view(f'u{dtype.bytes}')):0{dtype.bytes * 2}X}"
    digits, _, power = repr(found).partition("e")
    digits = digits if "." in digits else f"{digits}.0"
    return f"{digits}e{power}" if power else digits
