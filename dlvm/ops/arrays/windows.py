"""Laws of windows: into zeros, of all of an array, and of what was joined, padded or replaced."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.ir import Dim, Value, rewrite, zeros
from dlvm.ir.numerics import ROUNDING
from dlvm.ir.sizes.dims import at_least
from dlvm.ops.elements.elementwise import Add
from dlvm.ops.families import Contraction, Elementwise, Movement
from dlvm.ops.literals import is_splat

from .movement import Broadcast
from .sections import Concat, Pad, Slice, Update


def _around(y: Value, op: Update) -> Value | None:
    """The window with zeros around it, where nothing is left out between its elements."""
    ends = zip(op.x.shape, op.starts, op.y.shape, strict=True)
    high = tuple(size - start - count for size, start, count in ends)
    straight = set(op.steps) <= {1} and all(at_least(n, 0) for n in (*op.starts, *high))
    return Pad(y, op.starts, high) if straight else None


@rewrite(
    Update,
    example=lambda x, y: Update(zeros(x.type), y, (1, 0), (1, 1)),
    given=("n[5,6]", "n[3,2]"),
)
def update_of_zeros(op: Update) -> Value | None:
    """A window of zeros that is written is what is written, padded: a kernel may compute that."""
    return _around(op.y, op) if is_splat(op.x, 0) else None


@rewrite(
    Update,
    example=lambda x: Update(x, Slice(x, (1, 0), (2, 3), (1, 2)), (1, 0), (1, 2)),
    given=("n[5,6]",),
)
def update_by_its_slice(op: Update) -> Value | None:
    """A window that is written with what it holds already changes nothing."""
    match op:
        case Update(x, Slice(y, starts, _, steps)) if x is y:
            return x if (starts, steps) == (op.starts, op.steps) else None
        case _:
            return None


PIECES = 64
"""Windows of one array that are joined."""
Placed = tuple[tuple[Dim, ...], Value]
"""Where a window starts, and what it holds."""


@rewrite(
    Update,
    example=(
        lambda x, y: _added(_added(Pad(x, (0, 2), (0, 1)), x, (0, 0)), Slice(x, *_FIRST), (0, 4)),
        lambda x, y: Update(Pad(x, (2, 0), (0, 0)), x, (0, 0), (1, 1)),
        lambda x, y: Update(Update(y, x, (2, 0), (1, 1)), x, (0, 0), (1, 1)),
    ),
    given=("n[2,2]", "n[4,2]"),
    law_class=ROUNDING,
    keeps=False,
)
def windows_of_everything(op: Update) -> Value | None:
    """Windows that are written, or added to zeros, one by one until all is written, are joined.

    Products are written one by one, so that none waits in memory for the others.
    """
    found = joined_windows(op)
    return None if found is None or any(map(_is_of_product, found.xs)) else found


def joined_windows(op: Update) -> Concat | None:
    """All that an update and those before it write, if together they write everything."""
    placed = _placed(op)
    axes = [a for a in range(op.type.rank) if any(starts[a] != 0 for starts, _ in placed)]
    if len(axes) != 1 or not all(isinstance(starts[axes[0]], int) for starts, _ in placed):
        return None
    (axis,) = axes
    placed.sort(key=lambda p: int(str(p[0][axis])))
    end: Dim = 0
    for starts, y in placed:
        others = zip(y.shape, op.shape, strict=True)
        if starts[axis] != end or any(m != n for a, (m, n) in enumerate(others) if a != axis):
            return None
        end = end + y.shape[axis]
    return Concat(tuple(y for _, y in placed), axis) if end == op.shape[axis] else None


def _is_of_product(value: Value, deep: int = 6) -> bool:
    """Whether a value is an element-wise formula of a product, or a part of one."""
    if isinstance(value, Elementwise | Movement) and deep:
        return any(_is_of_product(x, deep - 1) for x in value.operands)
    return isinstance(value, Contraction)


_FIRST = (0, 0), (2, 1), (1, 1)


def _added(x: Value, y: Value, starts: tuple[int, int]) -> Value:
    """For the example: a window with something added to it, as a derivative writes it."""
    return Update(x, Add(Slice(x, starts, y.shape, (1, 1)), y), starts, (1, 1))


def _placed(op: Update) -> list[Placed]:
    """The windows that an update and those before it write, last first; none if one is unknown."""
    placed: list[Placed] = []
    value: Value = op
    adds = False
    while isinstance(value, Update) and len(placed) < PIECES:
        y = value.y
        if isinstance(y, Add) and (more := _beside_own_window(value, y)) is not None:
            y, adds = more, True
        if set(value.steps) - {1}:
            return []
        placed.append((value.starts, y))
        value = value.x
    if isinstance(value, Pad):
        placed.append((value.low, value.x))
    return placed if isinstance(value, Pad) or not adds else []


def _beside_own_window(op: Update, y: Add) -> Value | None:
    """What an update adds to what its window held."""
    for held, more in (y.operands, y.operands[::-1]):
        if isinstance(held, Slice) and held.x is op.x:
            window = (held.starts, held.sizes, held.steps)
            return more if window == (op.starts, y.shape, op.steps) else None
    return None


# -- windows of what was joined, padded, replaced or repeated -------------------------------------


def _slice(x: Value, starts: Any, sizes: Any, steps: Any) -> Value | None:
    """A window if it provably lies inside: a law that can't prove that does not fire."""
    try:
        return Slice(x, tuple(starts), tuple(sizes), tuple(steps))
    except ShapeError:
        return None


@rewrite(
    Slice,
    example=lambda x: Slice(Slice(x, (9, 1), (4, 3), (-2, 1)), (3, 0), (2, 2), (-1, 2)),
    given=("n[10,6]",),
)
def slice_twice(op: Slice) -> Value | None:
    """x[a::s][b::t] = x[a + b*s :: s*t]; reversed twice is in order again."""
    match op:
        case Slice(Slice(x, starts, _, steps), more, sizes, again):
            first = [a + b * s for a, b, s in zip(starts, more, steps, strict=True)]
            return _slice(x, first, sizes, [s * t for s, t in zip(steps, again, strict=True)])
        case _:
            return None


@rewrite(
    Slice,
    example=lambda x: Slice(Pad(x, (1, 0), (0, 2)), (2, 0), (2, 2), (1, 2)),
    given=("n[4,3]",),
)
def slice_inside_padding(op: Slice) -> Value | None:
    """A window that does not touch the padding is a window of the operand."""
    match op:
        case Slice(Pad(x, low, _), starts, sizes, steps):
            inner = [a - b for a, b in zip(starts, low, strict=True)]
            return _slice(x, inner, sizes, steps)
        case _:
            return None


@rewrite(
    Slice,
    example=lambda x, y: Slice(Update(x, y, (1, 0), (1, 2)), (1, 0), y.shape, (1, 2)),
    given=("n[5,6]", "n[3,2]"),
)
def slice_of_its_update(op: Slice) -> Value | None:
    """The window that was just written holds what was written."""
    match op:
        case Slice(Update(_, y, placed, each), starts, sizes, steps):
            return y if (placed, y.shape, each) == (starts, sizes, steps) else None
        case _:
            return None


@rewrite(
    Slice,
    example=lambda x, y: Slice(Concat((x, y, x), 1), (0, 4), (2, 2), (1, -1)),
    given=("n[2,3]", "n[2,4]"),
)
def slice_of_one_piece(op: Slice) -> Value | None:
    """A window that lies in one of the tensors that are joined is a window of that one."""
    if not isinstance(op.x, Concat):
        return None
    axis, offset = op.x.axis, 0
    for x in op.x.xs:
        starts = list(op.starts)
        starts[axis] = starts[axis] - offset
        if (found := _slice(x, starts, op.sizes, op.steps)) is not None:
            return found
        offset = offset + x.shape[axis]
    return None


@rewrite(
    Slice,
    example=lambda x: Slice(Broadcast(x, (5, 4, 3), (0, 2)), (1, 0, 2), (2, 3, 2), (1, 1, -1)),
    given=("n[5,3]",),
)
def slice_of_broadcast(op: Slice) -> Value | None:
    """Only windows of the axes that were there before have to be cut out."""
    match op:
        case Slice(Broadcast(x, _, axes), starts, sizes, steps):
            first, count = (tuple(row[a] for a in axes) for row in (starts, sizes))
            return Broadcast(Slice(x, first, count, tuple(steps[a] for a in axes)), sizes, axes)
        case _:
            return None
