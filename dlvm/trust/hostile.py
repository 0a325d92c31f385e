"""Numbers on which a program is likely to lose digits: large means, wide magnitudes, cancellation.

``hostile`` draws arguments for a program without branches. Some are of hostile kinds: a mean of a
thousand deviations, magnitudes over eight decades, whole numbers. Matrices of solves are made
nearly singular, with right sides that have small solutions. Then an argument is moved so that one
sum, difference or product of the program nearly vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dlvm.ir import Array, Function, Module, Op, Value
from dlvm.ir.sizes.dims import evaluate
from dlvm.ops import Add, Matmul, Solve, Sub, Sum

Dice = np.random.Generator
DECADES = 4.0
"""Magnitudes lie within a factor of ``10**DECADES`` of 1 in either direction."""
CANCELLED = Add | Sub | Sum | Matmul
"""Operations whose results may be small beside what they are made of."""


def _decades(dice: Dice, shape: tuple[int, ...]) -> Array:
    return 10.0 ** dice.uniform(-DECADES, DECADES, shape)


KINDS: tuple[Callable[[Array, Dice], Array], ...] = (
    lambda x, dice: x,
    lambda x, dice: 1 + 1e-3 * x,
    lambda x, dice: 1000 + x,
    lambda x, dice: x * _decades(dice, x.shape),
    lambda x, dice: x * _decades(dice, (*x.shape[:1], *(1,) * (x.ndim - 1))),
    lambda x, dice: x * _decades(dice, x.shape[-1:]),
    lambda x, dice: np.round(3 * x),
    lambda x, dice: np.abs(x),
)
"""What standard normal numbers become."""


def hostile(module: Module, dice: Dice, sizes: Mapping[str, int] | None = None) -> list[Array]:
    """Arguments for a program, floats in f64, with these numbers for open sizes."""
    arrays = [_drawn(p, dice, sizes or {}) for p in module.main.params]
    if dice.random() < 0.5:
        arrays = _nearly_singular(module, arrays, dice)
    for chance in (0.7, 0.3):
        if dice.random() < chance:
            arrays = _cancelling(module, arrays, dice)
    return arrays


def _drawn(p: Value, dice: Dice, sizes: Mapping[str, int]) -> Array:
    shape = tuple(evaluate(d, sizes) for d in p.type.shape)
    if p.type.dtype.is_float:
        kind = KINDS[dice.integers(len(KINDS))]
        return np.asarray(kind(dice.normal(size=shape), dice))
    return dice.integers(0, 2, shape).astype(p.type.dtype.numpy)


def _value_of(module: Module, value: Value) -> Module:
    """The program whose result is some value of the main function."""
    fn = module.main
    return Module((Function(fn.name, fn.params, fn.ops, (value,)),))


def _floats(module: Module, arrays: Sequence[Array]) -> list[int]:
    """The places of parameters that can be moved."""
    params = enumerate(module.main.params)
    return [i for i, p in params if p.type.dtype.is_float and arrays[i].size]


def _nearly_singular(module: Module, arrays: list[Array], dice: Dice) -> list[Array]:
    """Square matrices whose last singular value is small, and right sides in their range."""
    solves = [op for op in module.main.ops if isinstance(op, Solve)]
    params: list[Value] = list(module.main.params)
    if not solves:
        return arrays
    found = [_near(x, dice) if x.ndim == 2 and dice.random() < 0.6 else x for x in arrays]
    op = solves[dice.integers(len(solves))]
    if op.b in params:
        (a,) = _value_of(module, op.a).run(module.main.name, *found)
        at = params.index(op.b)
        a = np.swapaxes(a, -1, -2) if op.transposed else a
        found[at] = a @ dice.normal(size=found[at].shape)
    return found


def _near(x: Array, dice: Dice) -> Array:
    """A nearly singular matrix in the place of a square one."""
    if x.dtype.kind != "f" or x.shape[0] != x.shape[1] or not x.size:
        return x
    u, s, v = np.linalg.svd(dice.normal(size=x.shape))
    s[-1] = 10.0 ** dice.uniform(-7, -1)
    return (u * s) @ v


def _cancelling(module: Module, arrays: list[Array], dice: Dice) -> list[Array]:
    """One argument moved so that a sum or a product is small beside its parts.

    Sums and products are linear in each argument, mostly: a step of Newton's, by differences.
    """
    ops: list[Op] = [op for op in module.main.ops if isinstance(op, CANCELLED)]
    places = _floats(module, arrays)
    ops = [op for op in ops if op.results[0].dtype.is_float]
    if not ops or not places:
        return arrays
    inner = _value_of(module, ops[dice.integers(len(ops))].results[0])
    at = places[dice.integers(len(places))]
    x, name = arrays[at], module.main.name

    def value(moved: Array) -> Array:
        (found,) = inner.run(name, *arrays[:at], moved, *arrays[at + 1 :])
        return np.ravel(found)

    now, step = value(x), 1e-3 * (float(np.abs(x).max()) or 1.0)
    slopes = np.empty((now.size, x.size))
    for i in range(x.size):
        moved = x.copy()
        moved.flat[i] += step
        slopes[:, i] = (value(moved) - now) / step
    if not (np.isfinite(slopes).all() and np.isfinite(now).all()):
        return arrays
    best = np.linalg.lstsq(slopes, -now, rcond=1e-9)[0].reshape(x.shape)
    rest = 1 + 10.0 ** dice.uniform(-6, -2) * dice.normal(size=x.shape)
    return [*arrays[:at], (x + best) * rest, *arrays[at + 1 :]]
