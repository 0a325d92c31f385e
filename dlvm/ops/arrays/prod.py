"""The product of elements, whole and running; its derivative divides by nothing, not by zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError
from dlvm.ir import Array, DType, TensorType, Value
from dlvm.ir.scalar import S, Scalars
from dlvm.ir.sizes import dims
from dlvm.ops.elements.casting import converted
from dlvm.ops.families import Reduction, State, wide

from .movement import Permute, Reshape
from .running import Cumulative, carried_back
from .sums import spread


class Prod(Reduction):
    """Product over ``axes``; the empty product is 1. Integers wrap; half precision is in f32.

    The derivative with respect to an element is the product of all elements before it times the
    product of all elements after it, which are two running scans.
    """

    name = "prod"
    joined = "mul"
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
    wide_x = converted(x, x.dtype.compute)
    moved = Permute(wide_x, order)
    count = dims.product(tuple(x.shape[a] for a in axes))
    flat = Reshape(moved, (*(x.shape[i] for i in kept), count))
    last = len(kept)
    before, after = (CumulativeProd(flat, last, reverse, True) for reverse in (False, True))
    back = tuple(order.index(i) for i in range(len(order)))
    found = Permute(Reshape(before * after, moved.shape), back)
    return converted(found, x.dtype)


class CumulativeProd(Cumulative):
    """Running product along ``axis``: ``y[i] = x[0] * ... * x[i]``, or up to ``x[i-1]``.

    Multiplied in order from 1 on; integers wrap; half precision is in f32 and rounded once. The
    derivative divides by nothing, so zeros are no special case.
    """

    name = "cumulative_prod"
    folds = Prod

    def reference(self, *operands: Array) -> Any:
        return self.accumulated(np.multiply, wide(operands[0]), 1)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        before = self if self.exclusive else self.other()
        return (before * carried_back(self, self.x, dy[0]),)

    def joined(self, before: Value, own: Value, xs: tuple[Value, ...], axis: int) -> Value:
        return before * own
