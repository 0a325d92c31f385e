"""Where the planner makes tiles: of operands that lie across the others, and of sums.

``x + y.T`` reads y along far strides: each element on a line of cache of its own, which is gone
before its neighbours are wanted in the next row. So a tile of it is copied first, line by line,
into an array that stays in cache, and read there.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.instructions import TURN, turn_of
from dlvm.gen.loops.statements import (
    Buffer,
    Let,
    Load,
    Loop,
    LoopKernel,
    Store,
    accesses,
    statements,
)
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import product

from .transform import Transform
from .transforms.fuse import nested
from .transforms.interchange import Interchange
from .transforms.registers import Registers
from .transforms.simplify import Simplify
from .transforms.split import Split
from .transforms.stage import Stage
from .transforms.use import Use

ROWS, COLUMNS = 256, 64
"""Of a tile: many rows of the result, as the operand lies along them and is read far at once."""
SUMS = 4, 2
"""Rows whose sums are held together, where they are so many or a multiple.

A product of 4 x 64 x 48 takes 0.75 of the time with four of them.
"""
CACHED_ELEMENTS = 1 << 13
"""Elements that are in cache whatever the order."""


def tiles(kernel: LoopKernel) -> Iterator[Transform]:
    """The steps for each nest of element-wise loops, some of whose operands lie across it."""
    for s in kernel.body:
        if isinstance(s, Loop) and s.kind == "parallel":
            chain = nested(s)
            size = product(tuple(t.extent for t in chain))
            if not (isinstance(size, int) and size <= CACHED_ELEMENTS) and _is_plain(chain):
                yield from _tiles(chain)


def turns(kernel: LoopKernel) -> Iterator[Use]:
    """Copies that transpose a tile, which vectors do in registers."""
    for s in statements(kernel.body):
        if isinstance(s, Loop) and turn_of(s) is not None:
            yield Use(s.var, TURN)


def sums(kernel: LoopKernel) -> Iterator[Registers]:
    """Some rows at once that are folded with what all of them read, as in a small product."""
    for rows in (s for s in kernel.body if isinstance(s, Loop) and s.kind == "parallel"):
        *around, last = nested(rows)
        folds = [s for s in last.body if isinstance(s, Loop)]
        step = Registers(rows.var, _among(rows.extent) if around else 0)
        if len(folds) == 1 and not step.against(rows) and _is_shared(folds[0], rows, last):
            yield step


def _among(extent: Dim) -> int:
    return next((n for n in SUMS if isinstance(extent, int) and extent % n == 0), 0)


def _is_shared(fold: Loop, rows: Loop, along: Loop) -> bool:
    """Whether a fold reads a line along one loop that is the same in all turns of the other."""
    plain = fold.kind == "serial" and all(isinstance(s, Let | Store) for s in fold.body)
    loads = [x for x in accesses(fold.body) if isinstance(x, Load) and isinstance(x.memory, Buffer)]
    steps = [(step_of(x.offset, rows.var), step_of(x.offset, along.var)) for x in loads]
    return plain and len(loads) > 1 and (0, 1) in steps


def _is_plain(chain: list[Loop]) -> bool:
    return all(isinstance(s, Let | Store) for s in chain[-1].body)


def _tiles(chain: list[Loop]) -> Iterator[Transform]:
    """Tiles along the axis that the first operand lies along, and the last."""
    found = list(_lying_across(chain))
    if not found:
        return
    last, (row, _) = chain[-1].var, found[0]
    yield from (Split(row.var, ROWS), Split(last, COLUMNS))
    for _ in range(len(chain) - chain.index(row) - 1):
        yield Interchange(f"{row.var}.i")
    for name in dict.fromkeys(x.memory.name for at, x in found if at is row):
        yield Stage(f"{last}.o", name)
    one = (s for s, most in ((row, ROWS), (chain[-1], COLUMNS)) if _are_few(s, most))
    for s in one:
        yield Simplify(f"{s.var}.o")  # which has one turn, as may have the other inside of it
        return


def _are_few(loop: Loop, most: int) -> bool:
    return isinstance(loop.extent, int) and loop.extent <= most


def _lying_across(chain: list[Loop]) -> Iterator[tuple[Loop, Load]]:
    """What is read along another loop than the last, at another place in each turn of all."""
    for s in chain[-1].body:
        x = s.scalar if isinstance(s, Let) else None
        if isinstance(x, Load) and isinstance(x.memory, Buffer) and not x.where:
            steps = [step_of(x.offset, t.var) for t in chain]
            whole = x.memory.role == "in" and not any(step in (0, None) for step in steps)
            if whole and steps[-1] not in (1, -1) and 1 in steps:
                yield chain[steps.index(1)], x
