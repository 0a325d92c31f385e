"""Least squares, pseudo-inverses and ranks: by QR where the rank is full, else by singular values.

Which singular values count as zero says what is meant. Where a bound on the condition of the
triangle of QR says that none does, they are not computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.arrays.factorisations import (
    demand,
    in_batches,
    least_squares,
    matrices,
    matrix,
    pseudo_inverse,
    qr_factors,
    singular_factors,
    stretched,
    substituted,
)
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.flow.control import cond
from dlvm.dsl.trace.operands import broadcast_shapes, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir.sizes.dims import at_least

from .solving import demand_rows
from .spectra import svdvals

MARGIN = 0.5
"""How far below 1 a bound on what counts as zero must be."""


class LstsqResult(NamedTuple):
    """A solution by least squares, the squares that are left, the rank and the singular values."""

    x: Any
    residuals: Any
    rank: Any
    singular_values: Any


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
    return _pseudo_inverse(a, rcond if rtol is None else rtol)


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


def _pseudo_inverse(a: Tensor, rtol: Any) -> Tensor:
    """The pseudo-inverse, with its derivative."""
    return pseudo_inverse(a, _inverted(xp.stop_gradient(a), rtol))


def _inverted(a: Tensor, rtol: Any) -> Tensor:
    """``inv(R) Q'`` for ``Q R = A``, and by singular values what may lack rank.

    The inverse of the triangle is computed first, and is then right from both sides: ``P A`` is as
    close to the identity as ``A P``. Of a solve with ``Q'`` for the right sides it is further by up
    to the condition, where columns of ``A`` have very different lengths (Higham, chapter 14).
    """
    if not _by_qr(a):
        return _by_values(a, rtol)
    if not _is_tall(a):
        turn = xp.matrix_transpose
        return turn(_inverted(turn(a), rtol))
    q, r = qr_factors(a)
    inverse = _inverse(r)

    def multiplied() -> Tensor:
        return xp.matmul(inverse, xp.matrix_transpose(q))

    return _either(_has_rank(r, inverse, a, rtol), multiplied, lambda: _by_values(a, rtol))


def _is_tall(a: Tensor) -> bool:
    """Whether there surely are as many rows as columns, or more."""
    rows, columns = a.type.shape[-2:]
    return at_least(rows, columns)


def _by_qr(a: Tensor) -> bool:
    """Whether it is known which side is the longer one; the rank of halves is not that of ``R``."""
    rows, columns = a.type.shape[-2:]
    known = at_least(rows, columns) or at_least(columns, rows)
    return known and a.dtype.itemsize > 2


def _by_values(a: Tensor, rtol: Any) -> Tensor:
    """The pseudo-inverse of the singular values that are not zero."""
    u, s, vt = singular_factors(a)
    kept = _kept(a, s, rtol) | xp.isnan(s)
    factors = xp.where(kept, 1 / xp.where(kept, s, 1.0), 0.0)
    return xp.matmul(xp.matrix_transpose(vt) * factors[..., None, :], xp.matrix_transpose(u))


def _inverse(r: Tensor) -> Tensor:
    """The inverse of a triangle."""
    return substituted(r, xp.eye(r.shape[-1], dtype=r.dtype), False)


def _has_rank(r: Tensor, inverse: Tensor, a: Tensor, rtol: Any) -> Any:
    """Whether surely no singular value of ``R``, and of ``A``, counts as zero; of NaN it is not.

    The largest one divided by the smallest is at most ``|R| |inv(R)|`` in Frobenius' norm. Half of
    what is left over is for rounding errors.
    """
    least = _cutoff(a, None) if rtol is None else xp.astype(rtol, a.dtype)
    return _size(r) * _size(inverse) * least <= MARGIN


def _size(x: Tensor) -> Any:
    """Frobenius' norm; of zeros NaN."""
    largest = xp.max(xp.abs(x), axis=(-2, -1), initial=0.0)
    parts = x / largest[..., None, None]
    return largest * xp.sqrt(xp.sum(parts * parts, axis=(-2, -1)))


def _either(full: Any, fast: Callable[[], Tensor], slow: Callable[[], Tensor]) -> Any:
    """Each matrix's own of two results; the slow one is computed if a matrix needs it."""

    def mixed() -> Any:
        return xp.where(full[..., None, None], fast(), slow())

    return cond(xp.all(full), fast, mixed)


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
    a = xp.stop_gradient(a)
    if tol is not None:
        kept = svdvals(a) > xp.expand_dims(xp.astype(tol, a.dtype), axis=-1)
        return xp.sum(xp.astype(kept, "i64"), axis=-1)

    def counted() -> Any:
        return xp.sum(xp.astype(_kept(a, svdvals(a), rtol), "i64"), axis=-1)

    if not _by_qr(a):
        return counted()
    tall = a if _is_tall(a) else xp.matrix_transpose(a)
    r = qr_factors(tall)[1]
    full = _has_rank(r, _inverse(r), a, rtol)
    most = xp.astype(xp.asarray(tall.shape[-1]), "i64")
    return cond(xp.all(full), lambda: xp.broadcast_to(most, full.shape), counted)


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
    columns = b[:, None] if b.ndim == 1 else b
    p = _pseudo_inverse(a, rcond)
    many, right = in_batches(a, columns)
    inverse = stretched(p, many.type.shape[:-2], 2)
    x = least_squares(many, right, inverse, _solution(a, columns, p, rcond))
    rows, unknowns = a.type.shape[-2:]
    if at_least(unknowns, rows):
        left = xp.zeros((*x.shape[:-2], 0), dtype=x.dtype)
    else:
        left = xp.sum(xp.square(xp.matmul(a, x) - columns), axis=-2)
    s = singular_factors(a)[1]
    rank = xp.sum(xp.astype(_kept(a, s, rcond) | xp.isnan(s), "i32"), axis=-1, dtype="i32")
    return LstsqResult(xp.squeeze(x, -1) if b.ndim == 1 else x, left, rank, s)


def _solution(a: Tensor, b: Tensor, p: Tensor, rtol: Any) -> Any:
    """``p @ b``; of a tall matrix by ``R`` of the matrix and the right sides beside one another."""
    a, b = xp.stop_gradient(a), xp.stop_gradient(b)
    if not (_by_qr(a) and _is_tall(a)):
        return xp.matmul(xp.stop_gradient(p), b)
    a, b = in_batches(a, b)
    n = a.shape[-1]
    both = qr_factors(xp.concat((a, b), axis=-1))[1][..., :n, :]
    r, turned = both[..., :n], both[..., n:]

    def solved() -> Tensor:
        return substituted(r, turned, False)

    full = _has_rank(r, _inverse(r), a, rtol)
    return _either(full, solved, lambda: xp.matmul(_by_values(a, rtol), b))
