"""Products of arrays of any rank, each brought to the batched matrix product."""

from __future__ import annotations

import builtins
from typing import Any

from dlvm.errors import ShapeError
from dlvm.ir import Value
from dlvm.ir.dims import product
from dlvm.ops import Matmul

from .eager import public
from .elementwise import note_widening
from .operands import (
    broadcast_shapes,
    element,
    fresh,
    kind_of,
    promoted,
    spread,
    staged,
)
from .tensor import Tensor
from .views import reshaped


@public("matmul")
def matmul(x: Any, y: Any, out: None = None) -> Any:
    """The matrix product, as ``@``: vectors are rows or columns, leading axes are batches."""
    x, y = staged(x), staged(y)
    if not x.ndim or not y.ndim:
        raise ShapeError("matmul: expected two arrays, found a scalar; use * to scale")
    dtypes = promoted("matmul", (kind_of(x), kind_of(y)))
    note_widening("matmul", (x, y), dtypes)
    a, b = element(x, dtypes[0]), element(y, dtypes[1])
    if a.shape[-1] != b.shape[builtins.max(y.ndim - 2, 0)]:
        raise _unmatched(x, y)
    a = reshaped(a, (1, *a.shape)) if x.ndim == 1 else a
    b = reshaped(b, (*b.shape, 1)) if y.ndim == 1 else b
    full = _batched(a, b)
    rows = full.shape[-2:-1] if x.ndim > 1 else ()
    columns = full.shape[-1:] if y.ndim > 1 else ()
    return fresh(reshaped(full, (*full.shape[:-2], *rows, *columns)))


def _batched(a: Value, b: Value) -> Value:
    """The product over equal batch axes; a matrix on the right serves all rows at once."""
    if b.type.rank == 2 and a.type.rank > 2:
        flat = Matmul(reshaped(a, (product(a.shape[:-1]), a.shape[-1])), b)
        return reshaped(flat, (*a.shape[:-1], b.shape[-1]))
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    return Matmul(spread(a, (*batch, *a.shape[-2:])), spread(b, (*batch, *b.shape[-2:])))


def _unmatched(x: Tensor, y: Tensor) -> ShapeError:
    columns, rows = x.shape[-1], y.shape[builtins.max(y.ndim - 2, 0)]
    fits = y.ndim >= 2 and x.shape[-1] == y.shape[-1]
    return ShapeError(
        f"matmul: the last axis of {x.type} has size {columns}, the rows of {y.type} are {rows}",
        remedy="the transpose would fit: x @ y.mT" if fits else None,
    )


@public("dot")
def dot(x: Any, y: Any) -> Any:
    """The product of vectors or matrices."""
    return matmul(x, y)
