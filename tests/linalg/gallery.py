"""Matrices on which factorisations go wrong, and the ratios by which LAPACK judges them.

A ratio is a residual in units of ``n * eps`` times the norms of what it was computed from; LAPACK's
own tests pass below 30.
"""

from __future__ import annotations

import numpy as np

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
    "gram": lambda n: random(n) @ random(n).T + np.eye(n),
    "large": lambda n: (random(n) @ random(n).T + np.eye(n)) * 1e150,
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
