"""Systems of linear equations, inverses, determinants and powers of square matrices.

They rest on the LU factorisation with row exchanges. What is singular gives NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.arrays.factorisations import (
    demand,
    determinant,
    log_determinant,
    lu_factors,
    matrices,
    matrix,
    solved,
    stretched,
    substituted,
)
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its magnitude."""

    sign: Any
    logabsdet: Any


@exported("linalg.solve")
def solve(a: Any, b: Any) -> Any:
    """``x`` with ``a @ x = b``; a ``b`` of one axis is a vector, any other holds matrices.

    ``b`` may have any number of columns. A matrix that is singular to the last bit gives NaN.
    """
    a, b = matrices("solve", a, b)
    demand("solve", a)
    demand_rows("solve", a, b)
    if b.ndim == 1:
        return xp.squeeze(solved(a, b[:, None]), -1)
    if a.ndim == 2 and b.ndim > 2:  # all columns of the batch beside one another, for one matrix
        moved = xp.moveaxis(b, -2, 0)
        found = solved(a, xp.reshape(moved, (a.shape[0], _size(moved.shape[1:]))))
        return xp.moveaxis(xp.reshape(found, moved.shape), 0, -2)
    return solved(a, b)


def _size(shape: Any) -> Any:
    total = 1
    for n in shape:
        total = total * n
    return total


def demand_rows(name: str, a: Tensor, b: Tensor) -> None:
    """Refuses right sides that have another number of rows than the matrix."""
    rows = b.type.shape[-1:] if b.ndim == 1 else b.type.shape[-2:-1]
    if rows == a.type.shape[-2:-1]:
        return
    found = f"{shown_shape(a.type.shape)} and {shown_shape(b.type.shape)}"
    raise ShapeError(
        f"{name}: expected as many rows on both sides, found arrays of the shapes {found}",
        origin=user_origin(),
        remedy="give the right side one row for each row of the matrix; of one axis it is a vector",
        sides=(a.type.shape[-2], rows[0]) if rows else (),
    )


@exported("linalg.inv")
def inv(x: Any) -> Any:
    """The inverses of square matrices; of one that is singular to the last bit NaN.

    ``solve(a, b)`` takes fewer steps than ``inv(a) @ b`` and keeps more digits.
    """
    x = matrix("inv", x)
    unit = xp.eye(x.shape[-1], dtype=x.dtype)
    return solved(x, stretched(unit, x.type.shape[:-2], 2))


@exported("linalg.det")
def det(x: Any) -> Any:
    """The determinants of square matrices; of no rows 1.

    Derivatives are made of cofactors, and so also right of singular matrices.
    """
    x = matrix("det", x)
    packed, order = lu_factors(x)
    pivots, sign = _pivots(packed, order)
    largest = xp.max(xp.abs(x), axis=(-2, -1), initial=0.0)
    least = xp.where(largest == 0, 1.0, largest) * xp.finfo(x.dtype).eps
    near = xp.where(pivots == 0, xp.expand_dims(least, axis=-1), pivots)
    whole = xp.where(xp.eye(x.shape[-1], dtype="bool"), near[..., None, :], packed)
    found, beside = (sign * xp.prod(p, axis=-1) for p in (pivots, near))
    return determinant(x, whole, order, found, beside)


@exported("linalg.slogdet")
def slogdet(x: Any) -> SlogdetResult:
    """The signs of determinants and the logarithms of their magnitudes; of 0 they are 0 and -inf.

    The magnitude itself may be too large or too small for a float. Of a matrix that holds a NaN
    both are NaN, where NumPy may give a sign.
    """
    x = matrix("slogdet", x)
    packed, order = lu_factors(x)
    pivots, sign = _pivots(packed, order)
    signs = sign * xp.prod(xp.sign(pivots), axis=-1)
    logarithm = xp.sum(xp.log(xp.abs(pivots)), axis=-1)
    return SlogdetResult(signs, log_determinant(x, packed, order, logarithm))


def _pivots(packed: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """The diagonal of U, and the sign of the order of rows."""
    before, after = order[..., :, None], order[..., None, :]
    swapped = xp.triu(xp.astype(before > after, "i64"), 1)  # pairs of rows that stand reversed
    odd = xp.sum(swapped, axis=(-2, -1)) % 2
    return xp.diagonal(packed, 0, -2, -1), xp.astype(1 - 2 * odd, packed.dtype)


@exported("linalg.solve_triangular")
def solve_triangular(
    a: Any, b: Any, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """``x`` with ``a @ x = b`` for a triangular ``a``, of which the other triangle is not read.

    With ``trans`` of 1 or ``"T"`` it is ``a.T @ x = b``. With ``unit_diagonal`` the diagonal is not
    read either, and taken to be 1. A ``b`` of one axis is a vector.
    """
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ArgumentError(
            f"solve_triangular: trans={trans!r:.40}: expected 0, 1, 2, 'N', 'T' or 'C'",
            origin=user_origin(),
            remedy="give 1 to solve with the transpose, or leave it out",
        )
    a, b = matrices("solve_triangular", a, b)
    demand("solve_triangular", a)
    demand_rows("solve_triangular", a, b)
    how = bool(lower), trans not in (0, "N"), bool(unit_diagonal)
    if b.ndim == 1:
        return xp.squeeze(substituted(a, b[:, None], *how), -1)
    return substituted(a, b, *how)


@exported("linalg.cho_solve")
def cho_solve(factor: Any, b: Any) -> Any:
    """``x`` with ``a @ x = b``, for the result of ``cho_factor(a)``."""
    if not isinstance(factor, tuple | list) or len(pair := cast("tuple[Any, ...]", factor)) != 2:
        raise ArgumentError(
            "cho_solve: expected the pair that cho_factor gives as the first argument",
            origin=user_origin(),
            remedy="give the matrix and whether it is the lower one, as a tuple of two",
        )
    c, lower = pair
    if isinstance(lower, Tensor):
        raise ArgumentError(
            "cho_solve: expected to know while tracing which triangle holds the factor",
            origin=user_origin(),
            remedy="pass the matrix alone, and write the pair with True or False where it is used",
        )
    first = solve_triangular(c, b, 0 if lower else 1, bool(lower))
    return solve_triangular(c, first, 1 if lower else 0, bool(lower))


@exported("linalg.matrix_power")
def matrix_power(x: Any, n: int) -> Any:
    """``x @ x @ ...``, n times for a known n, by repeated squaring; of the inverse for n < 0."""
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
        x, n = inv(x), -n
    result, square = None, x
    while n:
        if n & 1:
            result = square if result is None else xp.matmul(result, square)
        n >>= 1
        square = xp.matmul(square, square) if n else square
    if result is None:
        result = xp.broadcast_to(xp.eye(rows, dtype=xp.asarray(x).dtype), xp.shape(x))
    return xp.copy(result)
