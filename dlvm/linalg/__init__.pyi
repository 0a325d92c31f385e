"""Types for editors and type checkers, written by ``python -m tools.stubs``."""

from collections.abc import Sequence
from dlvm.dsl.trace.typed import Array
from dlvm.dsl.trace.typed import Axis
from dlvm.dsl.trace.typed import Operand
from dlvm.linalg.eigenpairs import EigPairs as EigPairs
from dlvm.linalg.eigenpairs import Pairs as Pairs
from dlvm.linalg.factors import PivotedQRResult as PivotedQRResult
from dlvm.linalg.factors import QRResult as QRResult
from dlvm.linalg.factors import cho_factor as cho_factor
from dlvm.linalg.functions import spectral as spectral
from dlvm.linalg.general import SchurResult as SchurResult
from dlvm.linalg.least_squares import LstsqResult as LstsqResult
from dlvm.linalg.solving import SlogdetResult as SlogdetResult
from dlvm.linalg.spectra import EighResult as EighResult
from dlvm.linalg.spectra import SVDResult as SVDResult
from numpy.typing import DTypeLike
from typing import Any

__all__ = ['cho_factor', 'cho_solve', 'cholesky', 'cond', 'cross', 'det', 'diagonal', 'eig_pairs', 'eigh', 'eigvals_pairs', 'eigvalsh', 'expm', 'inv', 'lstsq', 'matmul', 'matrix_norm', 'matrix_power', 'matrix_rank', 'matrix_transpose', 'multi_dot', 'norm', 'outer', 'pinv', 'qr', 'schur', 'slogdet', 'solve', 'solve_continuous_lyapunov', 'solve_discrete_lyapunov', 'solve_sylvester', 'solve_triangular', 'spectral', 'svd', 'svdvals', 'tensordot', 'trace', 'vecdot', 'vector_norm']

def cho_solve(factor: Any, b: Operand) -> Array:
    """``x`` with ``a @ x = b``, for the result of ``cho_factor(a)``."""

def cholesky(x: Operand, *, upper: bool = False) -> Array:
    """``L`` with ``L @ L.T = x``, lower triangular; with ``upper`` its transpose."""

def cond(x: Operand, p: float | str | None = None) -> Array:
    """How far matrices enlarge relative errors: ``norm(x, p) * norm(inv(x), p)``."""

def cross(x: Operand, y: Operand, axis: int = -1) -> Array:
    """The vector at right angles to two vectors of three elements each."""

def det(x: Operand) -> Array:
    """The determinants of square matrices; of no rows 1."""

def diagonal(x: Operand, *, offset: int = 0) -> Array:
    """The diagonals of matrices, ``offset`` right of the main one."""

def eig_pairs(x: Operand) -> EigPairs:
    """Eigenvalues and eigenvectors of square matrices, as real and imaginary parts."""

def eigh(x: Operand, UPLO: str | None = None, *, accuracy: str = 'standard') -> EighResult:
    """Eigenvalues in ascending order and orthonormal eigenvectors of symmetric matrices."""

def eigvals_pairs(x: Operand) -> Pairs:
    """The eigenvalues of square matrices, as real and imaginary parts."""

def eigvalsh(x: Operand, UPLO: str | None = None, *, accuracy: str = 'standard') -> Array:
    """The eigenvalues of symmetric matrices in ascending order, as ``eigh`` gives them."""

def expm(x: Operand) -> Array:
    """The exponentials of square matrices, ``I + x + x @ x / 2 + ...``."""

def inv(x: Operand) -> Array:
    """The inverses of square matrices; of one that is singular to the last bit NaN."""

def lstsq(a: Operand, b: Operand, rcond: Operand | None = None) -> LstsqResult:
    """The smallest ``x`` among those of the smallest ``norm(a @ x - b)``, by singular values."""

def matmul(x: Operand, y: Operand) -> Array:
    """The matrix product, as ``x @ y``."""

def matrix_norm(x: Operand, *, keepdims: bool = False, ord: float | str = 'fro') -> Array:
    """Of matrices: ``"fro"`` as of a vector, ``1`` the largest column, ``inf`` the largest row."""

def matrix_power(x: Operand, n: int) -> Array:
    """``x @ x @ ...``, n times for a known n, by repeated squaring; of the inverse for n < 0."""

def matrix_rank(x: Operand, tol: Operand | None = None, *, rtol: Operand | None = None) -> Array:
    """How many singular values are larger than ``tol``, or than ``rtol`` times the largest."""

def matrix_transpose(x: Operand) -> Array:
    """The last two axes exchanged."""

def multi_dot(arrays: Sequence[Any]) -> Array:
    """The product of several matrices (first and last may be vectors) in the cheapest order."""

def norm(x: Operand, ord: Any = None, axis: Axis | None = None, keepdims: bool = False) -> Array:
    """NumPy's name for both: a vector norm along one axis, a matrix norm along two."""

def outer(x: Operand, y: Operand) -> Array:
    """Every element of a vector times every element of another."""

def pinv(x: Operand, rcond: Operand | None = None, *, rtol: Operand | None = None) -> Array:
    """The pseudo-inverses of matrices of any shape and rank."""

def qr(x: Operand, mode: str = 'reduced', pivoting: bool = False) -> Any:
    """``Q`` and ``R`` with ``Q @ R = x``: orthonormal columns and an upper triangle."""

def schur(x: Operand) -> SchurResult:
    """``T`` and an orthogonal ``Z`` with ``Z @ T @ Z.T = x``: the real Schur form of matrices."""

def slogdet(x: Operand) -> SlogdetResult:
    """The signs of determinants and the logarithms of their magnitudes; of 0 they are 0 and -inf."""

def solve(a: Operand, b: Operand) -> Array:
    """``x`` with ``a @ x = b``; a ``b`` of one axis is a vector, any other holds matrices."""

def solve_continuous_lyapunov(a: Operand, q: Operand) -> Array:
    """``x`` with ``a @ x + x @ a.T = q``: the steady covariance of ``dx = a x dt`` plus noise of"""

def solve_discrete_lyapunov(a: Operand, q: Operand) -> Array:
    """``x`` with ``a @ x @ a.T - x + q = 0``: the steady covariance of ``x[t+1] = a x[t]`` plus"""

def solve_sylvester(a: Operand, b: Operand, q: Operand) -> Array:
    """``x`` with ``a @ x + x @ b = q``, for square ``a`` and ``b`` of any two sizes."""

def solve_triangular(a: Operand, b: Operand, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False) -> Array:
    """``x`` with ``a @ x = b`` for a triangular ``a``, of which the other triangle is not read."""

def svd(x: Operand, full_matrices: bool = True, compute_uv: bool = True, *, accuracy: str = 'standard') -> Any:
    """``U``, ``S`` and ``Vh`` with ``U @ diag(S) @ Vh = x``; ``S`` is in descending order."""

def svdvals(x: Operand, *, accuracy: str = 'standard') -> Array:
    """The singular values of matrices in descending order, as ``svd`` gives them."""

def tensordot(x: Operand, y: Operand, axes: Axis = 2) -> Array:
    """The sum of products over some axes of both."""

def trace(x: Operand, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """The sums of diagonals of matrices."""

def vecdot(x: Operand, y: Operand, axis: int = -1) -> Array:
    """The sum of products along an axis."""

def vector_norm(x: Operand, *, axis: int | Sequence[int] | None = None, keepdims: bool = False, ord: float = 2) -> Array:
    """``sum(|x|**ord) ** (1/ord)`` over the axes; ``inf`` and ``-inf`` the largest and least."""

