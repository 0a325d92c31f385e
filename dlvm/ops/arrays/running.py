"""Running scans: every state of a fold along an axis, not only the last.

A cumulative operation runs the monoid of a reduction, stated there once. Derivatives flow back
through one operation, the linear recurrence, which is closed under differentiation: with
``E`` the exclusive recurrence against the direction of the scan, what comes back to element i
of ``y[i] = a[i] y[i-1] + b[i]`` is ``dy + E(a, a dy)``, and ``E(a, dy)`` where y is exclusive.
No factor is divided by, so zeros are no special case, and the cost is that of one more scan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy as np

from dlvm.base.errors import DTypeError
from dlvm.ir import Array, Builder, DType, TensorType, Value, splat, zeros
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.elements.casting import Cast
from dlvm.ops.elements.elementwise import Maximum, Minimum, StopGradient
from dlvm.ops.elements.logic import Equal, Less, Select
from dlvm.ops.elements.meanings import with_zeros_in_order
from dlvm.ops.elements.transcendental import LogAddExp
from dlvm.ops.families import Reduction, Running, State, wide
from dlvm.ops.literals import DimSize, Iota

from .extremes import UFUNCS, Max, Min, worst
from .movement import Broadcast
from .reduction import LogSumExp, Sum, powers_below


class Cumulative(Running):
    """A running scan of one operand that folds as the reduction ``folds`` does."""

    folds: ClassVar[type[Reduction]]
    accepts: ClassVar[str] = "iuf"
    x: Value
    axis: int
    reverse: bool = False
    exclusive: bool = False

    def infer(self) -> TensorType:
        """The type of the operand."""
        if self.x.dtype.kind not in self.accepts:
            raise DTypeError(f"{self.name}: not defined for {self.x.type}")
        return self.along(self.x.type)

    def reduction(self) -> Reduction:
        """The reduction along the axis, written nowhere: it lends its monoid."""
        make = cast("Callable[..., Reduction]", self.folds)
        with Builder():
            return make(self.x, (self.axis,))

    def other(self) -> Value:
        """The same scan, exclusive if this one is not and the reverse."""
        return self.rebuild((self.x,), exclusive=not self.exclusive)

    def states(self) -> tuple[DType, ...]:
        return self.reduction().states()

    def identity(self, s: Scalars[S]) -> State[S]:
        return self.reduction().identity(s)

    def step(self, s: Scalars[S], index: S, state: State[S], *x: S) -> State[S]:
        monoid = self.reduction()
        return monoid.combine(s, state, monoid.lift(s, index, *x))

    def project(self, s: Scalars[S], state: State[S]) -> S:
        return self.reduction().project(s, state)[0]

    def seen(self, truths: Array) -> Array:
        """Whether one of these held so far, along the axis."""
        return np.logical_or.accumulate(truths, self.axis)

    def ordered(self, states: Array, elements: Array) -> Array:
        """All states, where NumPy leaves the sign of a zero open."""
        return states

    def accumulated(self, ufunc: Any, x: Array, start: float) -> Array:
        """All states of a fold by a NumPy function, each from the one before."""
        states = np.flip(x, self.axis) if self.reverse else x
        shape = list(x.shape)
        shape[self.axis] = 1
        elements = np.concatenate([np.full(shape, start, x.dtype), states], self.axis)
        states = self.ordered(ufunc.accumulate(elements, self.axis, x.dtype), elements)
        kept = slice(None, -1) if self.exclusive else slice(1, None)
        states = states[(slice(None),) * self.axis + (kept,)]
        found = np.flip(states, self.axis) if self.reverse else states
        return found.astype(self.x.dtype.numpy)


class CumulativeSum(Cumulative):
    """Running sum along ``axis``: ``y[i] = x[0] + ... + x[i]``, or up to ``x[i-1]``.

    Added in order from 0 on; integers wrap; half precision is summed in f32 and rounded once.
    """

    name = "cumulative_sum"
    folds = Sum

    def reference(self, *operands: Array) -> Any:
        return self.accumulated(np.add, wide(operands[0]), 0)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (CumulativeSum(dy[0], self.axis, not self.reverse, self.exclusive),)

    def joined(self, before: Value, own: Value, xs: tuple[Value, ...], axis: int) -> Value:
        return before + own


class CumulativeExtreme(Cumulative):
    """A running extreme by the order that ``word`` says, ``max`` or ``min``."""

    accepts = "biuf"
    word: ClassVar[str]

    def ordered(self, states: Array, elements: Array) -> Array:
        return with_zeros_in_order(states, elements, self.word, self.seen)

    def reference(self, *operands: Array) -> Any:
        first = worst(self.x.dtype, self.word)
        return self.accumulated(UFUNCS[self.word], wide(operands[0]), first)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (to_extremes(self, dy[0]),)

    def joined(self, before: Value, own: Value, xs: tuple[Value, ...], axis: int) -> Value:
        return (Maximum if self.word == "max" else Minimum)(before, own)


class CumulativeMax(CumulativeExtreme):
    """Running maximum along ``axis``; NaN from the first NaN on; of nothing, the lowest value.

    Ties among the elements so far share the cotangent evenly.
    """

    name = "cumulative_max"
    folds = Max
    word = "max"


class CumulativeMin(CumulativeExtreme):
    """Running minimum along ``axis``; NaN from the first NaN on; of nothing, the highest value.

    Ties among the elements so far share the cotangent evenly.
    """

    name = "cumulative_min"
    folds = Min
    word = "min"


class CumulativeLogSumExp(Cumulative):
    """``log`` of the running sum of ``exp(x)`` along ``axis``, without overflow; of nothing, -inf.

    No factor of its derivative exceeds 1: the shares ``exp(x - y)`` and ``exp(y[i-1] - y[i])``,
    which are formed from sums relative to the running maximum.
    """

    name = "cumulative_logsumexp"
    folds = LogSumExp
    accepts = "f"

    def reference(self, *operands: Array) -> Any:
        return self.accumulated(np.logaddexp, operands[0].astype(np.float64), -np.inf)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        x, where = Cast(self.x, self.x.dtype.compute), (self.axis, self.reverse)
        top, top_before = (StopGradient(CumulativeMax(x, *where, end)) for end in (False, True))
        own, decay = powers_below(x, top), powers_below(top_before, top)
        total, before = (LinearRecurrence(decay, own, *where, end) for end in (False, True))
        kept = carried_back(self, decay * before / total, Cast(dy[0], x.dtype))
        return (Cast(own / total * kept, self.x.dtype),)

    def joined(self, before: Value, own: Value, xs: tuple[Value, ...], axis: int) -> Value:
        return LogAddExp(before, own)


class LinearRecurrence(Running):
    """``y[i] = a[i] * y[i-1] + b[i]`` along ``axis``, from 0 on, each product and sum rounded.

    Discounted sums, exponential averages and linear filters are of this form.
    """

    name = "linear_recurrence"
    a: Value
    b: Value
    axis: int
    reverse: bool = False
    exclusive: bool = False

    def infer(self) -> TensorType:
        """The type of both operands."""
        if self.a.dtype.kind not in "iuf":
            raise DTypeError(f"linear_recurrence: not defined for {self.a.type}")
        return self.along(self.a.type)

    def reference(self, *operands: Array) -> Any:
        a, b = (np.moveaxis(wide(x), self.axis, 0) for x in operands)
        out, state = np.empty_like(b), np.zeros(b.shape[1:], b.dtype)
        order = range(len(b))
        for i in reversed(order) if self.reverse else order:
            after = a[i] * state + b[i]
            out[i] = state if self.exclusive else after
            state = after
        return np.moveaxis(out, 0, self.axis).astype(self.a.dtype.numpy)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        where = (self.axis, self.reverse)
        before = self if self.exclusive else LinearRecurrence(self.a, self.b, *where, True)
        db = carried_back(self, self.a, dy[0])
        return db * before, db

    def states(self) -> tuple[DType, ...]:
        return (self.a.dtype.compute,)

    def identity(self, s: Scalars[S]) -> State[S]:
        return (s.constant(0, self.a.dtype.compute),)

    def step(self, s: Scalars[S], index: S, state: State[S], *x: S) -> State[S]:
        return (s.binary("add", s.binary("mul", x[0], state[0]), x[1]),)

    def project(self, s: Scalars[S], state: State[S]) -> S:
        return state[0]

    def over_chunks(self, xs: tuple[Value, ...], own: Value, axis: int) -> tuple[Value, ...]:
        return self._factor(xs[0], axis, False), own

    def joined(self, before: Value, own: Value, xs: tuple[Value, ...], axis: int) -> Value:
        return self._factor(xs[0], axis, self.exclusive) * before + own

    def _factor(self, a: Value, axis: int, exclusive: bool) -> Value:
        """By what an element of a chunk multiplies what came before the chunk."""
        size = a.type.shape[axis]
        place = Broadcast(Iota(size), a.type.shape, (axis,))
        first = Equal(place, Broadcast(DimSize(size - 1 if self.reverse else 0), place.shape, ()))
        start, zero = splat(1, a.type), zeros(a.type)
        factors, own = Select(first, zero, a), Select(first, a, zero)
        found = LinearRecurrence(factors, own, axis, self.reverse, exclusive)
        return Select(first, start, found) if exclusive else found


def carried_back(op: Running, a: Value, dy: Value) -> Value:
    """The cotangent of ``b`` in ``y[i] = a[i] y[i-1] + b[i]``, run as ``op`` runs."""
    if op.exclusive:
        return LinearRecurrence(a, dy, op.axis, not op.reverse, True)
    return dy + LinearRecurrence(a, a * dy, op.axis, not op.reverse, True)


def to_extremes(op: CumulativeExtreme, dy: Value) -> Value:
    """What comes back to the elements that are a running extremum, shared evenly by ties so far."""
    other, x = op.other(), op.x
    before, after = (op, other) if op.exclusive else (other, op)
    dtype = dy.dtype.compute
    zero, one = zeros(x.type.with_dtype(dtype)), splat(1, x.type.with_dtype(dtype))
    beaten = Less(before, x) if op.word == "max" else Less(x, before)
    same = Select(beaten, zero, one)
    tied = Select(Equal(x, after), one, zero)
    count = LinearRecurrence(same, tied, op.axis, op.reverse, op.exclusive)
    share = Select(Less(zero, count), Cast(dy, dtype) / Maximum(count, one), zero)
    kept = Select(Equal(x, after), carried_back(op, same, share), zero)
    return Cast(kept, dy.dtype)
