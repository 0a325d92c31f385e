"""The sum over axes and the repetition along axes: each is the adjoint of the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ir import Array, Dim, DType, TensorType, Value, rewrite, splat
from dlvm.ir.numerics import ROUNDING
from dlvm.ir.properties import Of, Properties
from dlvm.ir.scalar import S, Scalars
from dlvm.ir.sizes.positions import Index
from dlvm.ops.families import IndexMap, Read, Reduction, State, wide


class Sum(Reduction):
    """Sum over ``axes``, which starts from 0: that of nothing, and that of -0, is 0.

    Integers wrap; half precision sums in f32.
    """

    name = "sum"
    joined = "add"
    widens = True
    pairwise = "add"
    x: Value
    axes: tuple[int, ...]

    def infer(self) -> TensorType:
        """The shape without the axes."""
        if self.x.dtype.kind not in "iuf":
            raise DTypeError(f"sum: not defined for {self.x.type}")
        return self.x.type.with_shape(self.reduced(self.x.type))

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        """What starts from 0 becomes -0 only where it is rounded to a narrower type."""
        return self.dtype == self.dtype.compute

    def properties(self, of: Of) -> Properties:
        """Sums of matrices keep what sums of two do; those of floats that are not negative."""
        found, rank = of(self.x), self.x.type.rank
        kept = found & {"nonnegative"} if self.dtype.is_float else frozenset[str]()
        if all(a < rank - 2 for a in self.axes):
            kept |= found & {"symmetric", "psd", "lower", "upper", "diagonal"}
        return kept

    def reference(self, *operands: Array) -> Any:
        x = wide(operands[0])
        return np.sum(x, axis=self.axes, dtype=x.dtype).astype(self.x.dtype.numpy)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (spread(dy[0], self.x.type, self.axes),)

    def states(self) -> tuple[DType, ...]:
        return (self.x.dtype.compute,)

    def identity(self, s: Scalars[S]) -> State[S]:
        return (s.constant(0, self.x.dtype.compute),)

    def lift(self, s: Scalars[S], index: S, *x: S) -> State[S]:
        return x

    def combine(self, s: Scalars[S], a: State[S], b: State[S]) -> State[S]:
        return (s.binary("add", a[0], b[0]),)

    def project(self, s: Scalars[S], state: State[S]) -> State[S]:
        return state


@rewrite(Sum, example=lambda x: Sum(x, ()))
def sum_over_nothing(op: Sum) -> Value | None:
    """The sum of x over no axes = x + 0, exactly, as every sum starts from 0."""
    return op.x + splat(0, op.type) if not op.axes else None


@rewrite(
    Sum,
    example=lambda x: Sum(Sum(x, (1,)), (0, 1)),
    given=("n[M,K,N]",),
    law_class=ROUNDING,
)
def sum_twice(op: Sum) -> Value | None:
    """The sum over some axes of a sum over others is one over all, and rounds halves once."""
    match op:
        case Sum(Sum(x, inner), outer):
            left = [i for i in range(x.type.rank) if i not in inner]
            return Sum(x, tuple(sorted((*inner, *(left[a] for a in outer)))))
        case _:
            return None


class Broadcast(IndexMap):
    """Repeat along new axes: operand axis ``i`` becomes result axis ``axes[i]``.

    Sizes are never stretched here: an operand axis has the size of the result axis it becomes.
    """

    name = "broadcast"
    rearranges = True
    x: Value
    shape_to: tuple[Dim, ...]
    axes: tuple[int, ...]

    def infer(self) -> TensorType:
        """The given shape, which must agree with the operand's on ``axes``."""
        x, shape = self.x.type, self.shape_to
        ascending = list(self.axes) == sorted(set(self.axes))
        if (
            len(self.axes) != x.rank
            or not ascending
            or any(not 0 <= a < len(shape) for a in self.axes)
        ):
            raise ShapeError(f"broadcast: axes {self.axes} do not place {x} in {shape}")
        for axis, size in zip(self.axes, x.shape, strict=True):
            if shape[axis] != size:
                raise ShapeError(f"broadcast: axis {axis} of {shape} must be {size} for {x}")
        return x.with_shape(shape)

    def reads(self, index: Index) -> tuple[Read, ...]:
        return (Read(0, tuple(index[a] for a in self.axes)),)

    def batched(self, size: Dim) -> dict[str, Any]:
        axes = (0, *(a + 1 for a in self.axes))
        return {"shape_to": (size, *self.shape_to), "axes": axes}

    def resized(self, *shapes: tuple[Dim, ...]) -> dict[str, Any]:
        return {"shape_to": shapes[0]}

    def properties(self, of: Of) -> Properties:
        """Those of the matrices that are repeated; one number everywhere is symmetric."""
        rank, found = len(self.shape_to), of(self.x)
        if self.axes[-2:] == (rank - 2, rank - 1):
            return found
        signs = found & {"nonnegative"}
        if any(a >= rank - 2 for a in self.axes):
            return signs
        return signs | {"symmetric", *(("psd",) if signs else ())}

    def reference(self, *operands: Array) -> Any:
        shape = [1] * len(self.shape_to)
        for axis, size in zip(self.axes, operands[0].shape, strict=True):
            shape[axis] = size
        return np.broadcast_to(operands[0].reshape(shape), [int(d) for d in self.shape_to])

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        added = tuple(i for i in range(len(self.shape_to)) if i not in self.axes)
        return (Sum(dy[0], added) if added else dy[0],)


@rewrite(Broadcast, example=lambda x: Broadcast(x, x.shape, tuple(range(len(x.shape)))))
def broadcast_to_itself(op: Broadcast) -> Value | None:
    """A broadcast that adds no axis does nothing."""
    return op.x if op.x.shape == op.shape_to else None


@rewrite(
    Broadcast,
    example=lambda x: Broadcast(Broadcast(x, (*x.shape, 2), (0,)), (3, *x.shape, 2), (1, 2)),
    given=("n[M]",),
)
def broadcast_twice(op: Broadcast) -> Value | None:
    """Two broadcasts place axes one after the other, as one does."""
    match op:
        case Broadcast(Broadcast(x, _, inner), shape, outer):
            return Broadcast(x, shape, tuple(outer[a] for a in inner))
        case _:
            return None


def spread(x: Value, like: TensorType, axes: tuple[int, ...]) -> Value:
    """What a reduction over ``axes`` gave, repeated along them."""
    return Broadcast(x, like.shape, tuple(i for i in range(like.rank) if i not in axes))
