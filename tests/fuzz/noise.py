"""How far rounding may carry the results of a program: the interpreter with noise in every step.

Each operation that rounds gets its result moved at random by a few of its documented errors
(Monte Carlo arithmetic), a fold its elements. Where runs differ little, any correct code must
agree that closely; where a comparison or a rounding tips over, nothing can be said. A result
that is a small whole number of eighths is taken to be exact, as in sums of small numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlvm.errors import UserError
from dlvm.ir import Array, Module, Op
from dlvm.ir.interpret import Interpreter
from dlvm.ir.types import dtype_of
from dlvm.ops import (
    Abs,
    Ceil,
    Contraction,
    CopySign,
    CumulativeMax,
    CumulativeMin,
    Elementwise,
    Floor,
    Fold,
    Max,
    Maximum,
    Min,
    Minimum,
    Named,
    Neg,
    NextAfter,
    Reduction,
    Round,
    Running,
    Select,
    Sign,
    StopGradient,
    Trunc,
)
from dlvm.testing.random_programs import Program

RUNS = 5
ULPS = 4
SLACK = 16
"""How much further than the furthest of the noisy runs a result may be."""
MODERATE = {"float16": 60.0, "bfloat16": 1e9, "float32": 1e9, "float64": 1e60}
"""Beyond this laws of real numbers may overflow where the program does not."""


@dataclass(slots=True)
class Seen:
    """What the steps of a run met."""

    wild: bool = False
    said: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Noisy(Interpreter):
    """An interpreter that moves what rounds; without a generator it only watches."""

    rng: np.random.Generator | None = None
    seen: Seen = field(default_factory=Seen)

    def step(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        folds = isinstance(op, Reduction | Running | Contraction | Fold)
        if self.rng is not None and folds:
            operands = [moved(x, _eps(x) * ULPS * np.abs(_f64(x)), self.rng) for x in operands]
        found = Interpreter.step(self, op, operands)
        for x in found:
            self.seen.wild |= _is_float(x) and not _moderate(x)
        if self.rng is None or not (folds or isinstance(op, Elementwise)):
            return found
        return tuple(self.shaken(op, x, operands) for x in found)

    def shaken(self, op: Op, x: Array, operands: Sequence[Array]) -> Array:
        """A result moved by some of the errors that the class of its operation states."""
        if not _is_float(x) or not x.size or isinstance(op, EXACT):
            return x
        ulp = max(1.0, getattr(op, "ulp", 1.0))
        scale = np.abs(_f64(x))
        if getattr(op, "cancels", ""):
            largest = max(float(np.abs(_f64(o)).max(initial=1)) for o in operands)
            scale = np.maximum(scale, largest)
        new = moved(x, _eps(x) * ULPS * ulp * scale, self.rng)
        if getattr(op, "ulp", 1.0) > 0.5 and isinstance(op, Elementwise):
            return new
        exact = (np.abs(_f64(x)) < 16) & (_f64(x) * 8 == np.round(_f64(x) * 8))
        return np.where(exact, x, new)


EXACT = (Abs, Ceil, CopySign, Floor, Max, Maximum, Min, Minimum, Neg, NextAfter, Round, Select)
EXACT += (Named, Sign, StopGradient, Trunc, CumulativeMax, CumulativeMin)
"""What never rounds."""


def moved(x: Array, by: Array, rng: np.random.Generator | None) -> Array:
    """An array with each element moved by at most so much."""
    if rng is None or not _is_float(x):
        return x
    with np.errstate(all="ignore"):
        return np.asarray(_f64(x) + by * rng.uniform(-1, 1, x.shape)).astype(x.dtype)


@dataclass(frozen=True)
class Expected:
    """Results and how far each element may be from them; or the error that must come.

    An infinite bound says that nothing is known of an element; ``wild`` that numbers on the way
    were so large that laws of real numbers might not hold.
    """

    results: tuple[Array, ...]
    bounds: tuple[Array, ...]
    error: UserError | None
    said: list[str]
    wild: bool


def expected_of(program: Program) -> Expected:
    """What any correct code gives for a program."""
    seen = Seen()
    try:
        middle = _run(program, None, seen)
    except UserError as error:
        return Expected((), (), error, seen.said, seen.wild)
    bounds = [np.zeros(np.shape(y)) for y in middle]
    for k in range(RUNS):
        try:
            other = _run(program, np.random.default_rng(k), Seen())
        except UserError:
            return Expected(middle, tuple(b + np.inf for b in bounds), None, seen.said, seen.wild)
        bounds = [
            np.maximum(b, _apart(x, y)) for b, x, y in zip(bounds, middle, other, strict=True)
        ]
    wide = tuple(_widened(b, y) for b, y in zip(bounds, middle, strict=True))
    return Expected(middle, wide, None, seen.said, seen.wild)


def _run(program: Program, rng: Any, seen: Seen) -> tuple[Array, ...]:
    module: Module = program.module
    with np.errstate(all="ignore"):
        machine = Noisy(module, write=seen.said.append, rng=rng, seen=seen)
        return machine.enter(module.main.name, [np.asarray(a) for a in program.arrays])


def _apart(x: Array, y: Array) -> Array:
    """How far two runs are from each other; infinite where they are different in kind."""
    if not _is_float(x):
        return np.where(x == y, 0.0, np.inf)
    a, b = _f64(x), _f64(y)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.where(same, 0.0, np.where(np.isfinite(a - b), np.abs(a - b), np.inf))


def _widened(bound: Array, y: Array) -> Array:
    if not _is_float(y):
        return bound
    with np.errstate(all="ignore"):
        own = np.where(np.isfinite(_f64(y)), np.abs(_f64(y)), 0) * _eps(y) * ULPS
    return SLACK * bound + own + _tiny(y)


def _moderate(x: Array) -> bool:
    with np.errstate(all="ignore"):
        return bool((np.abs(_f64(x)) < MODERATE[x.dtype.name]).all())


def _is_float(x: Array) -> bool:
    found = dtype_of(x)
    return found is not None and found.is_float


def _f64(x: Array) -> Array:
    return x.astype(np.float64)


EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
TINY = {"float16": 2.0**-20, "bfloat16": 2.0**-120, "float32": 2.0**-120, "float64": 2.0**-1000}


def _eps(x: Array) -> float:
    return EPS.get(x.dtype.name, 0.0)


def _tiny(x: Array) -> float:
    return TINY[x.dtype.name]
