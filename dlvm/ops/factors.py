"""The product of elements. Its derivative divides by nothing, so zeros are no special case."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.errors import DTypeError
from dlvm.ir import I64, Array, DType, TensorType, Value, dims, literal, splat, zeros
from dlvm.ir.scalar import S, Scalars

from .casting import Cast
from .families import Reduction, State, wide
from .literals import Constant, DimSize, Iota
from .logic import Equal, Select
from .movement import Broadcast, Permute, Reshape
from .reduction import spread
from .running import LinearRecurrence


class Prod(Reduction):
    """Product over ``axes``; the empty product is 1. Integers wrap; half precision is in f32.

    The derivative by an element is the product of all that stand before it times the product
    of all that stand after it, which are two running scans.
    """

    name = "prod"
    widens = True
    pairwise = "multiply"
    x: Value
    axes: tuple[int, ...]

    def infer(self) -> TensorType:
        """The shape without the axes."""
        if self.x.dtype.kind not in "iuf":
            raise DTypeError(f"prod: not defined for {self.x.type}")
        return self.x.type.with_shape(self.reduced(self.x.type))

    def reference(self, *operands: Array) -> Any:
        x = wide(operands[0])
        return np.prod(x, axis=self.axes, dtype=x.dtype).astype(self.x.dtype.numpy)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (spread(dy[0], self.x.type, self.axes) * product_of_others(self.x, self.axes),)

    def states(self) -> tuple[DType, ...]:
        return (self.x.dtype.compute,)

    def identity(self, s: Scalars[S]) -> State[S]:
        return (s.constant(1, self.x.dtype.compute),)

    def lift(self, s: Scalars[S], index: S, *x: S) -> State[S]:
        return x

    def combine(self, s: Scalars[S], a: State[S], b: State[S]) -> State[S]:
        return (s.binary("mul", a[0], b[0]),)

    def project(self, s: Scalars[S], state: State[S]) -> State[S]:
        return state


def product_of_others(x: Value, axes: tuple[int, ...]) -> Value:
    """At each element the product of the others along ``axes``, taken in row-major order."""
    kept = tuple(i for i in range(x.type.rank) if i not in axes)
    order = (*kept, *axes)
    wide_x = x if x.dtype.compute == x.dtype else Cast(x, x.dtype.compute)
    moved = Permute(wide_x, order)
    count = dims.product(tuple(x.shape[a] for a in axes))
    flat = Reshape(moved, (*(x.shape[i] for i in kept), count))
    others = _product_before(flat, reverse=False) * _product_before(flat, reverse=True)
    back = tuple(order.index(i) for i in range(len(order)))
    found = Permute(Reshape(others, moved.shape), back)
    return found if found.dtype == x.dtype else Cast(found, x.dtype)


def _product_before(x: Value, reverse: bool) -> Value:
    """The product of the elements that come before each along the last axis; 1 at the first.

    A recurrence starts from 0, so the first element is what is added, not what multiplies.
    """
    last = x.type.rank - 1
    place = Iota(x.shape[last])
    end = DimSize(x.shape[last] - 1) if reverse else Constant(literal(0, I64))
    first = Broadcast(Equal(place, Broadcast(end, place.shape, ())), x.shape, (last,))
    factor, start = Select(first, zeros(x.type), x), Select(first, x, zeros(x.type))
    before = LinearRecurrence(factor, start, last, reverse, True)
    return Select(first, splat(1, x.type), before)
