"""Every transformation as a function from R^3 -> R^3 to R^3 -> R^3, and what it must agree with.

So any two can be put together. The oracle of the outer one is no derivative of ours: central
differences of fourth order of what the inner one gives, and one call for each lane.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import dlvm

Fun = Callable[[np.ndarray], np.ndarray]
V = (0.7, -0.4, 1.1)
W = (-0.3, 0.9, 0.5)
LANES = ((1.0, 0.0, 1.0), (0.6, 0.3, -0.5), (-0.8, 0.1, 2.0))  # x * a + b in each lane, times c


# -- control flow ----------------------------------------------------------------------------------


def cond(x):
    return dlvm.cond(x.sum() > 0.2, lambda x: dlvm.sin(x) * x, lambda x: dlvm.exp(-x) * 0.5, x)


def switch(x):
    index = dlvm.astype(dlvm.floor(x.sum() * 2), int)
    return dlvm.switch(index, [dlvm.sin, lambda x: x * x, lambda x: dlvm.exp(x) * x[0]], x)


def while_loop(x):
    return dlvm.while_loop(lambda c: (c * c).sum() < 3, lambda c: c * 1.4 + dlvm.sin(c) * 0.1, x)


def fori_loop(x):
    return dlvm.fori_loop(0, 3, lambda i, c: dlvm.sin(c) * x + i * 0.1, x)


def scan(x):
    def step(carry, a):
        return dlvm.tanh(carry * a + x.sum() * 0.1), carry * a

    last, stacked = dlvm.scan(step, x * 0.5, x)
    return last + stacked.sum(1)


def mapped(x):
    return dlvm.map(lambda a: dlvm.sin(a) * a + x.sum() * a, x)


def nested(x):
    def step(carry, a):
        def more(c):
            return dlvm.while_loop(lambda c: (c * c).sum() < 1, lambda c: c * 1.5 + a * 0.1, c)

        return dlvm.cond(a > 0.1, more, lambda c: dlvm.sin(c) + a, carry), a

    return dlvm.scan(step, x, x)[0]


def called(x):
    return _inner(_inner(x) * 0.5)


@dlvm.function
def _inner(x):
    return dlvm.sin(x) * x.sum() + x


@dlvm.function
def recursive(x):
    return dlvm.cond((x * x).sum() < 3, lambda x: recursive(x * 1.5) + dlvm.sin(x), dlvm.exp, x)


CONSTRUCTS: dict[str, Fun] = {
    f.__name__: f
    for f in (cond, switch, while_loop, fori_loop, scan, mapped, nested, called, recursive)
}


# -- transformations -------------------------------------------------------------------------------


def grad(f):
    return dlvm.grad(lambda x: (f(x) * np.array(W)).sum())


def value_and_grad(f):
    def both(x):
        value, slope = dlvm.value_and_grad(lambda x: (f(x) * np.array(W)).sum())(x)
        return slope * value

    return both


def vjp(f):
    return lambda x: dlvm.vjp(f, x)[1](np.array(W))[0]


def jvp(f):
    return lambda x: dlvm.jvp(f, (x,), (np.array(V),))[1]


def linearize(f):
    return lambda x: dlvm.linearize(f, x)[1](np.array(V))


def jacobian(f):
    return lambda x: dlvm.jacobian(f)(x) @ np.array(V)


def hessian(f):
    return lambda x: dlvm.hessian(lambda x: (f(x) * np.array(W)).sum())(x) @ np.array(V)


def vmap(f):
    def lanes(x):
        a, b, c = (np.array(column)[:, None] for column in zip(*LANES, strict=True))
        return (dlvm.vmap(f)(x * a + b) * c).sum(0)

    return lanes


def checkpoint(f):
    return dlvm.checkpoint(f)


def custom_vjp(f):
    g = dlvm.custom_vjp(f)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: dlvm.vjp(f, x)[1](ct))
    return g


def custom_jvp(f):
    g = dlvm.custom_jvp(f)
    g.defjvp(lambda primals, tangents: dlvm.jvp(f, primals, tangents))
    return g


# -- what they must agree with ---------------------------------------------------------------------


def evaluated(f: Fun) -> Fun:
    """The function, traced once and run by the interpreter."""
    module = dlvm.trace(f, np.zeros(3)).expanded()
    return lambda x: module.run(module.main.name, x)[0]


def along(f: Fun, x: np.ndarray, v: np.ndarray, h: float = 2e-3) -> np.ndarray:
    """The directional derivative by central differences of sixth order."""
    weights = ((1, 45), (2, -9), (3, 1))
    rows = (w * (f(x + k * h * v) - f(x - k * h * v)) for k, w in weights)
    return sum(rows, np.zeros(3)) / (60 * h)


def directed(f: Fun, x: np.ndarray) -> np.ndarray:
    return along(evaluated(f), x, np.array(V))


def slope(f: Fun, x: np.ndarray) -> np.ndarray:
    """The gradient of ``w . f`` by differences."""
    run = evaluated(f)
    return np.array([along(run, x, unit) @ W for unit in np.eye(3)])


def weighted_slope(f: Fun, x: np.ndarray) -> np.ndarray:
    return slope(f, x) * (evaluated(f)(x) @ W)


def second(f: Fun, x: np.ndarray) -> np.ndarray:
    """Differences of gradients, which are tried by themselves."""
    return directed(grad(f), x)


def apart(f: Fun, x: np.ndarray) -> np.ndarray:
    run = evaluated(f)
    return sum((c * run(x * a + b) for a, b, c in LANES), np.zeros(3))


def itself(f: Fun, x: np.ndarray) -> np.ndarray:
    return evaluated(f)(x)


Oracle = Callable[[Fun, np.ndarray], np.ndarray]
TRANSFORMATIONS: dict[str, tuple[Callable[[Fun], Fun], Oracle]] = {
    "grad": (grad, slope),
    "value_and_grad": (value_and_grad, weighted_slope),
    "vjp": (vjp, slope),
    "jvp": (jvp, directed),
    "linearize": (linearize, directed),
    "jacobian": (jacobian, directed),
    "hessian": (hessian, second),
    "vmap": (vmap, apart),
    "checkpoint": (checkpoint, itself),
    "custom_vjp": (custom_vjp, itself),
    "custom_jvp": (custom_jvp, itself),
}
