"""Diagonals and triangles of matrices; leading axes are batches."""

from __future__ import annotations

import operator
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.arithmetic import where
from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.operands import fresh, staged
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import named
from dlvm.dsl.words.views import Block, OnDiagonal
from dlvm.ir import Dim, Expr, zeros
from dlvm.ir.sizes.dims import maximum, minimum
from dlvm.ops import Broadcast, Iota, Pad

from .shapes import moveaxis


@public("diagonal", views=True)
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """The elements of two axes that lie ``offset`` right of the main diagonal, as the last axis.

    A view that can't be assigned into, as in NumPy.
    """
    x = staged(x)
    axes_of(x, (axis1, axis2))
    rows, columns = x.type.shape[axis1], x.type.shape[axis2]
    offset = operator.index(offset)
    right, down = max(offset, 0), max(-offset, 0)
    size = maximum(minimum(rows - down, columns - right), 0)
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    starts, sizes = (*(0,) * (x.ndim - 2), down, right), (*x.type.shape[:-2], size, size)
    return x.part(Block(starts, sizes, (1,) * x.ndim, sizes)).part(OnDiagonal())


@public("trace")
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Any:
    """The sum along a diagonal."""

    return named("sum")(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)


@public("diag", views=True)
def diag(x: Any, k: int = 0) -> Any:
    """The diagonal of a matrix, or the matrix that has a vector on a diagonal and zeros else."""
    x = staged(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: expected a vector or a matrix, found {x.type}")
    padded = Pad(x.read(), (0,), (abs(k),))
    (size,) = padded.type.shape
    repeated = Broadcast(padded, (size, size), (0 if k >= 0 else 1,))
    return where(_right_of(size, size) == k, fresh(repeated), fresh(zeros(repeated.type)))


@public("diagflat")
def diagflat(x: Any, k: int = 0) -> Any:
    """The matrix that has the elements of ``x``, flattened, on a diagonal and zeros elsewhere."""
    return diag(named("ravel")(x), k)


@public("tril")
def tril(x: Any, k: int = 0) -> Any:
    """Zeros right of the diagonal that lies ``k`` right of the main one."""
    x = _matrix(x, "tril")
    return where(_right_of(*x.type.shape[-2:]) <= _whole(k), x, fresh(zeros(x.type)))


@public("triu")
def triu(x: Any, k: int = 0) -> Any:
    """Zeros left of the diagonal that lies ``k`` right of the main one."""
    x = _matrix(x, "triu")
    return where(_right_of(*x.type.shape[-2:]) >= _whole(k), x, fresh(zeros(x.type)))


def _whole(k: Any) -> Any:
    """Which diagonal: a whole number, or a size or staged value that stands for one."""
    return k if isinstance(k, Tensor | Expr) else operator.index(k)


def _matrix(x: Any, name: str) -> Tensor:
    x = staged(x)
    if x.ndim < 2:
        raise ShapeError(f"{name}: expected a matrix, found {x.type}")
    return x


def _right_of(rows: Dim, columns: Dim) -> Tensor:
    """For each place of a matrix, how far right of the main diagonal it lies."""
    shape = (rows, columns)
    row, column = (fresh(Broadcast(Iota(n), shape, (i,))) for i, n in enumerate(shape))
    return column - row
