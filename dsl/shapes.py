"""The same elements in another shape or order: views where NumPy makes views."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

from dlvm.errors import ShapeError
from dlvm.ir import Dim, Expr
from dlvm.ir.dims import divide_exactly, product

from .eager import public
from .operands import (
    broadcast_shapes,
    fresh,
    plain,
    shape_of,
    spread,
    staged,
)
from .reductions import axes_of
from .scopes import is_sequence
from .views import Reordered, Reshaped


def sizes(shape: Any) -> tuple[Dim, ...]:
    """A shape as a tuple; a single size is a vector."""
    given = shape if is_sequence(shape) else (shape,)
    return tuple(d if isinstance(d, Expr) else operator.index(d) for d in given)


@public("reshape")
def reshape(x: Any, *shape: Any) -> Any:
    """The elements in row-major order in another shape; one size may be -1."""
    x = staged(x)
    wanted = sizes(shape[0] if len(shape) == 1 else shape)
    if wanted.count(-1) == 1:
        known = product(tuple(d for d in wanted if d != -1))
        rest = divide_exactly(x.size, known) if known != 0 else None
        if rest is None:
            raise ShapeError(f"reshape: {x.type} does not divide into {list(wanted)}")
        wanted = tuple(rest if d == -1 else d for d in wanted)
    return x.view(Reshaped(wanted))


@public("ravel")
def ravel(x: Any) -> Any:
    """All elements in row-major order as a vector."""
    return reshape(x, -1)


@public("permute_dims")
def permute_dims(x: Any, axes: Sequence[int]) -> Any:
    """Axis ``i`` of the result is axis ``axes[i]`` of ``x``."""
    x = staged(x)
    return x.view(Reordered(tuple(a % builtins.max(x.ndim, 1) for a in axes)))


@public("transpose")
def transpose(x: Any, *axes: Any) -> Any:
    """All axes in reverse order, or in the order given."""
    x = staged(x)
    if not axes or axes == (None,):
        return permute_dims(x, tuple(reversed(range(x.ndim))))
    return permute_dims(x, axes if isinstance(axes[0], int) else axes[0])


@public("matrix_transpose")
def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged."""
    x = staged(x)
    if x.ndim < 2:
        raise ShapeError(f"a matrix transpose needs two axes, found {x.type}")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@public("broadcast_to")
def broadcast_to(x: Any, shape: Any) -> Any:
    """``x`` stretched to a shape."""
    x, wanted = staged(x), sizes(shape)
    if len(wanted) < x.ndim or broadcast_shapes([x.shape, wanted]) != wanted:
        raise ShapeError(f"broadcast_to: {x.type} does not stretch to {list(wanted)}")
    return fresh(spread(x.read(), wanted))


@public("expand_dims")
def expand_dims(x: Any, axis: int = 0) -> Any:
    """A new axis of size 1."""
    x = staged(x)
    at = axis % (x.ndim + 1)
    return x.view(Reshaped((*x.shape[:at], 1, *x.shape[at:])))


@public("squeeze")
def squeeze(x: Any, axis: Any = None) -> Any:
    """Without axes of size 1: those given, or all whose size is 1 for certain."""
    x = staged(x)
    axes = axes_of(x, axis) if axis is not None else [i for i, d in enumerate(x.shape) if d == 1]
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} of {x.type} has size {x.shape[a]}, not 1")
    return x.view(Reshaped(tuple(d for i, d in enumerate(x.shape) if i not in axes)))


@public("shape")
def shape(x: Any) -> tuple[Dim, ...]:
    """The sizes of ``x``; unknown ones are symbols."""
    return shape_of(plain(x))
