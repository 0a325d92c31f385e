"""Types for editors and type checkers, written by ``python -m tools.stubs``."""

from dlvm.dsl.trace.typed import Array
from dlvm.dsl.trace.typed import Operand
from dlvm.dsl.trace.typed import Shape
from numpy.typing import DTypeLike

__all__ = ['bernoulli', 'bits', 'categorical', 'exponential', 'fold_in', 'gumbel', 'key', 'normal', 'permutation', 'randint', 'split', 'uniform']

def bernoulli(key: Operand, p: Operand = 0.5, shape: Shape | None = None) -> Array:
    """True with a probability of ``p``, for each element of ``p`` or of a shape."""

def bits(key: Operand, shape: Shape = (), dtype: DTypeLike | None = 'u32') -> Array:
    """Unsigned integers, every bit of which is random."""

def categorical(key: Operand, logits: Operand, axis: int = -1) -> Array:
    """A class for each example, with the probabilities of which the logits are logarithms."""

def exponential(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """Waiting times of mean 1."""

def fold_in(key: Operand, data: Operand) -> Array:
    """The key for a number, such as that of a step: ``split(key, n)[data]`` for any ``n`` above."""

def gumbel(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """What to add to log-probabilities so that their largest is a sample."""

def key(seed: Operand) -> Array:
    """The key of a whole number, of which the lower 64 bits count."""

def normal(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None) -> Array:
    """Floats of mean 0 and variance 1, normally distributed."""

def permutation(key: Operand, x: Operand, axis: int = 0) -> Array:
    """The numbers below a whole number, or slices of an array, in a random order."""

def randint(key: Operand, shape: Shape, minval: Operand, maxval: Operand, dtype: DTypeLike | None = 'i64') -> Array:
    """Integers from ``minval`` up to, but not including, ``maxval``."""

def split(key: Operand, num: Shape = 2) -> Array:
    """Keys that are independent of one another, along a new first axis."""

def uniform(key: Operand, shape: Shape = (), dtype: DTypeLike | None = None, minval: Operand = 0.0, maxval: Operand = 1.0) -> Array:
    """Floats from ``minval`` up to ``maxval``, evenly; where these are 0 and 1, never 1."""

