"""Index maps in other operations: what a map reads as gathers, and its adjoint as scatters.

So derivatives, batches and formats that know no such operation have it all the same. An axis of
an operand whose index depends on axes of the result that no other depends on is gathered by itself,
at as many numbers as these axes have; an operand with other indices is gathered as one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from dlvm.ir import I64, Dim, TensorType, Value, splat, zeros
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.sizes.positions import flatten, valued
from dlvm.ops.elements.division import FloorDiv, Remainder
from dlvm.ops.elements.elementwise import Add, Maximum, Minimum, Mul
from dlvm.ops.elements.logic import And, LessEqual, Not, Select
from dlvm.ops.families import IndexMap, Read
from dlvm.ops.literals import DimSize, Iota

from .indexing import Gather, ScatterAdd
from .movement import Permute, Reshape
from .sums import Broadcast

FUNCTIONS: dict[str, Callable[[Value, Value], Value]] = {
    "add": Add,
    "mul": Mul,
    "floordiv": FloorDiv,
    "mod": Remainder,
    "min": Minimum,
    "max": Maximum,
}
Axes = tuple[int, ...]


def as_gathers(op: IndexMap) -> Value:
    """The result of a map: the first read whose conditions hold, or 0."""
    *others, last = op.reads(op.index)
    found = _gathered(op, last)
    if last.where and (others or not _has_own_axes(op, last)):
        found = Select(_inside(op, last), found, zeros(op.type))
    for read in reversed(others):
        found = Select(_inside(op, read), _gathered(op, read, clip=True), found)
    return found


def as_scatters(op: IndexMap, dy: Value) -> tuple[Value | None, ...]:
    """The cotangent of each operand: what every element passes on is added where it was read."""
    sums: list[Value] = [zeros(x.type.with_shape((x.type.size,))) for x in op.operands]
    every = tuple(range(op.type.rank))
    free: list[Value] = []  # where no read before applies
    for read in op.reads(op.index):
        x = op.operands[read.operand].type
        at, inside = _numbers(op, flatten(read.index, x.shape), every), list(free)
        if read.where:
            here = _inside(op, read)
            inside.append(here)
            free.append(Not(here))
        if inside:
            at = Select(reduce(And, inside), at, Broadcast(DimSize(x.size), op.shape, ()))
        sums[read.operand] = ScatterAdd(sums[read.operand], at, dy, 0, 0, "drop")
    return tuple(Reshape(dx, x.shape) for dx, x in zip(sums, op.operands, strict=True))


def _gathered(op: IndexMap, read: Read, clip: bool = False) -> Value:
    """What is read, and something where conditions fail: 0 if every condition is about one axis."""
    x = op.operands[read.operand]
    if any(n == 0 for n in x.shape):
        return zeros(op.type)
    if not _has_own_axes(op, read):
        at = _numbers(op, flatten(read.index, x.shape), tuple(range(op.type.rank)))
        return Gather(Reshape(x, (x.type.size,)), at, 0, 0, "clip")
    order: Axes = ()
    for axis in reversed(range(x.type.rank)):
        own = _axes_in(read.index[axis])
        order = (*own, *order)
        x = _along(op, read, x, axis, () if clip else read.where)
    kept = tuple(sorted(order))
    x = x if order == kept else Permute(x, tuple(map(order.index, kept)))
    return x if len(kept) == op.type.rank else Broadcast(x, op.shape, kept)


def _along(op: IndexMap, read: Read, x: Value, axis: int, where: Sequence[Dim]) -> Value:
    """One axis of an operand, gathered where the index lies and 0 where its conditions fail."""
    d, size = read.index[axis], x.shape[axis]
    own = _axes_in(d)
    about = [c for c in where if set(_axes_in(c)) <= set(own)]
    if len(own) == 1 and d == symbol(f"%{own[0]}") and op.shape[own[0]] == size and not about:
        return x
    at = _numbers(op, d, own)
    if not about:
        return Gather(x, at, axis, 0, "clip")
    inside = reduce(And, (_holds(op, c, own) for c in about))
    outside = Broadcast(DimSize(size), at.type.shape, ())
    return Gather(x, Select(inside, at, outside), axis, 0, "drop")


def _has_own_axes(op: IndexMap, read: Read) -> bool:
    """Whether no two indices depend on one axis of the result, nor any condition on two indices."""
    owners = [_axes_in(d) for d in read.index]
    disjoint = sum(map(len, owners)) == len({axis for own in owners for axis in own})
    return disjoint and all(any(set(_axes_in(c)) <= set(own) for own in owners) for c in read.where)


def _axes_in(d: Dim) -> Axes:
    """The axes of the result on which a size depends."""
    return tuple(sorted(int(name[1:]) for name in set(symbols(d)) if name.startswith("%")))


def _inside(op: IndexMap, read: Read) -> Value:
    """Whether the conditions of a read hold, for each element of the result."""
    found = ((_axes_in(c), c) for c in read.where)
    return reduce(And, (Broadcast(_holds(op, c, axes), op.shape, axes) for axes, c in found))


def _holds(op: IndexMap, condition: Dim, axes: Axes) -> Value:
    at = _numbers(op, condition, axes)
    return LessEqual(zeros(at.type), at)


def _numbers(op: IndexMap, d: Dim, axes: Axes) -> Value:
    """A size as integers over some axes of the result."""
    like = TensorType(I64, tuple(op.shape[axis] for axis in axes))

    def named(name: str) -> Value:
        if not name.startswith("%"):
            return Broadcast(DimSize(symbol(name)), like.shape, ())
        place = axes.index(int(name[1:]))
        return Broadcast(Iota(like.shape[place]), like.shape, (place,))

    return valued(d, named, lambda n: splat(n, like), FUNCTIONS)
