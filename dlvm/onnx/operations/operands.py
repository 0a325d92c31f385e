"""What operations ask of their operands: shapes, element types, axes, and whether one is known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.sizes import integers, is_known

Shape = tuple[Any, ...]


def shape(x: Any) -> Shape:
    """The sizes of a value: integers and open sizes."""
    return tuple(x.shape)


def rank(x: Any) -> int:
    """The number of axes."""
    return len(x.shape)


def kind(x: Any) -> np.dtype[Any]:
    """The element type."""
    return np.dtype(x.dtype)


def is_float(x: Any) -> bool:
    """Whether the elements are floats, those of bfloat16 too."""
    return kind(x).kind not in "biu"


def axis_of(axis: int, count: int) -> int:
    """An axis counted from the front."""
    return axis + count if axis < 0 else axis


def axes_of(axes: Iterable[int], count: int) -> tuple[int, ...]:
    """Axes counted from the front."""
    return tuple(axis_of(int(a), count) for a in axes)


def product(sizes: Iterable[Any]) -> Any:
    """The product of sizes, open ones too."""
    total: Any = 1
    for n in sizes:
        total = total * n
    return total


def like(x: Any, y: Any) -> Any:
    """A value with the element type of another one."""
    return x if kind(x) == kind(y) else xp.astype(x, kind(y))


def along(x: Any, axis: int, count: int) -> Any:
    """A vector as an array of ``count`` axes that has its elements along one of them."""
    return xp.reshape(x, tuple(shape(x)[0] if k == axis else 1 for k in range(count)))


def positive(places: Any, size: Any) -> Any:
    """Indices counted from the front; negative ones count from the back."""
    if is_known(places) and not bool((places < 0).any()):
        return places.astype(np.int64)
    return xp.where(places < 0, places + size, places)


def given(x: Any, attribute: Any = None) -> list[Any] | None:
    """Sizes or axes that newer versions give as an operand and older ones as an attribute."""
    if x is not None:
        return integers(x)
    return None if attribute is None else list(attribute)


def scalar(x: Any) -> Any:
    """The only element of an array of one."""
    return xp.reshape(x, ()) if rank(x) else x
