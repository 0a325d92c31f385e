"""Cholesky and QR factorisations."""

from __future__ import annotations

from typing import Any, NamedTuple

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.arrays.factorisations import (
    cholesky_factor,
    matrix,
    qr_factors,
)
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir.sizes.dims import at_least

from .pivoting import column_order


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle whose product is the matrix."""

    Q: Any
    R: Any


@exported("linalg.cholesky")
def cholesky(x: Any, *, upper: bool = False) -> Any:
    """``L`` with ``L @ L.T = x``, lower triangular; with ``upper`` its transpose.

    It is the factor of the symmetric part ``(x + x.T) / 2``, whose derivative with respect to ``x``
    is symmetric. A matrix that is not positive definite gives NaN throughout.
    """
    found = cholesky_factor(matrix("cholesky", x))
    return xp.matrix_transpose(found) if upper else found


class PivotedQRResult(NamedTuple):
    """Orthonormal columns, an upper triangle and the order of the columns of which they are."""

    Q: Any
    R: Any
    P: Any


@facing_users
def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """The factor of a positive definite matrix, and whether it is the lower one: for ``cho_solve``.

    The other triangle holds zeros.
    """
    return cholesky(a, upper=not lower), bool(lower)


@exported("linalg.qr")
def qr(x: Any, mode: str = "reduced", pivoting: bool = False) -> Any:
    """``Q`` and ``R`` with ``Q @ R = x``: orthonormal columns and an upper triangle.

    There are as many columns as the smaller size of ``x``, or as it has rows for
    ``mode="complete"``; ``mode="r"`` gives ``R`` alone. The signs are LAPACK's: a diagonal element
    of ``R`` is negative where its reflection started from a positive element, and stays as it is
    where all below it are zero.

    With ``pivoting``, as in SciPy, a third result ``P`` says how columns are ordered: for one
    matrix ``Q @ R`` is ``x[:, P]``. Each column is the one farthest from the space of those before,
    so magnitudes on the diagonal of ``R`` descend, up to rounding. Derivatives keep ``P``.
    """
    if mode not in ("reduced", "r", "complete"):
        raise ArgumentError(
            f"qr: mode={mode!r:.40}: expected 'reduced', 'r' or 'complete'",
            origin=user_origin(),
            remedy="leave it out for the reduced form",
        )
    a = matrix("qr", x, square=False)
    if not pivoting:
        q, r = _factors(a, mode)
        return r if mode == "r" else QRResult(q, r)
    order = column_order(a)
    q, r = _factors(xp.take_along_axis(a, order[..., None, :], axis=-1), mode)
    return (r, order) if mode == "r" else PivotedQRResult(q, r, order)


def _factors(a: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    q, r = qr_factors(a)
    if mode == "complete":
        rows, columns = a.type.shape[-2:]
        q = completed("qr", q, a)
        if not at_least(columns, rows):
            r = beside_zeros(r, rows - columns, -2)
    return q, r


def completed(name: str, q: Tensor, like: Tensor) -> Tensor:
    """A square orthogonal matrix of orthonormal columns, and of those that Householder's
    reflections of ``like`` give for the rest.

    What is added depends on q by being orthogonal to it: a change of q that leaves the space of its
    columns changes nothing of it.
    """
    rows, columns = like.type.shape[-2:]
    if at_least(columns, rows):
        return q
    if not at_least(rows, columns):
        raise ShapeError(
            f"{name}: it is not known which is larger, {rows} rows or {columns} columns",
            origin=user_origin(),
            remedy="leave out the complete form, or give an array with a known number of rows",
        )
    wide = beside_zeros(xp.stop_gradient(like), rows - columns, -1)
    rest = xp.stop_gradient(qr_factors(wide)[0])[..., columns:]
    rest = rest - xp.matmul(q, xp.matmul(xp.matrix_transpose(q), rest))
    turned, r = qr_factors(rest)
    signs = xp.copysign(1.0, xp.diagonal(xp.stop_gradient(r), 0, -2, -1))
    return xp.concat((q, turned * xp.astype(signs, q.dtype)[..., None, :]), axis=-1)


def beside_zeros(x: Tensor, count: Any, axis: int) -> Tensor:
    """Matrices with zeros behind their rows or columns."""
    shape = list(x.shape)
    shape[axis] = count
    return xp.concat((x, xp.zeros(tuple(shape), dtype=x.dtype)), axis=axis)
