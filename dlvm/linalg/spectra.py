"""Eigenvalues of symmetric matrices, singular values, and what is made of the latter.

What holds an infinity or NaN gives NaN.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.arrays.factorisations import (
    demand,
    eigen_factors,
    matrices,
    matrix,
    pseudo_inverse,
    singular_factors,
)
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import broadcast_shapes, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir.dims import at_least

from .factors import completed
from .norms import matrix_norm
from .solving import demand_rows, inv


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """Orthonormal columns, singular values in descending order, and orthonormal rows."""

    U: Any
    S: Any
    Vh: Any


class LstsqResult(NamedTuple):
    """A solution by least squares, the squares that are left, the rank and the singular values."""

    x: Any
    residuals: Any
    rank: Any
    singular_values: Any


@exported("linalg.eigh")
def eigh(x: Any, UPLO: str | None = None) -> EighResult:
    """Eigenvalues in ascending order and orthonormal eigenvectors of symmetric matrices.

    They are those of the symmetric part ``(x + x.T) / 2``, with a symmetric derivative; with
    ``UPLO`` of ``"L"`` or ``"U"`` only that triangle is read. Of each eigenvector the first element
    of at least 3/4 of its largest magnitude is positive. Vectors of equal eigenvalues are no
    function of the matrix, and their derivative is NaN; that of the eigenvalues is not.
    """
    return EighResult(*eigen_factors(_triangle("eigh", x, UPLO)))


@exported("linalg.eigvalsh")
def eigvalsh(x: Any, UPLO: str | None = None) -> Any:
    """The eigenvalues of symmetric matrices in ascending order, as ``eigh`` gives them."""
    return eigen_factors(_triangle("eigvalsh", x, UPLO))[0]


def _triangle(name: str, x: Any, uplo: str | None) -> Tensor:
    """Matrices whose lower triangle says what is meant."""
    if uplo is not None and str(uplo).upper() not in ("L", "U"):
        raise ArgumentError(
            f"{name}: UPLO={uplo!r:.40}: expected 'L', 'U' or None",
            origin=user_origin(),
            remedy="leave it out for a symmetric matrix",
        )
    x = matrix(name, x)
    if uplo is None:
        return x * 0.5 + xp.matrix_transpose(x) * 0.5
    return x if str(uplo).upper() == "L" else xp.matrix_transpose(x)


@exported("linalg.svd")
def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """``U``, ``S`` and ``Vh`` with ``U @ diag(S) @ Vh = x``; ``S`` is in descending order.

    With ``full_matrices`` both ``U`` and ``Vh`` are square; else they have the smaller size of
    ``x``. Without ``compute_uv`` it is ``svdvals``. Of each column of ``U`` the first element of at
    least 3/4 of its largest magnitude is positive. Vectors of equal or zero singular values are no
    function of the matrix, and their derivative is NaN; that of other results is not.
    """
    a = matrix("svd", x, square=False)
    u, s, vt = singular_factors(a)
    if not compute_uv:
        return s
    if full_matrices:
        turn = xp.matrix_transpose
        u, vt = completed("svd", u, u), turn(completed("svd", turn(vt), turn(vt)))
    return SVDResult(u, s, vt)


@exported("linalg.svdvals")
def svdvals(x: Any) -> Any:
    """The singular values of matrices in descending order."""
    return singular_factors(matrix("svdvals", x, square=False))[1]


def _cutoff(a: Tensor, rtol: Any) -> Any:
    """Beside the largest singular value, what counts as zero: by default rounding errors."""
    if rtol is None:
        larger = xp.maximum(*(xp.astype(xp.asarray(n), "f64") for n in a.shape[-2:]))
        return xp.astype(larger * xp.finfo(a.dtype).eps, a.dtype)
    return xp.expand_dims(xp.astype(rtol, a.dtype), axis=-1)


def _kept(a: Tensor, s: Tensor, rtol: Any) -> Any:
    """Which singular values are not zero beside the largest."""
    largest = xp.max(s, axis=-1, keepdims=True, initial=0.0)
    return s > _cutoff(a, rtol) * largest


@exported("linalg.pinv")
def pinv(x: Any, rcond: Any = None, *, rtol: Any = None) -> Any:
    """The pseudo-inverses of matrices of any shape and rank.

    Singular values up to ``rtol`` (or ``rcond``, its older name) times the largest count as zero,
    by default the larger size times the distance of 1 to the next float. The derivative is that of
    matrices of the same rank.
    """
    a = matrix("pinv", x, square=False)
    _check_one("pinv", rcond=rcond, rtol=rtol)
    _check_tolerance("pinv", a, rcond if rtol is None else rtol)
    return _pseudo_inverse(a, rcond if rtol is None else rtol)[0]


def _check_one(name: str, **tolerances: Any) -> None:
    """At most one of several names of a tolerance is given."""
    if all(t is not None for t in tolerances.values()):
        raise ArgumentError(
            f"{name}: expected one tolerance, found {' and '.join(tolerances)}",
            origin=user_origin(),
            remedy="leave one of the two out",
        )


def _check_tolerance(name: str, a: Tensor, rtol: Any) -> None:
    """A tolerance for each matrix: it stretches to the leading axes of the matrices."""
    batch = a.type.shape[:-2]
    given = () if rtol is None else shape_of(plain(rtol))
    if broadcast_shapes([batch, given]) != batch:
        raise ShapeError(
            f"{name}: the matrices {shown_shape(a.type.shape)} take tolerances that stretch to "
            f"{shown_shape(batch)}, found {shown_shape(given)}",
            origin=user_origin(),
            remedy="give one tolerance, or one for each matrix",
        )


def _pseudo_inverse(a: Tensor, rtol: Any) -> tuple[Tensor, Tensor, Any]:
    """The pseudo-inverse, the singular values and which of them are not zero."""
    u, s, vt = singular_factors(a)
    kept = _kept(a, s, rtol) | xp.isnan(s)
    factors = xp.where(kept, 1 / xp.where(kept, s, 1.0), 0.0)
    v = xp.matrix_transpose(vt) * factors[..., None, :]
    p = xp.stop_gradient(xp.matmul(v, xp.matrix_transpose(u)))
    return pseudo_inverse(a, p), s, kept


@exported("linalg.matrix_rank")
def matrix_rank(x: Any, tol: Any = None, *, rtol: Any = None) -> Any:
    """How many singular values are larger than ``tol``, or than ``rtol`` times the largest.

    Without both it is the larger size times the distance of 1 to the next float, times the largest.
    Of a vector it is 1 where an element is not 0.
    """
    if len(shape_of(plain(x))) < 2:
        return xp.astype(xp.any(xp.not_equal(x, 0)), "i64")
    a = matrix("matrix_rank", x, square=False)
    _check_one("matrix_rank", tol=tol, rtol=rtol)
    s = svdvals(a)
    if tol is None:
        kept = _kept(a, s, rtol)
    else:
        kept = s > xp.expand_dims(xp.astype(tol, a.dtype), axis=-1)
    return xp.sum(xp.astype(kept, "i64"), axis=-1)


@exported("linalg.cond")
def cond(x: Any, p: float | str | None = None) -> Any:
    """How far matrices enlarge relative errors: ``norm(x, p) * norm(inv(x), p)``.

    For ``p`` of None or 2 it is the largest singular value divided by the smallest, for any shape;
    for -2 it is the other way round. Of a singular matrix it is infinite.
    """
    a = matrix("cond", x, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(a)
        first, last = (s[..., -1], s[..., 0]) if p == -2 else (s[..., 0], s[..., -1])
        found = first / last
    else:
        found = matrix_norm(a, ord=p) * matrix_norm(inv(a), ord=p)
    known = xp.all(xp.logical_not(xp.isnan(a)), axis=(-2, -1))
    return xp.where(xp.logical_and(xp.isnan(found), known), math.inf, found)


@exported("linalg.lstsq")
def lstsq(a: Any, b: Any, rcond: Any = None) -> LstsqResult:
    """The smallest ``x`` among those of the smallest ``norm(a @ x - b)``, by singular values.

    Besides it there are the sums of squares of ``a @ x - b`` (of no elements where ``a`` has no
    more rows than columns, and otherwise of any rank, where NumPy's has none of less than full
    rank), the rank and the singular values. Those up to ``rcond`` times the largest count as zero,
    by default the larger size times the distance of 1 to the next float, and that distance where
    ``rcond`` is not between 0 and 1. The derivative is that of matrices of the same rank.
    """
    a, b = matrices("lstsq", a, b)
    demand("lstsq", a, square=False)
    demand_rows("lstsq", a, b)
    if rcond is not None:  # as LAPACK reads it
        eps = xp.finfo(a.dtype).eps
        rcond = xp.where(xp.logical_and(xp.less(0, rcond), xp.less(rcond, 1)), rcond, eps)
    p, s, kept = _pseudo_inverse(a, rcond)
    columns = b[:, None] if b.ndim == 1 else b
    x = xp.matmul(p, columns)
    rows, unknowns = a.type.shape[-2:]
    if at_least(unknowns, rows):
        left = xp.zeros((*x.shape[:-2], 0), dtype=x.dtype)
    else:
        left = xp.sum(xp.square(xp.matmul(a, x) - columns), axis=-2)
    rank = xp.sum(xp.astype(kept, "i32"), axis=-1, dtype="i32")
    return LstsqResult(xp.squeeze(x, -1) if b.ndim == 1 else x, left, rank, s)
