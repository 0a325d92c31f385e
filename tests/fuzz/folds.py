"""Folds as statistics and losses have them: several of one value, over several axes at once.

A value of up to four axes is made of operands that lie along some of them only, then folded in up
to four ways, over the same axes or others, some of which go back into it. Rows are long enough to
be cut into vectors and pieces, and seldom whole ones. Half of the programs are of open sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import dlvm
from dlvm.ir import BF16, F16, F32, F64, I8, I32, I64, DType
from dlvm.testing.drawing.dice import Dice

from .case import Case

SHORT = (1, 2, 3, 5, 7)
ROWS = (1, 8, 15, 16, 17, 31, 33, 48, 63, 64, 65, 90, 127, 130, 257, 300, 512, 520, 1030)
LARGEST = 1 << 17
"""So many elements at most."""
DTYPES = (F32, F32, F64, F16, BF16, I64, I32, I8)
Axes = tuple[int, ...]

MIXED: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, b: x + b,
    lambda x, b: x - b,
    lambda x, b: x * b,
    lambda x, b: dlvm.maximum(x, b),
    lambda x, b: dlvm.where(b > 0, x, b),
    lambda x, b: dlvm.where(b * x > 5, x, 0),
    lambda x, b: x[..., ::-1] + b,
    lambda x, b: x[::-1] * b,
    lambda x, b: (x.reshape(-1) + 1).reshape(x.shape) - b,
)
"""How an operand comes in: of as many axes, each as long or 1."""

FOLDED: tuple[Callable[[Any, Axes, int], Any], ...] = (
    lambda x, axes, _: x.sum(axes, keepdims=True),
    lambda x, axes, bound: (x > bound).any(axes, keepdims=True),
    lambda x, axes, bound: (x <= bound).all(axes, keepdims=True),
    lambda x, axes, _: x.max(axes, keepdims=True),
    lambda x, axes, _: x.min(axes, keepdims=True),
    lambda x, axes, bound: (x > bound).sum(axes, keepdims=True),
    lambda x, axes, _: (x * x).sum(axes, keepdims=True),
    lambda x, axes, _: x.argmax(axes[-1], keepdims=True),
)
BOUNDS = (0, 2, 5, 8)


def some_axes(dice: Dice, rank: int) -> Axes:
    """One or more axes; most often the last is among them, and most others."""
    chosen = {a for a in range(rank) if dice.integer(0, 2)}
    return tuple(sorted(chosen | {rank - 1 if dice.integer(0, 3) else dice.integer(0, rank - 1)}))


def shape(dice: Dice) -> list[int]:
    """A long last axis, sometimes the one before it too, not too many elements."""
    sizes = [dice.choose(SHORT) for _ in range(dice.choose((0, 1, 1, 2, 2, 3)))]
    sizes += [dice.choose(ROWS)]
    if len(sizes) > 1 and dice.integer(0, 2):
        sizes[-2] = dice.choose(ROWS)
    for axis in range(len(sizes)):
        if prod(sizes) > LARGEST:
            sizes[axis] = min(sizes[axis], 3)
    return sizes


def of(dice: Dice, rank: int, operands: int) -> Callable[..., Any]:
    """The function, all of whose choices are made before it is traced."""
    mixed = [dice.choose(MIXED) for _ in range(operands)]
    axes = some_axes(dice, rank)
    bound = dice.choose(BOUNDS)
    folded = [
        (dice.choose(FOLDED), axes if dice.integer(0, 3) else some_axes(dice, rank))
        for _ in range(dice.choose((1, 2, 2, 3, 3, 4)))
    ]
    back = [dice.integer(0, 5) == 0 for _ in folded]
    whole = dice.integer(0, 3) == 0

    def run(x: Any, *others: Any) -> Any:
        for mix, other in zip(mixed, others, strict=True):
            x = mix(x, other)
        results: list[Any] = []
        for (fold, along), returns in zip(folded, back, strict=True):
            results.append(fold(x, along, bound))
            x = x + results[-1].astype(x.dtype) if returns else x
        return (*results, x) if whole else tuple(results)

    return run


def folds(dice: Dice) -> Case:
    """A program of folds, of known or open sizes."""
    sizes = shape(dice)
    rank = len(sizes)
    dtype = dice.choose(DTYPES)
    shapes = [
        [s if dice.integer(0, 1) else 1 for s in sizes]
        for _ in range(dice.choose((0, 1, 1, 1, 2, 2)))
    ]
    f = of(dice, rank, len(shapes))
    names = dict(zip("ABCD", sizes, strict=False)) if dice.integer(0, 1) else {}
    given = [spec(dtype, own, names) for own in (sizes, *shapes)]
    if not names or not dtype.is_float or dice.integer(0, 4):
        module = dlvm.trace(f, *given)
    else:
        module = dlvm.trace(dlvm.grad(lambda *xs: total(f(*xs), dtype)), *given)
    return Case(module, module.main.name, names, dice.integer(0, 1 << 16))


def total(results: Sequence[Any], dtype: DType) -> Any:
    """One number of several results."""
    return sum(r.astype(dtype).sum() for r in results)


def spec(dtype: DType, sizes: Sequence[int], names: dict[str, int]) -> Any:
    """An argument of such sizes; those that are not 1 by name, where there are names."""
    words = [
        name if names and size != 1 else str(size)
        for name, size in zip("ABCD", sizes, strict=False)
    ]
    return dlvm.spec(f"{dtype}[{','.join(words)}]")
