"""Norms of vectors and of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dlvm.base.errors import ArgumentError, DTypeError, ShapeError
from dlvm.dsl.arrays.factorisations import matrix, singular_factors
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.elements.powers import root
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp


def _floats(x: Any) -> Any:
    dtype = xp.asarray(x).dtype
    if dtype.kind in "biu":
        return xp.astype(x, default_float())
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

    ``-1`` and ``-inf`` are the smallest column and row, ``2`` and ``-2`` the largest and the
    smallest singular value, and ``"nuc"`` is the sum of these.
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
    if ord in (2, -2, "nuc"):
        return _of_singular_values(x, keepdims, ord)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ArgumentError(
            f"matrix_norm: ord={ord!r}: expected 'fro', 'nuc', 1, -1, 2, -2, inf or -inf",
            origin=user_origin(),
            remedy="give one of these, or leave it out for 'fro'",
        )
    along = -2 if abs(float(ord)) == 1 else -1
    sums = xp.sum(xp.abs(x), axis=along, keepdims=True)
    last = math.inf if float(ord) > 0 else -math.inf
    return vector_norm(sums, axis=(-2, -1), keepdims=keepdims, ord=last)


def _of_singular_values(x: Any, keepdims: bool, ord: float | str) -> Any:
    """The largest, the smallest or the sum."""
    s = singular_factors(matrix("matrix_norm", x, square=False))[1]
    if ord == "nuc":
        found = xp.sum(s, axis=-1)
    elif ord == 2:
        found = xp.max(s, axis=-1, initial=0.0)
    else:
        found = xp.min(s, axis=-1)
    return xp.expand_dims(found, axis=(-2, -1)) if keepdims else found


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
