"""Eigenvalues of symmetric matrices, singular values and conditions.

What holds an infinity or NaN gives NaN.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dlvm.base.errors import ArgumentError
from dlvm.dsl.arrays.factorisations import (
    eigen_factors,
    matrix,
    singular_factors,
)
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp

from .factors import completed
from .norms import matrix_norm
from .solving import inv


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """Orthonormal columns, singular values in descending order, and orthonormal rows."""

    U: Any
    S: Any
    Vh: Any


@exported("linalg.eigh")
def eigh(x: Any, UPLO: str | None = None, *, accuracy: str = "standard") -> EighResult:
    """Eigenvalues in ascending order and orthonormal eigenvectors of symmetric matrices.

    They are those of the symmetric part ``(x + x.T) / 2``, with a symmetric derivative; with
    ``UPLO`` of ``"L"`` or ``"U"`` only that triangle is read. Of each eigenvector the first element
    of at least 3/4 of its largest magnitude is positive. Vectors of equal eigenvalues are no
    function of the matrix, and their derivative is NaN; that of the eigenvalues is not.

    Errors of eigenvalues are relative to the largest one. With ``accuracy="high"``, which takes
    many times as long, those of a definite matrix ``D @ B @ D`` with a diagonal ``D`` are relative
    to each eigenvalue, times the condition of ``B``.
    """
    accurate = _is_high("eigh", accuracy)
    return EighResult(*eigen_factors(_triangle("eigh", x, UPLO), accurate))


@exported("linalg.eigvalsh")
def eigvalsh(x: Any, UPLO: str | None = None, *, accuracy: str = "standard") -> Any:
    """The eigenvalues of symmetric matrices in ascending order, as ``eigh`` gives them."""
    accurate = _is_high("eigvalsh", accuracy)
    return eigen_factors(_triangle("eigvalsh", x, UPLO), accurate)[0]


def _is_high(name: str, accuracy: Any) -> bool:
    """Whether all digits of small values are requested."""
    if accuracy == "standard" or accuracy == "high":
        return accuracy == "high"
    raise ArgumentError(
        f"{name}: accuracy={accuracy!r:.40}: expected 'standard' or 'high'",
        origin=user_origin(),
        remedy="leave it out, or give accuracy='high' for all digits of small values",
    )


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
def svd(
    x: Any, full_matrices: bool = True, compute_uv: bool = True, *, accuracy: str = "standard"
) -> Any:
    """``U``, ``S`` and ``Vh`` with ``U @ diag(S) @ Vh = x``; ``S`` is in descending order.

    With ``full_matrices`` both ``U`` and ``Vh`` are square; else they have the smaller size of
    ``x``. Without ``compute_uv`` it is ``svdvals``. Of each column of ``U`` the first element of at
    least 3/4 of its largest magnitude is positive. Vectors of equal or zero singular values are no
    function of the matrix, and their derivative is NaN; that of other results is not.

    Errors of singular values are relative to the largest one. With ``accuracy="high"``, which takes
    many times as long, those of a matrix ``B @ D`` or ``D @ B`` with a diagonal ``D`` are relative
    to each singular value, times the condition of ``B``.
    """
    accurate = _is_high("svd", accuracy)
    a = matrix("svd", x, square=False)
    u, s, vt = singular_factors(a, accurate)
    if not compute_uv:
        return s
    if full_matrices:
        turn = xp.matrix_transpose
        u, vt = completed("svd", u, u), turn(completed("svd", turn(vt), turn(vt)))
    return SVDResult(u, s, vt)


@exported("linalg.svdvals")
def svdvals(x: Any, *, accuracy: str = "standard") -> Any:
    """The singular values of matrices in descending order, as ``svd`` gives them."""
    accurate = _is_high("svdvals", accuracy)
    return singular_factors(matrix("svdvals", x, square=False), accurate)[1]


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
