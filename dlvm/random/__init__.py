"""Random numbers as pure functions of a key, on staged and on plain arrays.

    key = dlvm.random.key(0)
    w = dlvm.random.normal(key, (784, 10))

A key always gives the same numbers: ``split`` it, or ``fold_in`` a number, for others. Nothing is
kept between calls, so results are the same in every process, on any number of threads, alone or
under ``vmap``. Bits, uniform numbers and integers are those of ``jax.random``, staged or not; what
is made of them by a formula, as ``normal`` is, is the same up to rounding. What is drawn by
rejection (gamma numbers and what is made of them, Poisson numbers), ``permutation``, and ``choice``
where nothing is drawn twice have streams of their own.
"""

from __future__ import annotations

from dlvm.dsl.arrays import random_numbers as random_numbers
from dlvm.dsl.trace.suggestions import reader
from dlvm.dsl.words.names import named

from .choosing import choice
from .counts import poisson
from .distributions import (
    cauchy,
    laplace,
    multivariate_normal,
    orthogonal,
    rademacher,
    truncated_normal,
)
from .gammas import beta, dirichlet, gamma, loggamma, t

__all__ = [
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "gumbel",
    "key",
    "laplace",
    "loggamma",
    "multivariate_normal",
    "normal",
    "orthogonal",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "split",
    "t",
    "truncated_normal",
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
