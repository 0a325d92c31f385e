"""Types for editors and type checkers, written by ``python -m tools.stubs``."""

from dlvm.dsl.trace.typed import Array
from dlvm.dsl.trace.typed import Operand
from dlvm.dsl.trace.typed import Shape
from numpy.typing import DTypeLike
from typing import SupportsIndex

__all__ = ['bernoulli', 'beta', 'bits', 'categorical', 'cauchy', 'choice', 'dirichlet', 'exponential', 'fold_in', 'gamma', 'gumbel', 'key', 'laplace', 'loggamma', 'multivariate_normal', 'normal', 'orthogonal', 'permutation', 'poisson', 'rademacher', 'randint', 'split', 't', 'truncated_normal', 'uniform']

def bernoulli(key: Operand, p: Operand = 0.5, shape: Shape | None = None) -> Array:
    """True with a probability of ``p``, for each element of ``p`` or of a shape."""

def beta(key: Operand, a: Operand, b: Operand, shape: Shape | None = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers of the density ``x ** (a - 1) * (1 - x) ** (b - 1) / beta(a, b)``, from 0 to 1."""

def bits(key: Operand, shape: Shape = (), dtype: DTypeLike | None = 'u32') -> Array:
    """Unsigned integers, every bit of which is random."""

def categorical(key: Operand, logits: Operand, axis: int = -1) -> Array:
    """A class for each example, with the probabilities of which the logits are logarithms."""

def cauchy(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """Floats of the density ``1 / (pi * (1 + x ** 2))``."""

def choice(key: Operand, a: Operand, shape: Shape = (), replace: bool = True, p: Operand | None = None, axis: int = 0) -> Array:
    """Slices of an array along an axis, or numbers below a whole number, drawn at random."""

def dirichlet(key: Operand, alpha: Operand, shape: Shape | None = None, dtype: DTypeLike | None = None) -> Array:
    """Probabilities of N classes, along a new last axis, of the concentrations (..., N)."""

def exponential(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """Waiting times of mean 1."""

def fold_in(key: Operand, data: Operand) -> Array:
    """The key for a number, such as that of a step: ``split(key, n)[data]`` for any ``n`` above."""

def gamma(key: Operand, a: Operand, shape: Shape | None = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers of the density ``x ** (a - 1) * exp(-x) / gamma(a)``; NaN unless ``a > 0``."""

def gumbel(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """What to add to log-probabilities so that their largest is a sample."""

def key(seed: Operand) -> Array:
    """The key of a whole number, of which the lower 64 bits count."""

def laplace(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """Floats of the density ``exp(-abs(x)) / 2``."""

def loggamma(key: Operand, a: Operand, shape: Shape | None = None, dtype: DTypeLike | None = None) -> Array:
    """Logarithms of gamma numbers, which are finite where those are too small for a float."""

def multivariate_normal(key: Operand, mean: Operand, cov: Operand, shape: Shape | None = None, dtype: DTypeLike | None = None, method: str = 'cholesky') -> Array:
    """Normal vectors of a mean (..., N) and a covariance (..., N, N), along a new last axis."""

def normal(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """Floats of mean 0 and variance 1, normally distributed."""

def orthogonal(key: Operand, n: SupportsIndex, shape: Shape = (), dtype: DTypeLike | None = None, m: Operand | None = None) -> Array:
    """Matrices (*shape, n, m) whose columns, or rows if these are fewer, are orthonormal."""

def permutation(key: Operand, x: Operand, axis: int = 0) -> Array:
    """The numbers below a whole number, or slices of an array, in a random order."""

def poisson(key: Operand, lam: Operand, shape: Shape | None = None, dtype: DTypeLike | None = 'i64') -> Array:
    """How often something happens that happens ``lam`` times on average; -1 unless ``lam >= 0``."""

def rademacher(key: Operand, shape: Shape = (), dtype: DTypeLike | None = 'i64') -> Array:
    """The numbers -1 and 1, each with a probability of one half."""

def randint(key: Operand, shape: Shape, minval: Operand, maxval: Operand, dtype: DTypeLike | None = 'i64') -> Array:
    """Integers from ``minval`` up to, but not including, ``maxval``."""

def split(key: Operand, num: Shape = 2) -> Array:
    """Keys that are independent of one another, along a new first axis."""

def t(key: Operand, df: Operand, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers of Student's t-distribution with ``df`` degrees of freedom."""

def truncated_normal(key: Operand, lower: Operand, upper: Operand, shape: Shape | None = None, dtype: DTypeLike | None = None) -> Array:
    """Normal numbers of which only those between ``lower`` and ``upper`` are kept."""

def uniform(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None, minval: Operand = 0.0, maxval: Operand = 1.0) -> Array:
    """Floats from ``minval`` up to ``maxval``, evenly; where these are 0 and 1, never 1."""

