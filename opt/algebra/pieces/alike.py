"""Pieces that are computed in the same way from neighbouring parts become one batched formula.

A loop of Python over the heads of attention, ``concat([f(x[:, i]) for i in heads])``, traces to
one small program for each head. Where the parts together are whole arrays, the programs are one
program on these arrays with a batch axis. Parts are cut by other shapes and permutations, which
cost nothing, so that nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.ir import Dim, Op, Value, rewrite
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import Broadcast, Concat, Matmul, Permute, Reshape, Slice, transposed
from dlvm.ops.families import Contraction, Elementwise, Reduction

MOST = 256
"""Operations of all formulas that are looked at."""
DEEP = 64
"""Operations of one formula, from its result to a part, that are looked at."""
Pieces = tuple[Value, ...]


@rewrite(
    Concat,
    example=(
        lambda x, y: Concat(tuple(Matmul(_at(x, i), _at(y, i)) for i in range(2)), 0),
        lambda x, y: Concat(tuple(transposed(Matmul(_at(x, i), _at(y, i))) for i in range(2)), 1),
        lambda x, y: Concat(tuple(Matmul(_at(x, i), _at(y, 1)) for i in range(2)), 1),
        lambda x, y: Concat(tuple(Matmul(_third(x, i, 2), _third(y, i, 1)) for i in range(3)), 0),
    ),
    given=("n[2,3,9]", "n[2,9,4]"),
    law_class=ROUNDING,
    weighed=True,
)
def products_of_parts(op: Concat) -> Value | None:
    """[A_1 B_1, A_2 B_2, ...] is the batched product A B, where the A_i together are A."""
    alike = Alike(len(op.xs))
    if len(op.xs) < 2 or (whole := alike.batch(op.xs)) is None or not alike.products:
        return None
    return joined(whole, op)


def _at(x: Value, i: int) -> Value:
    """For the examples: a matrix of a batch."""
    shape = x.shape[1:]
    return Reshape(Slice(x, (i, 0, 0), (1, *shape), (1, 1, 1)), shape)


def _third(x: Value, i: int, axis: int) -> Value:
    """For the examples: three of nine columns, or rows, of each matrix of a batch."""
    starts, sizes = [0, 0, 0], list(x.shape)
    starts[axis], sizes[axis] = 3 * i, 3
    return Slice(x, tuple(starts), tuple(sizes), (1, 1, 1))


def joined(whole: Value, op: Concat) -> Value:
    """The batches one after the other along an axis: the batch axis goes in front of it."""
    last = op.axis + 1
    if op.axis:
        whole = Permute(whole, (*range(1, last), 0, *range(last, whole.type.rank)))
    return Reshape(whole, op.shape)


class Alike:
    """Batches so many values that are computed alike, operand by operand."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.products = 0
        self._deep = 0
        self._done: dict[Pieces, Value | None] = {}

    def batch(self, pieces: Pieces) -> Value | None:
        """The values along a new first axis; None where they are not computed alike."""
        if pieces not in self._done:
            self._deep += 1
            full = len(self._done) >= MOST or self._deep > DEEP
            found = None if full else self._batched(pieces)
            self._deep -= 1
            self._done[pieces] = found
        return self._done[pieces]

    def _batched(self, pieces: Pieces) -> Value | None:
        first = pieces[0]
        if all(p is first for p in pieces):
            return _repeated(first, self.count)
        ops = [p for p in pieces if isinstance(p, Op)]
        if len(ops) < self.count or any(type(p) is not type(first) for p in ops):
            return None
        parts = [p for p in ops if isinstance(p, Slice)]
        if parts:
            return _in_turn(parts)
        return self._formula(ops)

    def _formula(self, ops: Sequence[Op]) -> Value | None:
        """One operation on the batched operands."""
        first = ops[0]
        if not _is_pointwise_in_batches(first):
            return None
        if any(op.attributes != first.attributes or op.type != first.type for op in ops):
            return None
        operands: list[Value] = []
        for each in zip(*(op.operands for op in ops), strict=True):
            if (found := self.batch(each)) is None:
                return None
            operands.append(found)
        self.products += isinstance(first, Contraction)
        return first.rebuild(operands, **first.batched(self.count))


def _repeated(x: Value, count: int) -> Value:
    """One value along a new first axis."""
    return Broadcast(x, (count, *x.shape), tuple(range(1, x.type.rank + 1)))


def _is_pointwise_in_batches(op: Op) -> bool:
    """Whether an operation says how it is batched, has one result and cannot raise an error."""
    kinds = Contraction | Permute | Reshape | Broadcast | Elementwise | Reduction
    return isinstance(op, kinds) and op.results == (op,) and not op.may_raise


def _in_turn(parts: Sequence[Slice]) -> Value | None:
    """Windows of one array that follow one another along a single axis, along a new first axis."""
    first, second = parts[:2]
    if any(_other_window(p, first) for p in parts):
        return None
    if all(p.starts == first.starts for p in parts):
        return _repeated(first, len(parts))
    axes = [a for a, s in enumerate(first.starts) if second.starts[a] != s]
    if len(axes) != 1 or first.steps[axes[0]] != 1:
        return None
    (axis,) = axes
    size, starts = first.sizes[axis], list(first.starts)
    for part in parts:
        if part.starts != tuple(starts):
            return None
        starts[axis] += size
    whole = _window(first, axis, size * len(parts))
    shape = (*whole.shape[:axis], len(parts), *first.sizes[axis:])
    moved = (axis, *(i for i in range(len(shape)) if i != axis))
    opened = Reshape(whole, shape)
    return Permute(opened, moved) if axis else opened


def _other_window(part: Slice, first: Slice) -> bool:
    """Whether a window is of another array, or of another form, than the first."""
    return (part.x, part.sizes, part.steps) != (first.x, first.sizes, first.steps)


def _window(first: Slice, axis: int, size: Dim) -> Value:
    """The window of all parts; all of an array is the array."""
    sizes = (*first.sizes[:axis], size, *first.sizes[axis + 1 :])
    if sizes == first.x.shape and set(first.steps) == {1}:
        return first.x
    return Slice(first.x, first.starts, sizes, first.steps)
