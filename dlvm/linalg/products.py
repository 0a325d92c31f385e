"""Products, transposes and diagonals of matrices, under the names of the array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp


@exported("linalg.matmul")
def matmul(x: Any, y: Any) -> Any:
    """The matrix product, as ``x @ y``."""
    return xp.matmul(x, y)


@exported("linalg.tensordot")
def tensordot(x: Any, y: Any, axes: Any = 2) -> Any:
    """The sum of products over some axes of both."""
    return xp.tensordot(x, y, axes)


@exported("linalg.vecdot")
def vecdot(x: Any, y: Any, axis: int = -1) -> Any:
    """The sum of products along an axis."""
    return xp.vecdot(x, y, axis)


@exported("linalg.outer")
def outer(x: Any, y: Any) -> Any:
    """Every element of a vector times every element of another."""
    return xp.outer(x, y)


@exported("linalg.matrix_transpose", views=True)
def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged."""
    return xp.matrix_transpose(x)


@exported("linalg.diagonal", views=True)
def diagonal(x: Any, *, offset: int = 0) -> Any:
    """The diagonals of matrices, ``offset`` right of the main one."""
    return xp.diagonal(x, offset, -2, -1)


@exported("linalg.trace")
def trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of diagonals of matrices."""
    return xp.trace(x, offset, -2, -1, dtype)


@exported("linalg.multi_dot")
def multi_dot(arrays: Sequence[Any]) -> Any:
    """The product of several matrices (first and last may be vectors) in the cheapest order."""
    ranks = [len(xp.shape(a)) for a in arrays]
    ends = {0, len(ranks) - 1}
    if len(ranks) < 2 or any(r != 2 and (r != 1 or i not in ends) for i, r in enumerate(ranks)):
        raise ShapeError(
            f"multi_dot: expected two or more matrices, vectors first and last only; found arrays "
            f"of {', '.join(map(str, ranks))} axes",
            origin=user_origin(),
            remedy="write x @ y for batches of matrices",
        )
    labels = [[i, i + 1] if r == 2 else [i + (i == 0)] for i, r in enumerate(ranks)]
    kept = [n for n, r in ((0, ranks[0]), (len(ranks), ranks[-1])) if r == 2]
    return xp.einsum(*(part for two in zip(arrays, labels, strict=True) for part in two), kept)


@exported("linalg.cross")
def cross(x: Any, y: Any, axis: int = -1) -> Any:
    """The vector at right angles to two vectors of three elements each."""
    return xp.cross(x, y, axis=axis)
