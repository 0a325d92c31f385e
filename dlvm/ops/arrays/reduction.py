"""Reductions: a fold of tuples along axes, each stated as a monoid in scalar words.

The order of the fold is no matter of the operation: a kernel prints its reduction tree, and
the documented error bound holds for every tree. ``Fold`` is the general form, with a region.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dlvm.base.errors import DTypeError, IRError, ShapeError
from dlvm.ir import Array, DType, Function, TensorType, Value, as_tuple, splat
from dlvm.ir.interpret import elementwise
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.elements.casting import Cast
from dlvm.ops.elements.elementwise import StopGradient
from dlvm.ops.elements.logic import And, Equal, Select
from dlvm.ops.elements.magnitude import IsInf
from dlvm.ops.elements.transcendental import Exp
from dlvm.ops.families import Elementwise, Reduction, State, check_region, wide
from dlvm.ops.literals import Constant

from .extremes import Max
from .sums import Sum, spread


class LogSumExp(Reduction):
    """``log(sum(exp(x)))`` over ``axes`` in one pass, without overflow; of nothing, -inf.

    The monoid keeps (m, s) with the sum equal to ``s * exp(m)``: the streaming form of
    Milakov and Gimelshein (2018).
    """

    name = "logsumexp"
    joined = "again"
    accepts = "f"
    pairwise = "logaddexp"
    identity_is_exact = True
    x: Value
    axes: tuple[int, ...]

    def infer(self) -> TensorType:
        """The shape without the axes."""
        if not self.x.dtype.is_float:
            raise DTypeError(f"logsumexp: expected floats, found {self.x.type}")
        return self.x.type.with_shape(self.reduced(self.x.type))

    def reference(self, *operands: Array) -> Any:
        x = wide(operands[0])
        top = np.max(x, axis=self.axes, keepdims=True, initial=-np.inf)
        safe = np.where(np.isinf(top), 0, top)
        total = np.sum(np.exp(x - safe), axis=self.axes, dtype=x.dtype)
        return (np.log(total) + safe.reshape(total.shape)).astype(self.x.dtype.numpy)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        x = Cast(self.x, self.x.dtype.compute)
        total = Cast(dy[0], x.dtype)
        powers = powers_below(x, spread(StopGradient(Max(x, self.axes)), x.type, self.axes))
        share = powers * spread(total / Sum(powers, self.axes), x.type, self.axes)
        return (Cast(share, self.x.dtype),)

    def states(self) -> tuple[DType, ...]:
        return (self.x.dtype.compute, self.x.dtype.compute)

    def identity(self, s: Scalars[S]) -> State[S]:
        dtype = self.x.dtype.compute
        return s.constant(dtype.lowest, dtype), s.constant(0.0, dtype)

    def lift(self, s: Scalars[S], index: S, *x: S) -> State[S]:
        return x[0], s.constant(1.0, self.x.dtype.compute)

    def combine(self, s: Scalars[S], a: State[S], b: State[S]) -> State[S]:
        m = s.binary("max", a[0], b[0])
        parts = [s.binary("mul", p[1], decay(s, p[0], m)) for p in (a, b)]
        return m, s.binary("add", *parts)

    def project(self, s: Scalars[S], state: State[S]) -> State[S]:
        return (s.binary("add", state[0], s.unary("log", state[1])),)


def powers_below(x: Value, top: Value) -> Value:
    """``exp(x - top)`` for top >= x, and 1 where both are the same infinity.

    Shares of a sum of exponentials are quotients of these: the result of a log-sum-exp is rounded,
    and its exponential has lost the digits of a large ``top``.
    """
    same = And(Equal(x, top), IsInf(x))
    return Select(same, splat(1, x.type), Exp(x - top))


def decay(s: Scalars[S], x: S, m: S) -> S:
    """``exp(x - m)`` for m >= x, and 1 where both are the same infinity."""
    same = s.binary("eq", x, m)
    one = s.constant(1.0, s.dtype(x))
    return s.select(same, one, s.unary("exp", s.binary("sub", x, m)))


class Fold(Reduction):
    """Folds tuples along ``axes`` with an associative region over scalars.

    ``combine`` takes two states, earlier elements first, and gives one; ``identity`` are the
    scalars of the empty fold; each operand gives one scalar of each state.
    """

    name = "fold"
    joined = "again"
    one_nest: ClassVar[bool] = True
    xs: tuple[Value, ...]
    identities: tuple[float, ...]
    combine_region: Function
    axes: tuple[int, ...]

    def infer(self) -> tuple[TensorType, ...]:
        """One result for each operand; the region is made of element-wise operations."""
        if not self.xs or any(x.shape != self.xs[0].shape for x in self.xs):
            raise ShapeError("fold: expected one or more operands of one shape")
        if len(self.identities) != len(self.xs):
            raise ShapeError(f"fold: {len(self.xs)} operands, {len(self.identities)} identities")
        scalars = tuple(x.type.with_shape(()) for x in self.xs)
        check_region(self, "combine_region", self.combine_region, scalars * 2, scalars)
        for op in self.combine_region.ops:
            if not isinstance(op, Elementwise) and op.name != "constant":
                raise IRError(f"fold: {op.name} is not element-wise")
        return tuple(x.type.with_shape(self.reduced(x.type)) for x in self.xs)

    def reference(self, *operands: Array) -> Any:
        kept = tuple(i for i in range(operands[0].ndim) if i not in self.axes)
        shape = tuple(operands[0].shape[i] for i in kept)
        count = int(np.prod([operands[0].shape[a] for a in self.axes], dtype=np.int64))
        flat = [np.transpose(x, (*kept, *self.axes)).reshape(*shape, count) for x in operands]
        state = tuple(
            np.full(shape, e, x.dtype) for e, x in zip(self.identities, operands, strict=True)
        )
        for i in range(count):
            state = elementwise(self.combine_region, (*state, *(x[..., i] for x in flat)))
        return tuple(np.array(a) for a in state)

    def states(self) -> tuple[DType, ...]:
        return tuple(x.dtype for x in self.xs)

    def identity(self, s: Scalars[S]) -> State[S]:
        pairs = zip(self.identities, self.xs, strict=True)
        return tuple(s.constant(number, x.dtype) for number, x in pairs)

    def lift(self, s: Scalars[S], index: S, *x: S) -> State[S]:
        return x

    def combine(self, s: Scalars[S], a: State[S], b: State[S]) -> State[S]:
        return scalar_region(s, self.combine_region, (*a, *b))

    def project(self, s: Scalars[S], state: State[S]) -> State[S]:
        return state


def scalar_region(s: Scalars[S], region: Function, arguments: tuple[S, ...]) -> tuple[S, ...]:
    """A region of element-wise operations, in scalar words."""
    env: dict[Value, S] = dict(zip(region.params, arguments, strict=True))
    for op in region.ops:
        if isinstance(op, Constant):
            env[op] = s.constant(op.value.item(), op.dtype)
        elif isinstance(op, Elementwise):
            out = as_tuple(op.scalar(s, *(env[v] for v in op.operands)))
            env.update(zip(op.results, out, strict=True))
    return tuple(env[r] for r in region.results)
