"""Matrices on which factorisations go wrong, and the ratios by which LAPACK judges them.

A ratio is a residual in units of ``n * eps`` times the norms of what it was computed from; LAPACK's
own tests pass below 30.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import invhilbert

PASSED = 30.0


def hilbert(n: int) -> np.ndarray:
    i = np.arange(n)
    return 1.0 / (i[:, None] + i + 1)


def kahan(n: int) -> np.ndarray:
    c, s = np.cos(1.2), np.sin(1.2)
    return np.diag(s ** np.arange(n)) @ (np.eye(n) - c * np.triu(np.ones((n, n)), 1))


def growing(n: int) -> np.ndarray:
    """Elements of U grow to ``2**(n-1)`` with row exchanges."""
    x = np.eye(n) - np.tril(np.ones((n, n)), -1)
    x[:, n - 1 :] = 1
    return x


def least_index(n: int) -> np.ndarray:
    i = np.arange(n) + 1.0
    return np.minimum(i[:, None], i)


def lehmer(n: int) -> np.ndarray:
    i = np.arange(n) + 1.0
    return np.minimum(i[:, None], i) / np.maximum(i[:, None], i)


def graded(n: int) -> np.ndarray:
    d = 10.0 ** -np.arange(n)
    return d[:, None] * lehmer(n) * d


def random(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, n))


def inverse_hilbert(n: int) -> np.ndarray:
    return invhilbert(n)


def wilkinson(n: int) -> np.ndarray:
    """Symmetric, with pairs of eigenvalues that agree to all digits."""
    beside = np.ones(max(n - 1, 0))
    return np.diag(np.abs(np.arange(n) - (n - 1) / 2)) + np.diag(beside, 1) + np.diag(beside, -1)


def frank(n: int) -> np.ndarray:
    """Upper Hessenberg, with small eigenvalues that are ill-conditioned."""
    i = np.arange(n)
    return np.triu(n - np.maximum(i[:, None], i), -1).astype(float)


def turned(w: np.ndarray) -> np.ndarray:
    """A symmetric matrix that has these eigenvalues, up to rounding errors."""
    q = np.linalg.qr(random(len(w)))[0]
    a = (q * w) @ q.T
    return (a + a.T) / 2


def clustered(n: int) -> np.ndarray:
    """Eigenvalues one rounding error from the next, and one that is small."""
    w = 1 + np.arange(n) * np.finfo(np.float64).eps
    w[n // 2 :][:1] = 1e-3
    return turned(w)


def repeated(n: int) -> np.ndarray:
    return turned(1.0 + np.arange(n) % 3)


def spread(n: int) -> np.ndarray:
    """Eigenvalues from 1 to 1e-12, and so no digits of the smallest in f32."""
    return turned(10.0 ** -np.linspace(0, 12, n))


def scaled(n: int) -> np.ndarray:
    """Rows and columns that fall by ten orders of magnitude each."""
    d = 10.0 ** -np.linspace(0, 10, n)
    return d[:, None] * lehmer(n) * d


def one_short(n: int) -> np.ndarray:
    """Of rank n - 1, up to rounding errors."""
    x = random(n)
    x[:, -1:] = x[:, :-1].sum(1, keepdims=True)
    return x


def rank_one(n: int) -> np.ndarray:
    """Of whole numbers, so that it is singular to the last bit."""
    return np.outer(2.0 ** (np.arange(n) % 5), 1.0 + np.arange(n))


def gram(n: int) -> np.ndarray:
    x = random(n)
    return x @ x.T + np.eye(n)


GENERAL = {
    "random": random,
    "hilbert": hilbert,
    "kahan": kahan,
    "growing": growing,
    "lehmer": lehmer,
    "graded": graded,
    "large": lambda n: random(n) * 1e150,
    "small": lambda n: random(n) * 1e-150,
    "identity": np.eye,
    "reversed": lambda n: np.eye(n)[::-1].copy(),
}
DEFINITE = {
    "least index": least_index,
    "lehmer": lehmer,
    "graded": graded,
    "gram": gram,
    "large": lambda n: gram(n) * 1e150,
    "identity": np.eye,
}
SIZES = (0, 1, 2, 3, 7, 31)


def norm(x: np.ndarray) -> float:
    """The largest column sum."""
    return float(np.abs(x).sum(0).max(initial=0))


def ratio(residual: np.ndarray, *of: np.ndarray) -> float:
    """A residual in units of rounding errors of what it was computed from."""
    size = max(residual.shape[0], 1)
    scale = np.finfo(residual.dtype).eps * size
    for x in of:
        residual, scale = residual / max(norm(x), 1e-300), scale
    return norm(residual) / scale
