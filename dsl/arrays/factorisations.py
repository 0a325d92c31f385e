"""Operations on matrices as staged arrays: what ``dlvm.linalg`` is written with."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.dsl.elements.datatypes import astype
from dlvm.dsl.trace.operands import broadcast_shapes, fresh, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import named
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import at_least
from dlvm.ops import (
    LU,
    QR,
    Cholesky,
    Determinant,
    Eigenvalues,
    Eigenvectors,
    Eigh,
    LeastSquares,
    LogDeterminant,
    PseudoInverse,
    Schur,
    Solve,
    Spectral,
    TriangularSolve,
)
from dlvm.ops.factorisations.svd import decomposed

from .contraction import alike


def matrices(name: str, *arrays: Any) -> list[Tensor]:
    """Operands of one float type; integers and bools become f64."""
    xs = alike(arrays, None, name)
    if xs[0].element.kind in "biu":
        return [astype(x, "f64") for x in xs]
    if xs[0].element.kind != "f":
        raise DTypeError(f"{name}: expected real numbers, found {xs[0].dtype}")
    return xs


def matrix(name: str, x: Any, square: bool = True) -> Tensor:
    """One operand, after checking that it holds matrices."""
    (found,) = matrices(name, x)
    demand(name, found, square)
    return found


def demand(name: str, x: Tensor, square: bool = True) -> None:
    """Refuses what holds no matrices, or none that are square."""
    shape = x.type.shape
    if len(shape) > 1 and (not square or shape[-1] == shape[-2]):
        return
    raise ShapeError(
        f"{name}: expected {'square ' if square else ''}matrices, "
        f"found an array of the shape {shown_shape(shape)}",
        origin=user_origin(),
        remedy="give an array whose last two axes are the rows and the columns",
        sides=shape[-2:] if len(shape) > 1 else (),
    )


def in_batches(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the leading axes that those of one and the other stretch to."""
    batch = broadcast_shapes([a.type.shape[:-2], b.type.shape[:-2]])
    return stretched(a, batch, 2), stretched(b, batch, 2)


def stretched(x: Tensor, batch: tuple[Dim, ...], kept: int) -> Tensor:
    """An array for each one of a batch, which keeps its last axes."""
    shape = x.type.shape
    whole = (*batch, *shape[len(shape) - kept :])
    return x if shape == whole else named("broadcast_to")(x, whole)


def cholesky_factor(a: Tensor) -> Tensor:
    """The lower factor of the symmetric part."""
    turned = named("matrix_transpose")(a)
    return fresh(Cholesky((a * 0.5 + turned * 0.5).read()))


def lu_factors(a: Tensor) -> tuple[Tensor, Tensor]:
    """Both factors in one matrix, and the order of rows."""
    packed, order = LU(a.read()).results
    return fresh(packed), fresh(order)


def qr_factors(a: Tensor) -> tuple[Tensor, Tensor]:
    """Orthonormal columns and an upper triangle."""
    q, r = QR(a.read()).results
    return fresh(q), fresh(r)


def eigen_factors(a: Tensor, accurate: bool = False) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of what the lower triangle says."""
    values, vectors = Eigh(a.read(), accurate).results
    return fresh(values), fresh(vectors)


def schur_factors(a: Tensor) -> tuple[Tensor, Tensor]:
    """The real Schur form, and the orthogonal matrix that leads to it."""
    t, z = Schur(a.read()).results
    return fresh(t), fresh(z)


def with_eigenpairs(a: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """``w`` and ``v``, with the derivatives of eigenvalues and eigenvectors of ``a``."""
    operands = [x.read() for x in (a, w, v)]
    return fresh(Eigenvalues(*operands)), fresh(Eigenvectors(*operands))


def singular_factors(a: Tensor, accurate: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """``U``, ``s`` and ``V'``; of the transpose where that is known to have fewer columns."""
    rows, columns = a.type.shape[-2:]
    if at_least(rows, columns) or not at_least(columns, rows):
        u, s, vt = map(fresh, decomposed(a.read(), True, accurate))
        return u, s, vt
    turn = named("matrix_transpose")
    v, s, ut = map(fresh, decomposed(turn(a).read(), False, accurate))
    return turn(ut), s, turn(v)


def pseudo_inverse(a: Tensor, p: Tensor) -> Tensor:
    """``p``, with the derivative of the pseudo-inverse of ``a``."""
    return fresh(PseudoInverse(a.read(), p.read()))


def least_squares(a: Tensor, b: Tensor, p: Tensor, x: Tensor) -> Tensor:
    """``x``, with the derivative of ``p @ b`` for the pseudo-inverse ``p`` of ``a``."""
    return fresh(LeastSquares(*(v.read() for v in (a, b, p, x))))


def spectral_map(a: Tensor, v: Tensor, *tables: Tensor) -> Tensor:
    """``V diag(values) V'``, of which slopes and curvatures say the derivatives."""
    return fresh(Spectral(*(x.read() for x in (a, v, *tables))))


def determinant(a: Tensor, packed: Tensor, order: Tensor, d: Tensor, near: Tensor) -> Tensor:
    """``d``, with the derivative of the determinant of ``a``."""
    return fresh(Determinant(*(x.read() for x in (a, packed, order, d, near))))


def log_determinant(a: Tensor, packed: Tensor, order: Tensor, d: Tensor) -> Tensor:
    """``d``, with the derivative of the logarithm of the determinant of ``a``."""
    return fresh(LogDeterminant(*(x.read() for x in (a, packed, order, d))))


def solved(a: Tensor, b: Tensor) -> Tensor:
    """``inv(A) B``; each matrix is factorised once, however many share it in the batch."""
    packed, order = lu_factors(a)
    batch = broadcast_shapes([a.type.shape[:-2], b.type.shape[:-2]])
    many, factors, right = (stretched(x, batch, 2) for x in (a, packed, b))
    rows = stretched(order, batch, 1)
    return fresh(Solve(many.read(), factors.read(), rows.read(), right.read()))


def substituted(
    t: Tensor, b: Tensor, lower: bool, transposed: bool = False, unit: bool = False
) -> Tensor:
    """``inv(T) B`` for a triangular ``T``."""
    t, b = in_batches(t, b)
    return fresh(TriangularSolve(t.read(), b.read(), lower, transposed, unit))
