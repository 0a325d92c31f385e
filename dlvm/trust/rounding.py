"""How far two right answers of one program may be apart: what rounding may do to each result.

Nobody sets a tolerance. A program is run some more times while every operation that rounds is
shaken by as much as it may err: by the units in the last place that its class states, where it
folds or multiplies by what a sum of so many terms may lose. How far the results move is what the
program makes of rounding, its condition included; an element that such a shake turns over, as a
comparison of equal numbers does, is not compared. Whether an operation rounds is read off the
scalar words of its formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.cost import Count
from dlvm.ir import BF16, BOOL, F16, F32, F64, I64, Array, DType, Function, Op, Value, dtype_of
from dlvm.ir.interpret import Interpreter
from dlvm.ops import Print, Tap
from dlvm.ops.families import (
    Contraction,
    Control,
    Creation,
    Effect,
    Elementwise,
    Movement,
    Ordering,
    Reduction,
    Running,
)

EPSILON = {F16: 2.0**-10, BF16: 2.0**-7, F32: 2.0**-23, F64: 2.0**-52}
"""From 1 to the next number of each type."""
SMALLEST = {F16: 2.0**-24, BF16: 2.0**-133, F32: 2.0**-149, F64: 2.0**-1074}
"""The least positive number of each type."""
EXACT = {
    *("neg", "abs", "not", "trunc", "floor", "ceil", "round", "copysign", "max", "min"),
    *("lt", "le", "eq", "ne", "and", "or", "xor", "shl", "shr"),
}
"""The words of formulas that never round."""
MODERATE = {F16: 60.0, BF16: 1e9, F32: 1e9, F64: 1e60}
"""Beyond this a law of real numbers may overflow where the program does not."""

PATIENCE = 200_000
"""How many operations a run may take: random arguments may keep a loop going for ever."""
QUICK = 20_000
"""How many it may take where many runs are to follow, and somebody waits for them."""


class TooLong(UserError):
    """A run that was not waited for."""

    code = "long"


class Rounding(Count):
    """Scalar words that only note whether one of them rounds; a scalar is its element type."""

    rounds = False

    def unary(self, word: str, x: DType) -> DType:
        """Notes the word."""
        self.rounds = self.rounds or (x.is_float and word not in EXACT)
        return x

    def binary(self, word: str, x: DType, y: DType) -> DType:
        """Notes the word."""
        self.rounds = self.rounds or (x.is_float and word not in EXACT)
        return BOOL if word in ("lt", "le", "eq", "ne") else x

    def cast(self, x: DType, dtype: DType) -> DType:
        """A conversion rounds where the type has too few digits."""
        narrow = x.bits > dtype.bits if x.is_float else x.bits > 8
        self.rounds = self.rounds or (dtype.is_float and narrow)
        return dtype


def rounds(op: Op) -> bool:
    """Whether the floats that an operation gives differ between right ways to compute it."""
    if not any(t.dtype.is_float for t in op.result_types):
        return False
    words = Rounding()
    match op:
        case Elementwise():
            op.scalar(words, *(x.dtype.compute for x in op.operands))
        case Reduction():
            states = op.states()
            lifted = op.lift(words, BOOL, *(x.dtype.compute for x in op.operands))
            op.project(words, op.combine(words, states, lifted))
        case Running():
            wide = [x.dtype.compute for x in op.operands]
            op.project(words, op.step(words, I64, op.states(), *wide))
        case Movement() | Creation() | Effect() | Ordering() | Control():
            return False
        case _:
            return True
    return words.rounds


@dataclass
class Run(Interpreter):
    """One run, which remembers what the program tells the world; with ``dice`` it is shaken."""

    dice: np.random.Generator | None = None
    told: list[tuple[str, Array]] = field(default_factory=list[tuple[str, Array]])
    count: list[int] = field(default_factory=lambda: [0])
    """How many operations were run, in the one place."""
    wild: list[bool] = field(default_factory=lambda: [False])
    """Whether a number was met that is not moderate, in the one place."""
    domain: list[int] = field(default_factory=lambda: [0])
    """How many operands stood outside the domain of their operation, in the one place."""
    seen: dict[Op, list[Array]] | None = None
    """The operands of each operation when it first ran, where somebody asks for them."""
    patience: int = PATIENCE
    """How many operations are waited for."""
    made: dict[Value, Array] = field(default_factory=dict[Value, Array])
    """What each operation then gave."""
    entered: dict[Function, Sequence[Array]] = field(
        default_factory=dict[Function, Sequence[Array]]
    )
    """What each function and region was then given."""

    def call(self, fn: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Run a function or region whose symbols are known."""
        if self.seen is not None:
            self.entered.setdefault(fn, arrays)
        return Interpreter.call(self, fn, arrays)

    def step(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        """Run one operation and check what it gave."""
        self.count[0] += 1
        if self.count[0] > self.patience:
            raise TooLong(f"more than {self.patience} operations are run")
        if isinstance(op, Print | Tap):
            self.told.append((f"{op.name} {op.label}", np.array(operands[0])))
            return ()
        if self.dice is None:
            return self._watched(op, operands)
        if not rounds(op):
            return Interpreter.step(self, op, operands)
        amount = lost(op)
        if amount:
            operands = [self._moved(x, amount * epsilon(x)) for x in operands]
        outputs = Interpreter.step(self, op, operands)
        return tuple(self._shaken(op, x, operands) for x in outputs)

    def _watched(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        out = Interpreter.step(self, op, operands)  # what stands in its regions comes first
        self.wild[0] = self.wild[0] or not all(map(moderate, out))
        if self.seen is not None and op not in self.seen:
            self.seen[op] = operands
            self.made.update(zip(op.results, out, strict=True))
        if isinstance(op, Elementwise) and op.domain != (-math.inf, math.inf):
            low, high = op.domain
            x = operands[0]
            self.domain[0] += int(np.count_nonzero(~((x > low) & (x < high))))
        return out

    def _shaken(self, op: Op, x: Array, operands: Sequence[Array]) -> Array:
        units = max(1.0, op.ulp) if isinstance(op, Elementwise) else 1.0
        amount = units * epsilon(x)
        if not amount or not isinstance(op, Elementwise) or not op.cancels:
            return self._moved(x, amount)
        floor = np.maximum.reduce([np.abs(x), np.ones_like(x), *map(np.abs, operands)])
        return (x + floor * self._turns(x) * amount).astype(x.dtype)

    def _moved(self, x: Array, amount: float) -> Array:
        if not amount:
            return x
        return (x * (1.0 + amount * self._turns(x))).astype(x.dtype)

    def _turns(self, x: Array) -> Any:
        """Numbers between a half and one, of either sign."""
        assert self.dice is not None
        size = self.dice.uniform(0.5, 1.0, x.shape)
        return np.where(self.dice.random(x.shape) < 0.5, -size, size)


def moderate(x: Array) -> bool:
    """Whether laws of real numbers may be expected to hold of all elements."""
    dtype = dtype_of(x)
    limit = MODERATE.get(dtype, np.inf) if dtype is not None else np.inf
    if limit == np.inf:
        return True
    with np.errstate(all="ignore"):
        return bool((np.abs(x.astype(np.float64)) < limit).all())


def epsilon(x: Array) -> float:
    """From 1 to the next number of an array's type; 0 where nothing rounds."""
    dtype = dtype_of(x)
    return EPSILON.get(dtype, 0.0) if dtype is not None else 0.0


def smallest(x: Array) -> float:
    """The least positive number of an array's type; 0 where nothing rounds."""
    dtype = dtype_of(x)
    return SMALLEST.get(dtype, 0.0) if dtype is not None else 0.0


def lost(op: Op) -> float:
    """How many units each term of a sum may lose, whatever the order: as the root of their number.

    That is the probabilistic bound of Higham and Mary (2019).
    """
    if not isinstance(op, Reduction | Contraction | Running):
        return 0.0
    return math.sqrt(terms(op))


def terms(op: Reduction | Contraction | Running) -> int:
    """How many terms fold into one result, as far as that is known; many where it is not."""
    x = op.operands[0]
    if isinstance(op, Running):
        return _number(x.shape[op.axis])
    if isinstance(op, Contraction):
        return _number(x.shape[-1]) if x.shape else 1
    return _product(x, op.axes)


def _product(x: Value, axes: Sequence[int]) -> int:
    return math.prod(_number(x.shape[a]) for a in axes)


def _number(size: Any) -> int:
    return max(1, size) if isinstance(size, int) else 64
