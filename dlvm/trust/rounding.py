"""Measures how much rounding may change each result of a program, instead of setting a tolerance.

The program is run several more times with every rounding operation perturbed by as much as the
operation may err: the units in the last place (ulp) that its class states; for a reduction or a
product, also the error of a sum with that number of terms. The change of the results includes the
condition of the program. An element that a perturbation changes discontinuously, as a comparison of
equal numbers does, is not compared. Whether an operation rounds follows from its formula.
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
from dlvm.ops import Prod
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
from dlvm.ops.flow.effects import Outgoing

EPSILON = {F16: 2.0**-10, BF16: 2.0**-7, F32: 2.0**-23, F64: 2.0**-52}
"""The distance from 1 to the next number, for each type."""
SMALLEST = {F16: 2.0**-24, BF16: 2.0**-133, F32: 2.0**-149, F64: 2.0**-1074}
"""The smallest positive number of each type."""
EXACT = {
    *("neg", "abs", "not", "trunc", "floor", "ceil", "round", "copysign", "max", "min"),
    *("lt", "le", "eq", "ne", "and", "or", "xor", "shl", "shr"),
}
"""The scalar functions that never round."""
MODERATE = {F16: 60.0, BF16: 1e9, F32: 1e9, F64: 1e60}
"""Magnitudes above which an identity of real numbers may overflow although the program does not."""

PATIENCE = 200_000
"""Limit of operations in a run, since a loop on random arguments may never end."""
QUICK = 20_000
"""Limit of operations in a run if many runs follow while a user waits."""


class TooLong(UserError):
    """A run that was stopped because it took too many operations."""

    code = "long"


class Rounding(Count):
    """An implementation of the scalar functions that only records whether one of them rounds."""

    rounds = False

    def unary(self, word: str, x: DType) -> DType:
        """Records whether the function rounds."""
        self.rounds = self.rounds or (x.is_float and word not in EXACT)
        return x

    def binary(self, word: str, x: DType, y: DType) -> DType:
        """Records whether the function rounds."""
        self.rounds = self.rounds or (x.is_float and word not in EXACT)
        return BOOL if word in ("lt", "le", "eq", "ne") else x

    def cast(self, x: DType, dtype: DType) -> DType:
        """Records that a conversion rounds if the new type has fewer digits."""
        narrow = x.bits > dtype.bits if x.is_float else x.bits > 8
        self.rounds = self.rounds or (dtype.is_float and narrow)
        return dtype


def rounds(op: Op) -> bool:
    """Whether correct implementations of an operation may give different floats."""
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
    """One run that records what the program prints; if ``dice`` are given, a perturbed one.

    Counters are lists of one element, which the interpreters of nested calls share.
    """

    dice: np.random.Generator | None = None
    told: list[tuple[str, Array]] = field(default_factory=list[tuple[str, Array]])
    count: list[int] = field(default_factory=lambda: [0])
    """The number of operations that were run."""
    wild: list[bool] = field(default_factory=lambda: [False])
    """Whether a number above ``MODERATE`` occurred."""
    domain: list[int] = field(default_factory=lambda: [0])
    """The number of operands outside the domain of their operation."""
    seen: dict[Op, list[Array]] | None = None
    """The operands of each operation in its first execution; None to record nothing."""
    patience: int = PATIENCE
    """The limit of operations."""
    made: dict[Value, Array] = field(default_factory=dict[Value, Array])
    """The results of each operation in its first execution."""
    entered: dict[Function, Sequence[Array]] = field(
        default_factory=dict[Function, Sequence[Array]]
    )
    """The arguments of each function and region in its first execution."""

    def call(self, fn: Function, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Runs a function or region whose symbols are known."""
        if self.seen is not None:
            self.entered.setdefault(fn, arrays)
        return Interpreter.call(self, fn, arrays)

    def step(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        """Runs one operation and checks its results."""
        self.count[0] += 1
        if self.count[0] > self.patience:
            raise TooLong(f"the run was stopped after {self.patience} operations")
        if isinstance(op, Outgoing):
            self.told.append((f"{op.name} {op.label}", np.array(operands[0])))
            return ()
        if self.dice is None:
            return self._watched(op, operands)
        if not rounds(op):
            return Interpreter.step(self, op, operands)
        amount = lost(op)
        if amount:
            operands = [self._moved(x, amount * epsilon(x)) for x in operands]
        if isinstance(op, Prod):
            operands = [self._reordered(operands[0], op.axes)]
        outputs = Interpreter.step(self, op, operands)
        return tuple(self._shaken(op, x, operands) for x in outputs)

    def _watched(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        out = Interpreter.step(self, op, operands)  # operations in its regions are recorded first
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

    def _reordered(self, x: Array, axes: tuple[int, ...]) -> Array:
        """The factors of a product in another order, in which other parts of it may overflow."""
        assert self.dice is not None
        for axis in axes:
            x = self.dice.permutation(x, axis)
        return x

    def _turns(self, x: Array) -> Any:
        """Random numbers with a magnitude between 0.5 and 1, of either sign."""
        assert self.dice is not None
        size = self.dice.uniform(0.5, 1.0, x.shape)
        return np.where(self.dice.random(x.shape) < 0.5, -size, size)


def moderate(x: Array) -> bool:
    """Whether all elements are small enough for identities of real numbers to hold."""
    dtype = dtype_of(x)
    limit = MODERATE.get(dtype, np.inf) if dtype is not None else np.inf
    if limit == np.inf:
        return True
    with np.errstate(all="ignore"):
        return bool((np.abs(x.astype(np.float64)) < limit).all())


def epsilon(x: Array) -> float:
    """The distance from 1 to the next number of the array's type; 0 if it is not a float type."""
    dtype = dtype_of(x)
    return EPSILON.get(dtype, 0.0) if dtype is not None else 0.0


def smallest(x: Array) -> float:
    """The smallest positive number of the array's type; 0 if it is not a float type."""
    dtype = dtype_of(x)
    return SMALLEST.get(dtype, 0.0) if dtype is not None else 0.0


def lost(op: Op) -> float:
    """The relative error of a sum, in units in the last place: the square root of its terms.

    That is the probabilistic bound of Higham and Mary (2019), whatever the order of summation.
    """
    if not isinstance(op, Reduction | Contraction | Running):
        return 0.0
    return math.sqrt(terms(op))


def terms(op: Reduction | Contraction | Running) -> int:
    """The number of terms that are combined into one result; 64 for each unknown size."""
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
