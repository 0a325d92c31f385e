"""The largest and the smallest element over axes, and where they are.

If there is a NaN, it is the extreme, and its position is that of the first NaN. Bools have
extremes too: the largest says whether any holds, the smallest whether all do.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dlvm.base.errors import DTypeError
from dlvm.ir import I64, Array, DType, TensorType, Value, rewrite, zeros
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.elements.logic import Equal, Select
from dlvm.ops.elements.meanings import with_zeros_in_order
from dlvm.ops.families import Reduction, State, wide

from .sums import Sum, spread

UFUNCS = {"max": np.maximum, "min": np.minimum}
"""NumPy's function of two elements for each order."""


def worst(dtype: DType, word: str) -> float | int:
    """What every element is at least as extreme as."""
    return dtype.lowest if word == "max" else dtype.highest


class Extreme(Reduction):
    """The extreme by the order that ``word`` says, ``max`` or ``min``."""

    word: ClassVar[str]
    x: Value
    axes: tuple[int, ...]

    def infer(self) -> TensorType:
        """The shape without the axes."""
        if self.x.dtype.kind not in "biuf":
            raise DTypeError(f"{self.name}: not defined for {self.x.type}")
        return self.x.type.with_shape(self.reduced(self.x.type))

    def reference(self, *operands: Array) -> Any:
        x, dtype = wide(operands[0]), self.x.dtype
        first = np.asarray(worst(dtype, self.word)).astype(x.dtype)
        found = np.asarray(getattr(np, self.word)(x, axis=self.axes, initial=first))
        found = with_zeros_in_order(found, x, self.word, lambda t: np.any(t, axis=self.axes))
        return found.astype(dtype.numpy)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        ties = Equal(self.x, spread(self, self.x.type, self.axes))
        ones = Select(ties, zeros(self.x.type) + 1.0, zeros(self.x.type))
        share = dy[0] / Sum(ones, self.axes)
        return (Select(ties, spread(share, self.x.type, self.axes), zeros(self.x.type)),)

    def states(self) -> tuple[DType, ...]:
        return (self.x.dtype.compute,)

    def identity(self, s: Scalars[S]) -> State[S]:
        return (s.constant(worst(self.x.dtype, self.word), self.x.dtype.compute),)

    def lift(self, s: Scalars[S], index: S, *x: S) -> State[S]:
        return x

    def combine(self, s: Scalars[S], a: State[S], b: State[S]) -> State[S]:
        return (s.binary(self.word, a[0], b[0]),)

    def project(self, s: Scalars[S], state: State[S]) -> State[S]:
        return state


class Max(Extreme):
    """Largest element over ``axes``; NaN if any is; of nothing, the lowest value of the type.

    Of zeros 0.0 is larger than -0.0. Ties share the cotangent evenly.
    """

    name = "max"
    joined = "max"
    word = "max"
    pairwise = "maximum"


class Min(Extreme):
    """Smallest element over ``axes``; NaN if any is; of nothing, the highest value of the type.

    Of zeros -0.0 is smaller than 0.0. Ties share the cotangent evenly.
    """

    name = "min"
    joined = "min"
    word = "min"
    pairwise = "minimum"


@rewrite(Max, Min, example=(lambda x: Max(x, ()), lambda x: Min(x, ())))
def extreme_over_nothing(op: Max | Min) -> Value | None:
    """A maximum or a minimum over no axes is its operand."""
    return op.x if not op.axes else None


class ArgExtreme(Reduction):
    """Where the extreme by the order that ``word`` says is."""

    nondifferentiable = "its result is an integer"
    identity_is_exact = True
    word: ClassVar[str]
    x: Value
    axes: tuple[int, ...]

    def infer(self) -> TensorType:
        """An index for each position that is left."""
        if self.x.dtype.kind not in "biuf":
            raise DTypeError(f"{self.name}: not defined for {self.x.type}")
        return TensorType(I64, self.reduced(self.x.type))

    def reference(self, *operands: Array) -> Any:
        x = wide(operands[0])
        kept = tuple(i for i in range(x.ndim) if i not in self.axes)
        shape = tuple(x.shape[i] for i in kept)
        count = int(np.prod([x.shape[a] for a in self.axes], dtype=np.int64))
        flat = np.transpose(x, (*kept, *self.axes)).reshape(*shape, count)
        found = getattr(np, f"arg{self.word}")
        return found(flat, -1) if count else np.zeros(shape, np.int64)

    def states(self) -> tuple[DType, ...]:
        return (self.x.dtype.compute, I64)

    def identity(self, s: Scalars[S]) -> State[S]:
        last = s.constant(worst(self.x.dtype, self.word), self.x.dtype.compute)
        return last, s.constant(I64.highest, I64)

    def lift(self, s: Scalars[S], index: S, *x: S) -> State[S]:
        return x[0], index

    def combine(self, s: Scalars[S], a: State[S], b: State[S]) -> State[S]:
        a_nan, b_nan = s.binary("ne", a[0], a[0]), s.binary("ne", b[0], b[0])
        same = s.binary("or", s.binary("eq", a[0], b[0]), s.binary("and", a_nan, b_nan))
        low, high = (b, a) if self.word == "max" else (a, b)
        beats = s.binary("lt", low[0], high[0])
        first = s.binary("lt", a[1], b[1])
        a_wins = s.select(
            same, first, s.binary("or", a_nan, s.binary("and", beats, s.unary("not", b_nan)))
        )
        return s.select(a_wins, a[0], b[0]), s.select(a_wins, a[1], b[1])

    def project(self, s: Scalars[S], state: State[S]) -> State[S]:
        nothing = s.binary("eq", state[1], s.constant(I64.highest, I64))
        return (s.select(nothing, s.constant(0, I64), state[1]),)


class ArgMax(ArgExtreme):
    """Position of the largest element over ``axes`` in row-major order, as i64.

    The first of equals wins, and the first NaN before all; of nothing, 0.
    """

    name = "argmax"
    word = "max"


class ArgMin(ArgExtreme):
    """Position of the smallest element over ``axes`` in row-major order, as i64.

    The first of equals wins, and the first NaN before all; of nothing, 0.
    """

    name = "argmin"
    word = "min"
