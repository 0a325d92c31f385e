"""Running folds of runs of elements: one starts anew wherever a truth says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, IRError, ShapeError
from dlvm.ir import BOOL, Array, DType, TensorType, Value
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.elements.elementwise import Add, Maximum, Minimum, Mul
from dlvm.ops.elements.logic import Select
from dlvm.ops.elements.meanings import larger, smaller
from dlvm.ops.families import Running, State, wide

from .extremes import worst
from .running import CumulativeMax

PAIRS: dict[str, Callable[[Value, Value], Value]] = {
    "add": Add,
    "mul": Mul,
    "max": Maximum,
    "min": Minimum,
}
"""What two elements become, by the word of it."""

NAMES = {"add": np.add, "mul": np.multiply, "max": larger, "min": smaller}


def joined(word: str, x: Value, y: Value) -> Value:
    """What two values become, element by element."""
    return PAIRS[word](x, y)


class SegmentedFold(Running):
    """The running fold of ``x`` by ``word`` (add, mul, max, min), from each true ``start`` on anew.

    In order from the first element on. Half precision is in f32 and rounded once.
    """

    name = "segmented_fold"
    from_passes = True
    nondifferentiable = "only passes write it, behind all derivatives"
    x: Value
    start: Value
    axis: int
    word: str
    reverse: bool = False
    exclusive: bool = False

    def infer(self) -> TensorType:
        """The type of ``x``."""
        x, start = self.x.type, self.start.type
        if self.word not in PAIRS:
            raise IRError(f"{self.name}: expected one of {', '.join(PAIRS)}, found {self.word!r}")
        if x.dtype.kind not in "iuf" or start.dtype != BOOL:
            raise DTypeError(f"{self.name}: not defined for {x} with starts {start}")
        if x.shape != start.shape or not 0 <= self.axis < x.rank:
            raise ShapeError(f"{self.name}: {x}, starts {start} and axis {self.axis} don't agree")
        return x

    def reference(self, *operands: Array) -> Any:
        x, start = (np.moveaxis(wide(a), self.axis, 0) for a in operands)
        out, state = np.empty_like(x), np.full(x.shape[1:], self._first(), x.dtype)
        order = range(len(x))
        for i in reversed(order) if self.reverse else order:
            after = np.where(start[i], x[i], NAMES[self.word](state, x[i]))
            out[i] = state if self.exclusive else after
            state = after
        return np.moveaxis(out, 0, self.axis).astype(self.x.dtype.numpy)

    def _first(self) -> Any:
        """What changes nothing: of zeros, the one that keeps the sign of the other."""
        dtype = self.x.dtype.compute
        if self.word == "add":
            return -0.0 if dtype.is_float else 0
        return 1 if self.word == "mul" else worst(self.x.dtype, self.word)

    def states(self) -> tuple[DType, ...]:
        return (self.x.dtype.compute,)

    def identity(self, s: Scalars[S]) -> State[S]:
        return (s.constant(self._first(), self.x.dtype.compute),)

    def step(self, s: Scalars[S], index: S, state: State[S], *x: S) -> State[S]:
        return (s.select(x[1], x[0], s.binary(self.word, state[0], x[0])),)

    def project(self, s: Scalars[S], state: State[S]) -> S:
        return state[0]

    def over_chunks(self, xs: tuple[Value, ...], own: Value, axis: int) -> tuple[Value, ...]:
        return own, CumulativeMax(xs[1], axis, self.reverse)

    def joined(self, before: Value, own: Value, xs: tuple[Value, ...], axis: int) -> Value:
        started = CumulativeMax(xs[1], axis, self.reverse, self.exclusive)
        return Select(started, own, joined(self.word, before, own))
