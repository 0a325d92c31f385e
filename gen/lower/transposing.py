"""Element-wise loops over an operand that lies transposed: in tiles, so that caches hold them.

``x + y.T`` reads y along far strides: each element on a line of cache of its own, which is gone
before its neighbours are wanted in the next row. So a tile of it is copied first, line by line,
into an array that stays in cache, and read there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.index import ceildiv, piece
from dlvm.gen.loops.statements import Local
from dlvm.ir import Dim, Function, Param, Value
from dlvm.ir.dims import product
from dlvm.ir.positions import Index
from dlvm.ops import Elementwise, Permute

from .elements import Pull, Tile

ROWS, COLUMNS = 256, 64
"""Of a tile: many rows of the result, as the operand lies along them and is read far at once."""
CACHED_ELEMENTS = 1 << 13
"""Elements that are in cache whatever the order."""


def turned(body: Function, shape: Index) -> tuple[Permute, ...]:
    """Operands of this shape that lie in memory along another axis than the last, all the same.

    Each is read at the index that is written, as only there its tile is that of the results.
    """
    size = product(shape)
    if not shape or (isinstance(size, int) and size <= CACHED_ELEMENTS):
        return ()
    read = _read_in_place(body)
    found = [
        op
        for op in body.ops
        if isinstance(op, Permute) and isinstance(op.x, Param) and op.shape == shape and op in read
    ]
    axis = next((a for op in found if (a := _along(op)) != len(shape) - 1), None)
    if axis is None or 1 in (shape[axis], shape[-1]):
        return ()
    return tuple(op for op in found if _along(op) == axis)


def _read_in_place(body: Function) -> set[Value]:
    """What the results are made of element by element."""
    found = set(body.results)
    for op in reversed(body.ops):
        if op in found and isinstance(op, Elementwise):
            found.update(op.operands)
    return found


def _along(op: Permute) -> int:
    """The axis of the result along which the operand lies in memory."""
    return op.perm.index(len(op.perm) - 1)


@contextmanager
def tiles(pull: Pull, shape: Index, ops: Sequence[Permute]) -> Generator[Index]:
    """Every index of a shape, tile by tile; what lies transposed is copied to a tile first."""
    nest, axis, last = pull.nest, _along(ops[0]), len(shape) - 1
    index: dict[int, Dim] = {}
    with ExitStack() as stack:
        enter = stack.enter_context
        rows = enter(nest.loop("parallel", ceildiv(shape[axis], ROWS), "rows"))
        for a in (a for a in range(last) if a != axis):
            index[a] = enter(nest.loop("parallel", shape[a]))
        columns = enter(nest.loop("parallel", ceildiv(shape[last], COLUMNS), "columns"))
        corner = ROWS * rows, COLUMNS * columns
        sizes = piece(ROWS, shape[axis], rows), piece(COLUMNS, shape[last], columns)

        def at(row: Dim, column: Dim) -> Index:
            there = {**index, axis: corner[0] + row, last: corner[1] + column}
            return tuple(there[a] for a in range(len(shape)))

        copies: dict[Permute, Local] = {}
        for op in ops:
            local = copies[op] = nest.local("turned", op.dtype, ROWS * COLUMNS)
            with nest.loop("serial", sizes[1]) as c, nest.loop("parallel", sizes[0]) as r:
                nest.store(local, r * COLUMNS + c, pull.element(op, At(at(r, c))))
        here = at(enter(nest.loop("parallel", sizes[0])), enter(nest.loop("parallel", sizes[1])))
        for op, local in copies.items():
            pull.tiles[op] = Tile(local, (axis, -1), corner, COLUMNS, here)
        yield here
    for op in ops:
        del pull.tiles[op]
