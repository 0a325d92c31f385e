"""Real Schur forms of square matrices, symmetric or not, and what is made of them.

What holds an infinity or NaN gives NaN.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dlvm.dsl.arrays.factorisations import matrix, schur_factors
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.tensor import Tensor


class SchurResult(NamedTuple):
    """Blocks on the diagonal of a triangle, and an orthogonal matrix."""

    T: Any
    Z: Any


@exported("linalg.schur")
def schur(x: Any) -> SchurResult:
    """``T`` and an orthogonal ``Z`` with ``Z @ T @ Z.T = x``: the real Schur form of matrices.

    ``T`` is zero below its diagonal but for blocks of two rows ``[[a, b], [c, a]]``, of which the
    product ``b * c`` is negative; their eigenvalues are ``a`` and plus and minus ``sqrt(-b * c)``
    times the imaginary unit. Neither is a function of the matrix alone, and their derivatives are
    NaN: those of the eigenvalues exist::

        T, Z = dlvm.linalg.schur(np.array([[0.0, 2.0], [-2.0, 0.0]]))
    """
    return SchurResult(*_without_derivative(matrix("schur", x)))


def _without_derivative(a: Tensor) -> tuple[Tensor, Tensor]:
    """Both factors, whose tangents are NaN."""
    from dlvm.dsl.derive.custom import custom_jvp  # not loaded by those who call nothing of it

    def rule(xs: tuple[Tensor], dxs: tuple[Tensor]) -> Any:
        return schur_factors(xs[0]), (dxs[0] * math.nan,) * 2

    factors = custom_jvp(schur_factors, surrogate=True)
    factors.defjvp(rule)
    return factors(a)
