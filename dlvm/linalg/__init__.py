"""Linear algebra, as functions on staged and on plain arrays; leading axes are batches.

Names are those of the array API standard, of NumPy, and of SciPy where these have none;
``np.linalg`` functions on staged values lead here. What can't be factorised gives NaN, and no
error.
"""

from dlvm.dsl.trace.suggestions import reader

from .eigenpairs import EigPairs as EigPairs
from .eigenpairs import Pairs as Pairs
from .eigenpairs import eig_pairs, eigvals_pairs
from .exponentials import expm
from .factors import PivotedQRResult as PivotedQRResult
from .factors import QRResult as QRResult
from .factors import cho_factor, cholesky, qr
from .functions import spectral
from .general import SchurResult as SchurResult
from .general import schur
from .least_squares import LstsqResult as LstsqResult
from .least_squares import lstsq, matrix_rank, pinv
from .norms import matrix_norm, norm, vector_norm
from .products import (
    cross,
    diagonal,
    matmul,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from .solving import SlogdetResult as SlogdetResult
from .solving import (
    cho_solve,
    det,
    inv,
    matrix_power,
    slogdet,
    solve,
    solve_triangular,
)
from .spectra import EighResult as EighResult
from .spectra import SVDResult as SVDResult
from .spectra import (
    cond,
    eigh,
    eigvalsh,
    svd,
    svdvals,
)
from .sylvester import solve_continuous_lyapunov, solve_discrete_lyapunov, solve_sylvester

__all__ = [
    "cho_factor",
    "cho_solve",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig_pairs",
    "eigh",
    "eigvals_pairs",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "schur",
    "slogdet",
    "solve",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_sylvester",
    "solve_triangular",
    "spectral",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

__getattr__, __dir__ = reader(__name__, __all__)
