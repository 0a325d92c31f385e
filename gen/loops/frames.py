"""The shape of a kernel's loops: its frame, the axes along which it reduces, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.ir import Function, Op, Param, Value
from dlvm.ir.sizes.dims import product
from dlvm.ir.sizes.positions import Index
from dlvm.ir.types import last_longer
from dlvm.ops import Broadcast, Constant, Elementwise, Reduction


@dataclass(frozen=True, slots=True)
class Frame:
    """A shape, the axes over which all reductions go, and those that are left."""

    shape: Index
    axes: tuple[int, ...]

    @property
    def rows(self) -> tuple[int, ...]:
        """The axes that are not reduced."""
        return tuple(a for a in range(len(self.shape)) if a not in self.axes)

    def sizes(self, axes: Sequence[int]) -> Index:
        """The sizes along some axes."""
        return tuple(self.shape[a] for a in axes)

    @property
    def last(self) -> int | None:
        """The axis along which elements lie beside one another."""
        return last_longer(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether the elements of a row lie beside one another."""
        return self.last is None or self.last in self.axes

    def index(self, row: Index, inner: Index) -> Index:
        """The index in the whole shape."""
        rows, inners = iter(row), iter(inner)
        return tuple(next(inners if a in self.axes else rows) for a in range(len(self.shape)))


def frame_of(body: Function) -> Frame | None:
    """The frame that all reductions and results share, where there is one."""
    folds = [op for op in body.ops if isinstance(op, Reduction)]
    if not folds:
        return None
    frame = Frame(folds[0].operands[0].shape, folds[0].axes)
    same = all(f.operands[0].shape == frame.shape and f.axes == frame.axes for f in folds)
    shapes = (frame.shape, frame.sizes(frame.rows))
    return frame if same and all(r.shape in shapes for r in body.results) else None


def levels_of(body: Function) -> list[list[Reduction]]:
    """Reductions that don't need one another share a level; each level needs those before."""
    depth: dict[Value, int] = {}
    levels: list[list[Reduction]] = []
    for op in body.ops:
        level = max((depth[v] for v in op.operands if v in depth), default=0)
        if isinstance(op, Reduction):
            if level == len(levels):
                levels.append([])
            levels[level].append(op)
            level += 1
        depth.update((r, level) for r in op.results)
    return levels


def folds(level: Sequence[Reduction], value: Value) -> bool:
    """Whether one of these reductions folds a value."""
    return any(value in op.operands for op in level)


def only_position(body: Function, shape: Index) -> bool:
    """Whether every value is a scalar or is used only at the position of the result."""
    if any(p.shape not in ((), shape) for p in body.params):
        return False
    return all(
        isinstance(op, Elementwise)
        or all(r.shape == () for r in op.results)
        or (isinstance(op, Broadcast) and op.x.shape == ())
        for op in body.ops
    )


def on_one_line(value: Value) -> bool:
    """Whether each element is made of what lies at its own position, counted row by row."""
    return lines(value) == len(value.shape)


def lines(value: Value) -> int:
    """Along how many of its last axes an element is made of what lies at its own position.

    Positions count row by row within those axes; what is the same all along has one place.
    """
    count = len(value.shape)
    seen: set[tuple[Value, bool]] = set()
    waiting = [(value, False)]
    while waiting:
        x, whole = waiting.pop()  # behind a reshape the whole of a value has to be one line
        if (x, whole) in seen or product(x.shape) == 1:
            continue
        if isinstance(x, Param | Constant | Reduction):
            continue
        seen.add((x, whole))
        if isinstance(x, Op) and (isinstance(x, Elementwise) or x.alias):
            waiting += [(v, whole or x.alias) for v in x.operands]
        elif isinstance(x, Broadcast) and not (whole and product(x.x.shape) != 1):
            same = _repeated(x)
            count = min(count, same or _last(len(x.shape), x.axes))
            waiting += [] if same else [(x.x, whole)]
        else:
            return 0
    return count


def _repeated(x: Broadcast) -> int:
    """Along how many of the last axes there is one element."""
    rank = len(x.shape)
    if product(x.x.shape) == 1:
        return rank
    return _last(rank, [a for a in range(rank) if a not in x.axes])


def _last(rank: int, axes: Sequence[int]) -> int:
    """How many of the last axes are among some."""
    return next((n for n in range(rank) if rank - 1 - n not in axes), rank)
