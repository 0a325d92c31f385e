"""Random arrays for a program's parameters, chosen within the domains of its operations.

Each parameter can be drawn in several ways (of either sign, positive, between 0 and 1, above 1,
small counts). One parameter after the other takes the way with which the fewest operands are
outside the domains that the operations state, and the call raises no error. The same seed gives the
same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir import Array, DType, Function, Module
from dlvm.ir.sizes.dims import evaluate, symbols

from .rounding import QUICK, Run, TooLong, epsilon

SIZES = (3, 2, 5, 4)
"""The values of symbolic sizes, in order of their first use."""
MOST_ELEMENTS = 1 << 20
VAIN = 3
"""Number of draws with which a run took too long, after which the search ends."""
ENDLESS = 1e300
"""The trouble of arguments with which a run takes too long; only an error is worse."""
Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]
FLOATS: tuple[Draw, ...] = (
    lambda dice, shape: dice.uniform(-3, 3, shape),
    lambda dice, shape: dice.uniform(0.5, 2.5, shape),
    lambda dice, shape: dice.uniform(0.1, 0.9, shape),
    lambda dice, shape: dice.uniform(1.1, 3, shape),
    lambda dice, shape: dice.uniform(-0.9, 0.9, shape),
)
SIGNED: tuple[Draw, ...] = (
    lambda dice, shape: dice.integers(-3, 4, shape),
    lambda dice, shape: dice.integers(0, 3, shape),
    lambda dice, shape: dice.integers(0, 2, shape),
    lambda dice, shape: np.zeros(shape),
    lambda dice, shape: dice.integers(1, 4, shape),
)
TRUTHS: tuple[Draw, ...] = (
    lambda dice, shape: dice.random(shape) < 0.5,
    lambda dice, shape: np.ones(shape),
    lambda dice, shape: np.zeros(shape),
)


def drawn(
    module: Module,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    patience: int = QUICK,
) -> list[Array]:
    """Arrays for the first function of a module without declarations.

    A trial run of a draw may take up to ``patience`` operations.
    """
    main = module.main
    known = sizes_for(main, sizes or {})
    shapes = [tuple(evaluate(d, known) for d in p.type.shape) for p in main.params]
    ways = [_ways(p.dtype) for p in main.params]
    chosen = [0] * len(ways)

    def arrays(which: Sequence[int]) -> list[Array]:
        return [
            np.asarray(way[k](np.random.default_rng((seed, i)), shape)).astype(p.dtype.numpy)
            for i, (p, way, k, shape) in enumerate(
                zip(main.params, ways, which, shapes, strict=True)
            )
        ]

    best = arrays(chosen)
    least, tries = _trouble(module, best, patience), 0
    for i, way in enumerate(ways):
        for k in range(1, len(way)):
            tries += least == ENDLESS
            if not least or tries > VAIN:
                return best
            tried = [*chosen[:i], k, *chosen[i + 1 :]]
            found = arrays(tried)
            if (trouble := _trouble(module, found, patience)) < least:
                best, least, chosen = found, trouble, tried
    return best


def with_special_values(arrays: Sequence[Array], seed: int = 0) -> list[list[Array]]:
    """The same arguments twice: with zeros of both signs and ones; with NaN and infinities, too.

    A quarter of the floats is replaced, so that what is left shows which special values go where.
    """
    finite = (0.0, -0.0, 1.0, -1.0, 0.0, -0.0)
    every = (*finite, np.inf, -np.inf, np.nan)
    return [
        [_sprinkled(a, pool, seed + i) for i, a in enumerate(arrays)] for pool in (finite, every)
    ]


def _sprinkled(array: Array, pool: Sequence[float], seed: int) -> Array:
    if not epsilon(array):
        return array
    dice = np.random.default_rng((seed, 1))
    special = dice.choice(np.array(pool), array.shape).astype(array.dtype)
    return np.where(dice.random(array.shape) < 0.25, special, array)


def sizes_for(fn: Function, given: Mapping[str, int]) -> dict[str, int]:
    """A size for every symbol in the parameter types."""
    named = dict.fromkeys(s for p in fn.params for d in p.type.shape for s in symbols(d))
    return {s: given.get(s, SIZES[i % len(SIZES)]) for i, s in enumerate(named)}


def _ways(dtype: DType) -> tuple[Draw, ...]:
    if dtype.is_float:
        return FLOATS
    if dtype.kind == "b":
        return TRUTHS
    return SIGNED if dtype.kind == "i" else SIGNED[1:]


def _trouble(module: Module, arrays: Sequence[Array], patience: int) -> float:
    """The number of operands outside their domain; infinite if the call raises an error."""
    if sum(a.size for a in arrays) > MOST_ELEMENTS:
        return 0.0
    machine = Run(module, patience=patience)
    try:
        with np.errstate(all="ignore"):
            machine.enter(module.main.name, [np.array(a) for a in arrays])
    except TooLong:
        return ENDLESS
    except UserError:
        return np.inf
    return float(machine.domain[0])
