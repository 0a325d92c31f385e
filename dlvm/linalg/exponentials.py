"""The exponential of square matrices, by a rational approximation of a scaled matrix."""

from __future__ import annotations

import math
from typing import Any

from dlvm.dsl.arrays.factorisations import matrix, solved
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.flow.control import cond
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp

from .norms import matrix_norm

NUMERATOR = (
    *(64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800),
    *(129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920),
    *(40840800, 960960, 16380, 182, 1),
)
"""Of the Pade approximant of degree 13 (Higham, SIAM J. Matrix Anal. Appl. 26, 2005)."""
RADIUS = 5.371920351148152
"""Up to this 1-norm its error is below that of rounding to f64 (ibid.)."""
SQUARINGS = 64


@exported("linalg.expm")
def expm(x: Any) -> Any:
    """The exponentials of square matrices, ``I + x + x @ x / 2 + ...``.

    A matrix is halved until its 1-norm is at most 5.4, and the result squared as many times. One
    with a 1-norm over 9e19 gives NaN.
    """
    x = matrix("expm", x)
    if x.dtype.itemsize == 2:  # coefficients overflow in halves
        return xp.astype(expm(xp.astype(x, "f32")), x.dtype)
    size = matrix_norm(xp.stop_gradient(x), ord=1)
    count = xp.ceil(xp.log2(xp.maximum(size / RADIUS, 1.0)))
    scaled = x * xp.exp2(-count)[..., None, None]
    found = _squared(_rational(scaled), xp.minimum(count, float(SQUARINGS)))
    return xp.where((count <= SQUARINGS)[..., None, None], found, math.nan)


def _squared(x: Tensor, count: Tensor) -> Any:
    """Each matrix squared as many times as is said of it; no step is taken that none needs."""
    from dlvm.dsl.flow.loops import fori_loop  # not loaded by those who call nothing of it

    most = xp.max(count, initial=0.0)

    def step(i: Any, x: Any) -> Any:
        def square(x: Any) -> Any:
            mine = (count > i)[..., None, None]
            part = xp.where(mine, x, 0.0)  # the square of what is through might overflow
            return xp.where(mine, xp.matmul(part, part), x)

        return cond(most > i, square, _same, x)

    return fori_loop(0, SQUARINGS, step, x)


def _same(x: Any) -> Any:
    return x


def _rational(x: Tensor) -> Tensor:
    """``inv(V - U) (V + U)`` for the odd part U and the even part V of the numerator."""
    c = [n / NUMERATOR[0] for n in NUMERATOR]
    unit = xp.eye(x.shape[-1], dtype=x.dtype)
    x2 = xp.matmul(x, x)
    x4 = xp.matmul(x2, x2)
    x6 = xp.matmul(x2, x4)
    odd = xp.matmul(x6, x6 * c[13] + x4 * c[11] + x2 * c[9])
    odd = xp.matmul(x, odd + x6 * c[7] + x4 * c[5] + x2 * c[3] + unit * c[1])
    even = xp.matmul(x6, x6 * c[12] + x4 * c[10] + x2 * c[8])
    even = even + x6 * c[6] + x4 * c[4] + x2 * c[2] + unit * c[0]
    return solved(even - odd, even + odd)
