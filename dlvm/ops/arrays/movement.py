"""Operations that move whole axes: no arithmetic, an index map each."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import ShapeError
from dlvm.ir import Array, Dim, TensorType, Value, rewrite, zeros
from dlvm.ir.properties import Of, Properties
from dlvm.ir.sharding.factors import Factors
from dlvm.ir.sizes.positions import Index, groups, reshaped
from dlvm.ops.elements.logic import Equal, Select
from dlvm.ops.families import IndexMap, Read
from dlvm.ops.literals import Iota
from dlvm.ops.patterns import is_transpose

from .sums import Broadcast


class Permute(IndexMap):
    """Reorder axes: result axis ``i`` is operand axis ``perm[i]``."""

    name = "permute"
    rearranges = True
    x: Value
    perm: tuple[int, ...]

    def infer(self) -> TensorType:
        """The shape in the new order."""
        if sorted(self.perm) != list(range(self.x.type.rank)):
            raise ShapeError(f"permute: {self.perm} is no order of the axes of {self.x.type}")
        return self.x.type.with_shape(tuple(self.x.shape[p] for p in self.perm))

    def reads(self, index: Index) -> tuple[Read, ...]:
        return (Read(0, tuple(index[self.perm.index(a)] for a in range(len(self.perm)))),)

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"perm": (0, *(p + 1 for p in self.perm))}

    def properties(self, of: Of) -> Properties:
        """Those of the transpose, or of matrices whose batches are moved."""
        rank, found = len(self.perm), of(self.x)
        if self.perm[-2:] == (rank - 2, rank - 1):
            return found
        if self.perm[-2:] != (rank - 1, rank - 2):
            return found & {"nonnegative"}
        turned = {"lower": "upper", "upper": "lower"}
        return frozenset(turned.get(word, word) for word in found)

    def reference(self, *operands: Array) -> Any:
        return np.transpose(operands[0], self.perm)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (Permute(dy[0], tuple(self.perm.index(i) for i in range(len(self.perm)))),)


@rewrite(Permute, example=lambda x: Permute(Permute(x, (1, 0)), (1, 0)))
def permute_twice(op: Permute) -> Value | None:
    """(x permuted by p) permuted by q is x permuted by p[q]."""
    match op:
        case Permute(Permute(x, inner), outer):
            return Permute(x, tuple(inner[p] for p in outer))
        case _:
            return None


@rewrite(Permute, example=lambda x: Permute(x, (0, 1)))
def permute_in_order(op: Permute) -> Value | None:
    """The order that is already there changes nothing."""
    return op.x if op.perm == tuple(range(len(op.perm))) else None


@rewrite(Permute, example=lambda x: Permute(x, (1, 0)), given=("n[M,1]",))
def permute_only_ones(op: Permute) -> Value | None:
    """A permutation that leaves the other axes in order but moves axes of size 1 is a reshape."""
    moved = [axis for axis in op.perm if op.x.shape[axis] != 1]
    return Reshape(op.x, op.shape) if moved == sorted(moved) else None


class Reshape(IndexMap):
    """The same elements in row-major order in another shape of equal size."""

    name = "reshape"
    alias = rearranges = True
    x: Value
    shape_to: tuple[Dim, ...]

    def infer(self) -> TensorType:
        """The given shape, which must have as many elements."""
        out = self.x.type.with_shape(self.shape_to)
        if out.size != self.x.type.size:
            raise ShapeError(
                f"reshape: {self.x.type} has {self.x.type.size} elements, {out} has {out.size}",
                sides=(self.x.type.size, out.size),
            )
        return out

    def reads(self, index: Index) -> tuple[Read, ...]:
        return (Read(0, reshaped(index, self.shape_to, self.x.shape)),)

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"shape_to": (size, *self.shape_to)}

    def resized(self, *shapes: tuple[Dim, ...]) -> dict[str, Any]:
        return {"shape_to": shapes[0]}

    def factors(self) -> Factors:
        """The first axes of groups of axes that hold the same elements, if they can be cut."""
        given, found = (list[int | None]([None] * t.rank) for t in (self.x.type, self.type))
        even: list[int] = []
        for count, (here, there) in enumerate(groups(self.x.shape, self.shape_to)):
            i = next((a for a in range(here.start, here.stop) if self.x.shape[a] != 1), None)
            j = next((a for a in range(there.start, there.stop) if self.shape_to[a] != 1), None)
            if i is not None and j is not None:
                given[i] = found[j] = count
                even += [count] * (self.x.shape[i] != self.shape_to[j])
        return Factors((tuple(given),), (tuple(found),), even=frozenset(even))

    def properties(self, of: Of) -> Properties:
        """All of them where only batch axes change."""
        found = of(self.x)
        return found if self.x.shape[-2:] == self.shape[-2:] else found & {"nonnegative"}

    def reference(self, *operands: Array) -> Any:
        return operands[0].reshape([int(d) for d in self.shape_to])

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (Reshape(dy[0], self.x.shape),)


@rewrite(Reshape, example=lambda x: Reshape(Reshape(x, (x.type.size,)), (1, x.type.size)))
def reshape_twice(op: Reshape) -> Value | None:
    """Only the last of two shapes matters."""
    match op:
        case Reshape(Reshape(x, _), shape):
            return Reshape(x, shape)
        case _:
            return None


@rewrite(Reshape, example=lambda x: Reshape(x, x.shape))
def reshape_to_itself(op: Reshape) -> Value | None:
    """A reshape to the shape that is already there does nothing."""
    return op.x if op.x.shape == op.shape_to else None


@rewrite(Broadcast, example=lambda x: Broadcast(x, (1, *x.shape), (1, 2)))
def broadcast_along_ones(op: Broadcast) -> Value | None:
    """A broadcast that adds axes of size 1 alone is a reshape."""
    added = [d for i, d in enumerate(op.shape) if i not in op.axes]
    return Reshape(op.x, op.shape) if added and all(d == 1 for d in added) else None


class Diagonal(IndexMap):
    """The elements whose last two indices are equal: ``y[..., i] = x[..., i, i]``."""

    name = "diagonal"
    x: Value

    def infer(self) -> TensorType:
        """One axis for the last two, which must have one size."""
        x = self.x.type
        if x.rank < 2 or x.shape[-1] != x.shape[-2]:
            sides = x.shape[-2:] if x.rank > 1 else ()
            raise ShapeError(
                f"diagonal: expected last two axes of one size, found {x}", sides=sides
            )
        return x.with_shape(x.shape[:-1])

    def reads(self, index: Index) -> tuple[Read, ...]:
        return (Read(0, (*index, index[-1])),)

    def reference(self, *operands: Array) -> Any:
        """A view, as NumPy's."""
        return np.diagonal(operands[0], axis1=-2, axis2=-1)

    def batched(self, size: Dim) -> dict[str, Any]:
        return {}

    def properties(self, of: Of) -> Properties:
        """Signs; those of a semidefinite matrix are rounded, and may fall below 0."""
        return of(self.x) & {"nonnegative"}

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        x, rank = self.x.type, self.x.type.rank
        count = Iota(x.shape[-1])
        row, column = (Broadcast(count, x.shape, (axis,)) for axis in (rank - 2, rank - 1))
        repeated = Broadcast(dy[0], x.shape, tuple(range(rank - 1)))
        return (Select(Equal(row, column), repeated, zeros(x)),)


@rewrite(Diagonal, example=lambda x: Diagonal(Permute(x, (1, 0))), given=("n[N,N]",))
def diagonal_of_transpose(op: Diagonal) -> Value | None:
    """A matrix and its transpose have one diagonal."""
    match op.x:
        case Permute(x) if is_transpose(op.x):
            return Diagonal(x)
        case _:
            return None
