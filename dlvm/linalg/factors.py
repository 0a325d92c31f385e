"""Cholesky and QR factorisations, and least squares by the latter."""

from __future__ import annotations

from typing import Any, NamedTuple

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.arrays.factorisations import (
    cholesky_factor,
    demand,
    matrices,
    matrix,
    qr_factors,
    substituted,
)
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir.dims import at_least


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle whose product is the matrix."""

    Q: Any
    R: Any


class LstsqResult(NamedTuple):
    """A solution by least squares, and the sums of squares that are left, if any."""

    x: Any
    residuals: Any


@exported("linalg.cholesky")
def cholesky(x: Any, *, upper: bool = False) -> Any:
    """``L`` with ``L @ L.T = x``, lower triangular; with ``upper`` its transpose.

    It is the factor of the symmetric part ``(x + x.T) / 2``, whose derivative with respect to ``x``
    is symmetric. A matrix that is not positive definite gives NaN throughout.
    """
    found = cholesky_factor(matrix("cholesky", x))
    return xp.matrix_transpose(found) if upper else found


@facing_users
def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """The factor of a positive definite matrix, and whether it is the lower one: for ``cho_solve``.

    The other triangle holds zeros.
    """
    return cholesky(a, upper=not lower), bool(lower)


@exported("linalg.qr")
def qr(x: Any, mode: str = "reduced") -> Any:
    """``Q`` and ``R`` with ``Q @ R = x``: orthonormal columns and an upper triangle.

    There are as many columns as the smaller size of ``x``; ``mode="r"`` gives ``R`` alone. The
    signs are LAPACK's: a diagonal element of ``R`` is negative where its reflection started from a
    positive element, and stays as it is where all below it are zero.
    """
    if mode not in ("reduced", "r", "complete"):
        raise ArgumentError(
            f"qr: mode={mode!r:.40}: expected 'reduced', 'r' or 'complete'",
            origin=user_origin(),
            remedy="leave it out for the reduced form",
        )
    a = matrix("qr", x, square=False)
    rows, columns = a.type.shape[-2:]
    if mode == "complete" and not at_least(columns, rows):
        raise ArgumentError(
            f"qr: mode='complete' of {rows} rows and {columns} columns: there is no complete form "
            "of more rows than columns yet",
            origin=user_origin(),
            remedy="leave it out for the reduced form",
        )
    q, r = qr_factors(a)
    return r if mode == "r" else QRResult(q, r)


@exported("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: float | None = None) -> LstsqResult:
    """The ``x`` of the smallest ``norm(a @ x - b)`` for an ``a`` of full rank, by QR.

    Of fewer rows than columns it is the smallest ``x`` that solves the equations. ``residuals``
    are the sums of squares of ``a @ x - b``, of no elements where no rows are left over. There is
    no ``rank`` and there are no singular values, so ``rcond`` must be None; less than full rank
    gives infinities or NaN, or large numbers where it is only nearly so.
    """
    if rcond is not None:
        raise ArgumentError(
            f"lstsq: rcond={rcond!r:.40}: expected None, as no singular values are computed",
            origin=user_origin(),
            remedy="leave it out for a matrix of full rank",
        )
    a, b = matrices("lstsq", a, b)
    demand("lstsq", a, square=False)
    if b.ndim == 1:
        x, left = _least(a, b[:, None])
        return LstsqResult(xp.squeeze(x, -1), left)
    return LstsqResult(*_least(a, b))


def _least(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The solution for each column, and the squares that are left."""
    rows, columns = a.type.shape[-2:]
    if at_least(rows, columns):
        q, r = qr_factors(a)
        x = substituted(r, xp.matmul(xp.matrix_transpose(q), b), False)
    elif at_least(columns, rows):
        q, r = qr_factors(xp.matrix_transpose(a))
        x = xp.matmul(q, substituted(r, b, False, True))
    else:
        raise ShapeError(
            f"lstsq: it is not known which is larger, {rows} rows or {columns} columns",
            origin=user_origin(),
            remedy="give an array with a known number of rows or of columns, or of both",
        )
    if at_least(columns, rows):
        return x, xp.zeros((*x.shape[:-2], 0), dtype=x.dtype)
    return x, xp.sum(xp.square(xp.matmul(a, x) - b), axis=-2)
