"""Finite differences, each with an estimate of its own error.

Central differences have an error that is even in the step: D(h) = f' + c h^2 + d h^4 + ..., so with
steps that shrink by four Richardson's table removes one power after the other (Ridders 1982). The
error of an entry is how far it is from its neighbours, and the rounding of f over the step; the
entry with the least is the answer. The gap between the differences to either side is odd in the
step and goes to 0 if f is smooth. If it does not, f has a kink, and if f does not return to its
value, f has a jump. If f is not finite at a neighbour, the step shrinks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from dlvm.ir import Array

Function = Callable[[Array], Array]
RATIO = 4.0
FIRST = 2.0**-5
LEVELS = 12
FEWEST = 3
WINDOW = 5
SHRINKS = 12
EPSILON = 2.0**-52
ENOUGH = 1e-7
"""Estimated error, relative to the slope, below which no better step is tried."""
CLEAR = 10.0
"""Number of estimated errors beyond which a difference is no accident."""


@dataclass(frozen=True)
class Slope:
    """The derivative of every element of a result along one direction.

    ``error`` is infinite where no step gave anything; at a kink ``left`` and ``right`` are the
    slopes to either side. ``steep`` is the average rate at which values leave the value at
    the point, with which a slope of 0 is compared.
    """

    value: Array
    error: Array
    steep: Array
    left: Array
    right: Array
    kink: Array
    jump: Array

    @property
    def odd(self) -> Array:
        """Where the function has more than one slope, or none."""
        return self.kink | self.jump


@dataclass
class _Samples:
    """The last values of a function at both sides of a point, step by step."""

    steps: list[float] = field(default_factory=list[float])
    below: list[Array] = field(default_factory=list[Array])
    above: list[Array] = field(default_factory=list[Array])

    def add(self, step: float, below: Array, above: Array) -> None:
        """Adds a step; steps too large to matter are dropped."""
        for column, x in ((self.steps, step), (self.below, below), (self.above, above)):
            column.append(x)  # pyright: ignore[reportArgumentType]
            del column[:-WINDOW]


def slope(
    f: Function,
    x: Array,
    direction: Array,
    noise: Array,
    first: float = FIRST,
    at: Array | None = None,
) -> Slope:
    """The derivative of ``f`` at ``x``; ``noise`` bounds the rounding errors of its values."""
    middle = f(x) if at is None else at
    size = float(np.max(np.abs(direction), initial=0.0))
    best, samples = _nothing(middle), _Samples()
    if not size:
        return _zero(middle)
    step, done = first / size, ~np.isfinite(middle)
    moved = direction != 0
    grain = EPSILON * float(np.max(np.abs(x[moved] / direction[moved])))
    for level in range(LEVELS):
        step = _sampled(f, x, direction, step, middle, samples)
        if not step or np.all(done):
            break
        step /= RATIO
        if level + 1 >= FEWEST and len(samples.steps) > 1:
            now = _estimated(samples, middle, noise, grain)
            settled = _settled(now, best, 2 * noise / samples.steps[-1])
            best = _either(~done & ((now.error < best.error) | best.odd | now.odd), now, best)
            done |= settled
    return best


def _sampled(
    f: Function, x: Array, direction: Array, step: float, middle: Array, samples: _Samples
) -> float:
    """Adds a pair of values, at a smaller step if one is not finite; returns the step, or 0."""
    wanted = np.isfinite(middle)
    for _ in range(SHRINKS):
        above, below = f(x + step * direction), f(x - step * direction)
        if np.all((np.isfinite(above) & np.isfinite(below)) | ~wanted):
            samples.add(step, below, above)
            return step
        step /= RATIO
    return 0.0


def _settled(now: Slope, best: Slope, rounding: Array) -> Array:
    """Where a smaller step is useless: the error is small enough, or all of it is rounding."""
    good = now.error <= ENOUGH * np.abs(now.value)
    return (good | ((rounding >= best.error) & ~best.odd)) & ~now.odd


def _either(which: Array, one: Slope, other: Slope) -> Slope:
    def chosen(field: str) -> Array:
        a, b = getattr(one, field), getattr(other, field)
        return np.where(which, a, b)  # pyright: ignore[reportUnknownVariableType]

    return Slope(*map(chosen, ("value", "error", "steep", "left", "right", "kink", "jump")))


def _estimated(s: _Samples, middle: Array, noise: Array, grain: float) -> Slope:
    """The estimate from the last steps."""
    with np.errstate(all="ignore"):
        pairs = list(zip(s.above, s.below, s.steps, strict=True))
        rough = [(a - b) / (2 * h) for a, b, h in pairs]
        still = noise + grain * np.abs(rough[-1])
        off = [np.abs(a - middle) + np.abs(b - middle) for a, b, _ in pairs]
        moved = [still + EPSILON * far for far in off]
        value, error = _extrapolated(rough, moved, s.steps)
        gaps = [(a + b - 2 * middle) / h for a, b, h in pairs]
        rounding = CLEAR * 4 * noise / s.steps[-1]
        kink = (np.abs(gaps[-1]) > 0.7 * np.abs(gaps[-2])) & (np.abs(gaps[-1]) > rounding)
        jump = _jumps(s, middle, noise)
        steep = np.max([far / (2 * h) for far, h in zip(off, s.steps, strict=True)], axis=0)
    half = np.where(kink, gaps[-1] / 2, 0.0)
    return Slope(value, error, steep, value - half, value + half, kink & ~jump, jump)


def _extrapolated(
    table: list[Array], noise: list[Array], steps: list[float]
) -> tuple[Array, Array]:
    """The best entry of Richardson's table for each element, and its estimated error.

    Each step has its own noise: where f is 0 it has none, but values around it are rounded.
    """
    best, least = table[-1], np.full(np.shape(table[-1]), np.inf)
    for j in range(len(steps) - 1):
        power = RATIO ** (2 * (j + 1))
        finer = [b + (b - a) / (power - 1) for a, b in pairwise(table)]
        for k, entry in enumerate(finer):  # from steps k and k + 1 of the column before
            apart = np.maximum(np.abs(entry - table[k]), np.abs(entry - table[k + 1]))
            at = k + j + 1
            error = apart + 2 * noise[at] / steps[at] + 4 * EPSILON * np.abs(entry)
            better = error < least
            best, least = np.where(better, entry, best), np.where(better, error, least)
        table = finer
    return best, least


def _jumps(s: _Samples, middle: Array, noise: Array) -> Array:
    """Where the function does not come back to its value as the step shrinks."""
    found = np.zeros(np.shape(middle), bool)
    for side in (s.above, s.below):
        far, near = np.abs(side[-2] - middle), np.abs(side[-1] - middle)
        found |= (near > 0.9 * far) & (near > CLEAR * noise) & (near > 0)
    return found


def _nothing(middle: Array) -> Slope:
    nan, no = np.full(np.shape(middle), np.nan), np.zeros(np.shape(middle), bool)
    zero = np.zeros(np.shape(middle))
    return Slope(nan, np.full(np.shape(middle), np.inf), zero, nan, nan, no, no)


def _zero(middle: Array) -> Slope:
    zero, no = np.zeros(np.shape(middle)), np.zeros(np.shape(middle), bool)
    return Slope(zero, zero, zero, zero, zero, no, no)


def agreed(one: Slope, other: Slope) -> Slope:
    """Two estimates from different steps as one; its error is at least their difference."""
    with np.errstate(all="ignore"):
        apart = np.abs(one.value - other.value)
        error = np.maximum(
            np.maximum(one.error, other.error), np.where(np.isnan(apart), np.inf, apart)
        )
    return Slope(
        one.value,
        error,
        np.maximum(one.steep, other.steep),
        one.left,
        one.right,
        one.kink | other.kink,
        one.jump | other.jump,
    )
