"""Random nests of every control construct around smooth functions from R^3 to R^3.

``nest(seed, depth)`` is a function of ``x`` and of a captured ``w``; all that steers it comes from
the seed or from values that stay away from where it would jump.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dlvm

Fun = Callable[[Any, Any], Any]
Maker = Callable[[np.random.Generator, "list[Fun]"], Fun]


def leaf(rng: np.random.Generator) -> Fun:
    """A few element-wise operations, a product now and then."""
    a, b = rng.uniform(0.3, 0.9, 2).tolist()
    kinds: list[Fun] = [
        lambda x, w: dlvm.tanh(x * w + a) * x,
        lambda x, w: dlvm.sin(x * a) + x * w * b,
        lambda x, w: dlvm.exp(-x * x) * w + x * b,
        lambda x, w: x * a + x.sum() * b * w,
    ]
    return kinds[rng.integers(len(kinds))]


def cond(rng: np.random.Generator, parts: list[Fun]) -> Fun:
    f, g = parts
    return lambda x, w: dlvm.cond(x[0] > 0, lambda x: f(x, w), lambda x: g(x, w), x)


def switch(rng: np.random.Generator, parts: list[Fun]) -> Fun:
    f, g = parts
    chosen = int(rng.integers(0, 4))

    def branches(x, w):
        ways = [lambda x: f(x, w), lambda x: g(x, w), lambda x: x * w]
        return dlvm.switch(dlvm.astype(x[1] > 0, int) * chosen, ways, x)

    return branches


def scan(rng: np.random.Generator, parts: list[Fun]) -> Fun:
    f, g = parts
    how = {"reverse": bool(rng.integers(2)), "unroll": int(rng.integers(1, 3))}

    def run(x, w):
        def step(carry, a):
            new = f(carry, w) * 0.5 + a
            return new, g(new, w).sum()

        last, stacked = dlvm.scan(step, x, dlvm.stack([x, w * x, x * 0.1]), **how)
        return last + stacked.sum()

    return run


def fori(rng: np.random.Generator, parts: list[Fun]) -> Fun:
    f, g = parts
    trips = int(rng.integers(0, 4))
    return lambda x, w: dlvm.fori_loop(0, trips, lambda i, c: f(c, w) + i * 0.1, g(x, w))


def loop(rng: np.random.Generator, parts: list[Fun]) -> Fun:
    f, g = parts
    trips = int(rng.integers(0, 4))

    def run(x, w):
        def body(s):
            return s[0] + 1, f(s[1], w) * 0.7

        return dlvm.while_loop(lambda s: s[0] < trips, body, (0, g(x, w)))[1]

    return run


def mapped(rng: np.random.Generator, parts: list[Fun]) -> Fun:
    f, g = parts
    return lambda x, w: dlvm.map(lambda a: f(x * a, w).sum() + a, g(x, w))


def placed(rng: np.random.Generator, parts: list[Fun]) -> Fun:
    """A carry that is updated in place."""
    f, g = parts

    def run(x, w):
        def body(i, c):
            return c.at[i].set(f(c, w)[i] + c[i - 1])

        return dlvm.fori_loop(0, 3, body, g(x, w))

    return run


def recursion(rng: np.random.Generator, parts: list[Fun]) -> Fun:
    f, g = parts
    depth = int(rng.integers(0, 3))

    def run(x, w):
        @dlvm.function
        def deep(y, n):
            return dlvm.cond(n == 0, lambda: f(y, w), lambda: g(deep(y * 0.8, n - 1), w))

        return deep(x, depth)

    return run


def kept(rng: np.random.Generator, parts: list[Fun]) -> Fun:
    f, g = parts
    return lambda x, w: dlvm.checkpoint(lambda x: f(g(x, w), w))(x)


MAKERS: tuple[Maker, ...] = (cond, switch, scan, fori, loop, mapped, placed, recursion, kept)


def nest(seed: int, depth: int = 3) -> Fun:
    """A nest whose outermost construct goes round with the seed."""
    rng = np.random.default_rng(seed)

    def part(left: int, maker: Maker) -> Fun:
        below = [
            part(left - 1, MAKERS[rng.integers(len(MAKERS))]) if left > 1 and k == 0 else leaf(rng)
            for k in range(2)
        ]
        return maker(rng, below)

    return part(depth, MAKERS[seed % len(MAKERS)])
