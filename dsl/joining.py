"""Several arrays made one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlvm.errors import ShapeError
from dlvm.ops import Concat

from .eager import public
from .elementwise import note_widening
from .operands import (
    common,
    element,
    fresh,
    kind_of,
    plain,
)
from .shapes import expand_dims, ravel
from .tensor import Tensor


def alike(arrays: Sequence[Any]) -> list[Tensor]:
    """Arrays promoted to one element type."""
    xs = [plain(a) for a in arrays]
    dtype = common(tuple(kind_of(x) for x in xs))
    note_widening("concat", xs, [dtype] * len(xs))
    return [fresh(element(x, dtype)) for x in xs]


@public("concat")
def concat(arrays: Sequence[Any], axis: int | None = 0) -> Any:
    """Arrays one after the other along an axis; flattened first where it is None."""
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    xs = alike(arrays)
    if not xs:
        raise ShapeError("concat: expected at least one array, found none")
    if not -xs[0].ndim <= axis < xs[0].ndim:
        raise ShapeError(f"concat: axis {axis} is out of range for {xs[0].type}")
    return fresh(Concat(tuple(x.read() for x in xs), axis % xs[0].ndim))


@public("stack")
def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape along a new axis."""
    return concat([expand_dims(x, axis) for x in alike(arrays)], axis)
