"""Linear algebra, as functions on staged and on plain arrays; leading axes are batches.

Names are those of the array API standard; ``np.linalg`` functions on staged values lead here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dlvm.base.errors import ArgumentError, DTypeError, ShapeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.elements.powers import root
from dlvm.dsl.trace.operands import plain, shape_of
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.suggestions import reader
from dlvm.dsl.words.namespace import xp

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


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


@exported("linalg.diagonal")
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


@exported("linalg.matrix_power")
def matrix_power(x: Any, n: int) -> Any:
    """``x @ x @ ...``, n times for a known n >= 0, by repeated squaring."""
    shape = shape_of(plain(x))
    rows, columns = (-1, -2, *shape)[-2:]
    if rows != columns:
        raise ShapeError(
            f"matrix_power: expected square matrices, found the shape {shape}",
            origin=user_origin(),
            remedy="give square matrices; x ** n is the power of each element",
            sides=(rows, columns) if len(shape) > 1 else (),
        )
    if n < 0:
        raise ArgumentError(
            f"matrix_power: expected n >= 0, found {n}",
            origin=user_origin(),
            remedy="take the power of the inverse",
        )
    result, square = None, x
    while n:
        if n & 1:
            result = square if result is None else xp.matmul(result, square)
        n >>= 1
        square = xp.matmul(square, square) if n else square
    if result is None:
        result = xp.broadcast_to(xp.eye(rows, dtype=xp.asarray(x).dtype), xp.shape(x))
    return xp.copy(result)


@exported("linalg.cross")
def cross(x: Any, y: Any, axis: int = -1) -> Any:
    """The vector at right angles to two vectors of three elements each."""
    return xp.cross(x, y, axis=axis)


# -- norms -----------------------------------------------------------------------------------------


def _floats(x: Any) -> Any:
    dtype = xp.asarray(x).dtype
    if dtype.kind in "biu":
        return xp.astype(x, "f64")
    if dtype.kind == "c":
        raise DTypeError(f"a norm of {dtype} elements", origin=user_origin())
    return x


@exported("linalg.vector_norm")
def vector_norm(
    x: Any,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Any:
    """``sum(|x|**ord) ** (1/ord)`` over the axes; ``inf`` and ``-inf`` the largest and least.

    The derivative of a norm is 0 where all elements are, the least of its slopes there.
    """
    x = _floats(x)
    dtype = xp.asarray(x).dtype
    if dtype.itemsize == 2:  # squares of 16-bit floats overflow: rounded once, at the end
        wide = vector_norm(xp.astype(x, "f32"), axis=axis, keepdims=keepdims, ord=ord)
        return xp.astype(wide, dtype)
    size = xp.abs(x)
    if ord == math.inf:
        return xp.max(size, axis=axis, keepdims=keepdims, initial=0.0)
    if ord == -math.inf:
        return xp.negative(xp.max(xp.negative(size), axis=axis, keepdims=keepdims))
    if ord == 0:
        return xp.sum(xp.astype(xp.not_equal(x, 0), dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return xp.sum(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return root(xp.sum(xp.multiply(x, x), axis=axis, keepdims=keepdims))
    total = xp.sum(xp.power(size, ord), axis=axis, keepdims=keepdims)
    return xp.where(xp.equal(total, 0), total, xp.power(total, 1 / ord))


@exported("linalg.matrix_norm")
def matrix_norm(x: Any, *, keepdims: bool = False, ord: float | str = "fro") -> Any:
    """Of matrices: ``"fro"`` as of a vector, ``1`` the largest column, ``inf`` the largest row.

    ``-1`` and ``-inf`` are the smallest column and row.
    """
    x = _floats(x)
    if len(xp.shape(x)) < 2:
        raise ShapeError(
            "matrix_norm: expected matrices",
            origin=user_origin(),
            remedy="dlvm.linalg.vector_norm takes any array",
        )
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(
            f"matrix_norm: ord={ord!r}: expected 'fro', 1, -1, inf or -inf",
            origin=user_origin(),
            remedy="give one of these, or leave it out for 'fro'",
        )
    along = -2 if abs(float(ord)) == 1 else -1
    sums = xp.sum(xp.abs(x), axis=along, keepdims=True)
    last = math.inf if float(ord) > 0 else -math.inf
    return vector_norm(sums, axis=(-2, -1), keepdims=keepdims, ord=last)


@exported("linalg.norm")
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """NumPy's name for both: a vector norm along one axis, a matrix norm along two."""
    rank = len(xp.shape(x))
    if ord is None:
        return vector_norm(x, axis=axis, keepdims=keepdims)
    axes = tuple(range(rank)) if axis is None else (axis,) if isinstance(axis, int) else axis
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=ord)
    if len(axes) != 2:
        raise ShapeError(
            f"norm: ord= needs one or two axes, found {axes}",
            origin=user_origin(),
            remedy="give axis= one axis for vectors, two for matrices",
        )
    found = matrix_norm(xp.moveaxis(x, axes, (-2, -1)), keepdims=keepdims, ord=ord)
    return xp.moveaxis(found, (-2, -1), axes) if keepdims else found


__getattr__ = reader(__name__, __all__)
