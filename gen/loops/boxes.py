"""A frame cut into boxes, in each of which it is known which piece of what was joined is read.

Where tensors are joined, padded or partly replaced, an element of the result would ask for each
piece whether it lies there, in every vector. The positions where that changes cut the frame;
inside a box what is asked is known, and the box of a copy is a copy. An axis is cut after those
before it, and only where pieces begin that the box so far has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise

from dlvm.cost import typical
from dlvm.ir import Dim, Function, Op, Value
from dlvm.ir.dims import at_least
from dlvm.ops import (
    Broadcast,
    Concat,
    Constant,
    Elementwise,
    Pad,
    Permute,
    Reshape,
    Slice,
    Update,
)

from .index import Index

BOXES, OPERATIONS = 9, 128
"""How many boxes there may be, and how many operations in all of them together."""
SHORT = 64
"""Rows that are shorter are worth being joined, whatever it takes to see that they can be."""
STRAIGHT = Elementwise | Constant | Slice | Concat | Pad | Update
"""Operations that leave alone what lies beside what."""

Span = tuple[Dim, Dim]
"""Where a box starts along an axis, and its size."""


def boxes(values: Sequence[Value], shape: Index, operations: int) -> list[tuple[Span, ...]]:
    """The boxes of a shape in which values are computed element by element.

    Where there would be too many, the largest of them is cut out, and the rest stays around it.
    """
    whole = tuple((0, size) for size in shape)
    if not shape or not any(_joined(values)):
        return [whole]
    most = min(BOXES, OPERATIONS // max(operations, 1))
    for core in (False, True):
        found = list(islice(_cut(values, shape, (), core), most + 1))
        if len(found) <= most:
            return found
    return [whole]


def joinable(body: Function, box: Sequence[Span], shape: Index) -> Iterator[int]:
    """Axes from which on all of a box may lie at one distance, the first such axis first.

    With what is spread or turned around in the body that is tried where rows are short.
    """
    count = max((a + 1 for a, (_, size) in enumerate(box) if size != 1), default=0)
    short = count > 0 and isinstance(size := box[count - 1][1], int) and size < SHORT
    straight = all(isinstance(op, STRAIGHT) or _is_spread_number(op) for op in body.ops)
    moves = all(isinstance(op, STRAIGHT | Broadcast | Permute | Reshape) for op in body.ops)
    for first in range(count - 1):
        whole = all(box[a] == (0, shape[a]) for a in range(first + 1, count))
        if whole and ((straight and first == 0) or (moves and short)):
            yield first


def _is_spread_number(op: Op) -> bool:
    return isinstance(op, Broadcast) and op.x.shape == ()


def _joined(values: Sequence[Value]) -> Iterator[bool]:
    """For each piece of what the values are made of element by element, whether it is one."""
    seen: set[Value] = set()
    waiting = list(values)
    while waiting:
        if (value := waiting.pop()) not in seen:
            seen.add(value)
            yield isinstance(value, Concat | Pad | Update)
            waiting += value.operands if isinstance(value, Elementwise | Slice) else ()


def _cut(
    values: Sequence[Value], shape: Index, box: tuple[Span, ...], core: bool
) -> Iterator[tuple[Span, ...]]:
    """The boxes in a box; where only the ``core`` is wanted, what is around it stays whole."""
    axis = len(box)
    if axis == len(shape):
        yield box
        return
    walk = _Walk(axis, box)
    for value in values:
        walk.visit(value, (0,) * len(shape))
    ends = _in_order(walk.cuts, shape[axis])
    most = max(pairwise(ends), key=lambda pair: typical(pair[1] - pair[0]))
    if core:
        ends = list(dict.fromkeys((0, *most, shape[axis])))
    for start, stop in pairwise(ends):
        inner = (*box, (start, stop - start))
        if core and (start, stop) != most:
            yield (*inner, *((0, size) for size in shape[axis + 1 :]))
        else:
            yield from _cut(values, shape, inner, core)


def _in_order(cuts: Sequence[Dim], size: Dim) -> list[Dim]:
    """The cuts that lie inside, between the ends; none where their order is not known."""
    found: list[Dim] = [0, size]
    for cut in dict.fromkeys(cuts):
        if at_least(0, cut) or at_least(cut, size):
            continue
        place = next((i for i, end in enumerate(found) if at_least(end, cut)), 0)
        if place == 0 or not at_least(cut, found[place - 1]):
            return [0, size]
        if cut != found[place]:
            found.insert(place, cut)
    return found


@dataclass(slots=True)
class _Walk:
    """Where along an axis pieces begin or end, in a box that is known along the axes before it."""

    axis: int
    box: tuple[Span, ...]
    cuts: list[Dim] = field(default_factory=list[Dim])
    seen: set[tuple[Value, Index]] = field(default_factory=set[tuple[Value, Index]])

    def visit(self, value: Value, shift: Index) -> None:
        """A value whose index is that of the frame and a shift."""
        if (value, shift) in self.seen or self._elsewhere(value.shape, shift):
            return
        self.seen.add((value, shift))
        match value:
            case Elementwise():
                for x in value.operands:
                    self.visit(x, shift)
            case Slice(x, starts, _, steps) if set(steps) <= {1}:
                self.visit(x, _moved(shift, starts, 1))
            case Concat(xs, axis):
                start: Dim = 0
                for x in xs:
                    starts = tuple(start if a == axis else 0 for a in range(len(shift)))
                    self._piece(x, _moved(shift, starts, -1))
                    start = start + x.shape[axis]
            case Pad(x, low):
                self._piece(x, _moved(shift, low, -1))
            case Update(x, y, starts, steps) if set(steps) <= {1}:
                self._piece(y, _moved(shift, starts, -1))
                self.visit(x, shift)
            case _:
                pass

    def _piece(self, x: Value, shift: Index) -> None:
        """A part of a value, which begins where its own index is 0."""
        if not self._elsewhere(x.shape, shift):
            begin = -1 * shift[self.axis]
            self.cuts += (begin, begin + x.shape[self.axis])
            self.visit(x, shift)

    def _elsewhere(self, shape: Index, shift: Index) -> bool:
        """Whether a value has no element in the box."""
        spans = zip(self.box, shift, shape, strict=False)
        return any(
            at_least(start + by, size) or at_least(-1 * (start + count + by), 0)
            for (start, count), by, size in spans
        )


def _moved(shift: Index, by: Index, sign: int) -> Index:
    return tuple(s + sign * b for s, b in zip(shift, by, strict=True))
