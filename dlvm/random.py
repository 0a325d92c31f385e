"""Random numbers as pure functions of a key, on staged and on plain arrays.

    key = dlvm.random.key(0)
    w = dlvm.random.normal(key, (784, 10))

A key always gives the same numbers: ``split`` it, or ``fold_in`` a number, for others. Nothing is
kept between calls, so results are the same in every process, on any number of threads, alone or
under ``vmap``. Bits, uniform numbers and integers are those of ``jax.random``, staged or not; what
is made of them by functions, as ``normal`` is, is the same staged or not up to rounding.
"""

from __future__ import annotations

from dlvm.dsl.arrays import random_numbers as random_numbers
from dlvm.dsl.trace.suggestions import reader
from dlvm.dsl.words.names import named

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "normal",
    "permutation",
    "randint",
    "split",
    "uniform",
]

bernoulli = named("random.bernoulli")
bits = named("random.bits")
categorical = named("random.categorical")
exponential = named("random.exponential")
fold_in = named("random.fold_in")
gumbel = named("random.gumbel")
key = named("random.key")
normal = named("random.normal")
permutation = named("random.permutation")
randint = named("random.randint")
split = named("random.split")
uniform = named("random.uniform")

__getattr__, __dir__ = reader(__name__, __all__)
