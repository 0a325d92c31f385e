"""The ratios by which LAPACK's own tests judge a factorisation, and those of what is made of it.

A ratio is a residual in units of rounding errors of what it was computed from, in 1-norms; below 30
it passes. The unit is LAPACK's: half of the distance of 1 to the next float of the type of the
operands. Residuals are computed in f64. Functions here take operands, results and the unit.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mpmath as mp
import numpy as np
from scipy.linalg import expm_cond, lu, solve_sylvester

from .gallery import norm

Array = Any
DIGITS = 40


def over(residual: Array, *parts: Any) -> float:
    """The norm of a residual divided by numbers and norms, one after the other.

    None of the quotients over- or underflows on the way, as a product of norms might.
    """
    size = np.abs(residual).max(initial=0)
    if not size or not np.isfinite(size):
        return 0.0 if size == 0 else np.inf
    mantissas, exponents = np.frexp([norm(p) if np.ndim(p) else float(p) for p in parts])
    below = float(np.prod(mantissas))
    if not below:
        return np.inf
    return norm(residual / size) / below * float(np.ldexp(size, -int(exponents.sum())))


def orthonormal(q: Array, u: float) -> float:
    """``|I - Q'Q| / (n u)``."""
    n = max(q.shape)
    return over(q.T @ q - np.eye(q.shape[1]), n, u)


def growth(a: Array) -> float:
    """How much larger than the matrix the upper factor is, with row exchanges."""
    if not np.abs(a).max(initial=0):
        return 1.0
    return max(1.0, np.abs(lu(a)[2]).max() / np.abs(a).max())


def cholesky(a: Array, factor: Array, u: float) -> float:
    """``|A - L L'| / (n |A| u)``."""
    return over(a - factor @ factor.T, len(a), a, u)


def factors(a: Array, packed: Array, order: Array, u: float) -> float:
    """``|P A - L U| / (n |A| u)``, divided by the growth."""
    below = np.tril(packed, -1) + np.eye(len(a))
    grown = max(1.0, np.abs(np.triu(packed)).max() / max(np.abs(a).max(), 1e-300))
    return over(a[order.astype(int)] - below @ np.triu(packed), len(a), a, u, grown)


def qr(a: Array, q: Array, r: Array, u: float) -> float:
    """``|A - Q R| / (n |A| u)`` and how orthonormal Q is."""
    return max(over(a - q @ r, max(a.shape), a, u), orthonormal(q, u))


def solved(a: Array, b: Array, x: Array, u: float) -> float:
    """``|A X - B| / (|A| |X| u)``, the worst column, divided by the growth."""
    if not np.isfinite(x).all():
        return 0.0 if refused(a, u) else np.inf
    grown = growth(a)
    return max(
        over((a @ y - c)[:, None], a, y[:, None], u, grown) for y, c in zip(x.T, b.T, strict=True)
    )


def substituted(t: Array, b: Array, x: Array, u: float) -> float:
    """``|T X - B| / (|T| |X| u)``, the worst column."""
    return max(over((t @ y - c)[:, None], t, y[:, None], u) for y, c in zip(x.T, b.T, strict=True))


def refused(a: Array, u: float) -> bool:
    """Whether the matrix is singular up to rounding errors, so that its inverse may overflow."""
    return bool(np.linalg.cond(a) * len(a) * u > 0.1)


def inverse(a: Array, x: Array, u: float) -> float:
    """``|I - A X| / (n |A| |X| u)``, divided by the growth."""
    if not np.isfinite(x).all():
        return 0.0 if refused(a, u) else np.inf
    return over(np.eye(len(a)) - a @ x, len(a), a, x, u, growth(a))


def apart(w: Array, other: Array, rows: int, u: float) -> float:
    """``max |w - w*| / (max |w| 2 u sqrt(rows))``.

    LAPACK has no root there. Rotations stop where elements beside the diagonal are rounding errors
    one by one; of a matrix whose singular values are all but equal they add up to as many more.
    """
    size = np.abs(other).max() or 1.0
    return float(np.abs(w / size - other / size).max() / (2 * u * np.sqrt(rows)))


def eigen(a: Array, w: Array, v: Array, u: float) -> float:
    """``|A V - V W| / (n |A| u)``, how orthogonal V is, and errors of W beside the largest."""
    far = apart(w, np.linalg.eigvalsh(a), len(a), u)
    return max(over(a @ v - v * w, len(a), a, u), orthonormal(v, u), far)


def schur(a: Array, t: Array, z: Array, u: float) -> float:
    """``|A - Z T Z'| / (n |A| u)`` and how orthogonal Z is."""
    return max(over(a - z @ t @ z.T, len(a), a, u), orthonormal(z, u))


def eigenpairs(a: Array, w: Array, imaginary: Array, v: Array, other: Array, u: float) -> float:
    """``|A V - V W| / (n |A| u)`` for vectors of the length 1, both parts."""
    real = a @ v - v * w + other * imaginary
    rest = a @ other - v * imaginary - other * w
    lengths = np.sqrt((v * v + other * other).sum(0)) - 1
    return max(
        over(real, len(a), a, u), over(rest, len(a), a, u), over(lengths[:, None], len(a), u)
    )


def between(a: Array, b: Array, q: Array, x: Array, u: float) -> float:
    """``|A X + X B - Q| / (n (|A| + |B|) |X| u)``; 0 of a solution that is too large for floats."""
    if not np.isfinite(x).all():
        most = np.finfo(np.float64 if u < 1e-10 else np.float32).max
        return 0.0 if norm(solve_sylvester(a, b, q)) > most / norm(a) else np.inf
    size = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    a, b, q = a / size, b / size, q / size
    return over(a @ x + x @ b - q, len(a), norm(a) + norm(b), x, u)


def singular_values(a: Array, p: Array, s: Array, vt: Array, u: float) -> float:
    """``|A - U S V'| / (n |A| u)``, how orthonormal U and V are, and errors of S."""
    far = apart(s, np.linalg.svd(a, compute_uv=False), len(a), u)
    residual = over(a - (p * s) @ vt, max(a.shape), a, u)
    return max(residual, orthonormal(p, u), orthonormal(vt.T, u), far)


def pseudo_inverse(a: Array, p: Array, u: float) -> float:
    """Penrose's four equations, as ``|A P A - A| / (n |A| |A| |P| u)``."""
    n, ap, pa = max(a.shape), a @ p, p @ a
    once = over(ap @ a - a, n, a, a, p, u), over(pa @ p - p, n, p, a, p, u)
    return max(*once, over(ap - ap.T, n, a, p, u), over(pa - pa.T, n, a, p, u))


def least_squares(a: Array, b: Array, x: Array, u: float) -> float:
    """``|x - x*| / (n u (cond |x| + cond^2 |r| / |A|))`` in 2-norms, for full rank."""
    s = np.linalg.svd(a, compute_uv=False)
    if s[-1] <= 4 * max(a.shape) * u * s[0]:
        return 0.0
    exact = a.astype(np.longdouble), b.astype(np.longdouble), x.astype(np.longdouble)
    left = (exact[1] - exact[0] @ exact[2]).astype(float)
    away = np.linalg.lstsq(a / s[0], left, rcond=1e-30)[0] / s[0]
    cond = s[0] / s[-1]
    bound = cond * np.linalg.norm(x) + cond**2 * np.linalg.norm(left) / s[0]
    return float(np.linalg.norm(away) / bound / (max(a.shape) * u))


def determinant(a: Array, found: Array, u: float) -> float:
    """``|d - d*| / (n u cond |d*|)``, or relative to Hadamard's bound where that is less."""
    limits = np.finfo(np.float64 if u < 1e-10 else np.float32)
    with mp.workdps(DIGITS):
        exact = mp.matrix(a.tolist())
        d, most = mp.det(exact), mp.mpf(1)
        for row in a.tolist():
            most *= mp.norm(mp.matrix([row]), 2)
        if most > float(limits.max) or 0 < abs(d) < float(limits.tiny):  # no float holds it
            return 0.0
        if d:
            most = min(most, abs(d) * mp.mnorm(exact, 1) * mp.mnorm(mp.inverse(exact), 1))
        error = abs(mp.mpf(float(found)) - d)
        return float(error / (most * len(a) * u)) if error else 0.0


@cache
def exact_exponential(size: int, numbers: bytes) -> Array:
    """The exponential of a matrix, at many digits."""
    a = np.frombuffer(numbers).reshape(size, size)
    with mp.workdps(DIGITS):
        return mp.expm(mp.matrix(a.tolist()))


def exponential(a: Array, found: Array, u: float) -> float:
    """``|X - exp(A)| / (u (n + cond) |exp(A)|)``, with the condition of the exponential."""
    with mp.workdps(DIGITS):
        exact = exact_exponential(len(a), a.tobytes())
        error = np.array((mp.matrix(found.tolist()) - exact).tolist(), float)
        size = norm(np.array(exact.tolist(), float))
    return over(error, size, u, len(a) + float(expm_cond(a)))
