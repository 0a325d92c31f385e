"""The transform ``transpose``: tiles of a matrix that is read across go through shared memory.

A kernel that writes rows and reads columns would touch memory at one element in each line. A block
reads a tile along the lines of its source, and writes it along those of its target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.index import border, ceildiv, step_of
from dlvm.gen.loops.rewriting import Rewriting, renamed
from dlvm.gen.loops.statements import (
    Barrier,
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    Scalar,
    Statement,
    Store,
)
from dlvm.gen.schedule.transform import Transform, register
from dlvm.gen.schedule.transforms.fuse import nested
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv, mod, product, substitute, symbol
from dlvm.ir.sizes.positions import split

SIDE, ROWS = 32, 8
"""The side of a tile, and how many of its rows the lanes of a block take at once."""
GAP = SIDE + 1
"""Elements from one row of a tile to the next, so that columns lie in different banks."""


@register
@dataclass(frozen=True, slots=True)
class Transpose(Transform):
    """The outermost of loops whose innermost two have a block for each tile of 32 x 32 elements."""

    word: ClassVar[str] = "transpose"

    def rewritten(self, loop: Loop) -> Body:
        """A loop over blocks."""
        chain = nested(loop)
        if len(chain) < 2 or not (loads := transposed_loads(chain)):
            raise self.refused("no element is read across in the innermost two loops")
        *before, down, across = chain
        between = [t for s in chain[:-1] for t in s.body[:-1]]  # scalars, which each lane computes
        across = replace(across, body=(*between, *across.body))
        grid = (
            *(s.extent for s in before),
            ceildiv(down.extent, SIDE),
            ceildiv(across.extent, SIDE),
        )
        name = f"{loop.var}.b"
        *index, row, col = split(symbol(name), grid)
        outer = [Define(s.var, at, s.extent - 1) for s, at in zip(before, index, strict=True)]
        tiles = [
            Local(f"{loop.var[1:]}.tile{q}", x.dtype, SIDE * GAP, shared=True)
            for q, x in enumerate(loads)
        ]
        work = _Tile(down, across, SIDE * row, SIDE * col, f"{loop.var}.lane")
        body = (*work.read(loads, tiles), Barrier(), *work.written(loads, tiles))
        lanes = Loop(work.name, SIDE * ROWS, "lane", body)
        return (Loop(name, product(grid), "block", (*outer, *tiles, lanes)),)


def transposed_loads(chain: list[Loop]) -> list[Load]:
    """What is read along the last loop but one, and across the last, where nothing else is done."""
    *_, down, across = chain
    if not all(isinstance(s, Let | Store) for s in across.body):
        return []
    scalars = [s.scalar for s in across.body if isinstance(s, Let)]
    return [x for x in scalars if isinstance(x, Load) and _across(x, down.var, across.var)]


def _across(x: Load, down: str, across: str) -> bool:
    near, far = step_of(x.offset, down), step_of(x.offset, across)
    return isinstance(x.memory, Buffer) and not x.where and near == 1 and far not in (None, 0, 1)


@dataclass(frozen=True, slots=True)
class _Tile:
    """The statements of a lane in a tile that starts at a row and a column."""

    down: Loop
    across: Loop
    row: Dim
    col: Dim
    name: str

    def spots(self, transposed: bool) -> list[tuple[Dim, Dim, str]]:
        """The elements of a lane: neighbours of the lane lie beside them, down or across."""
        lane = symbol(self.name)
        y, x = floordiv(lane, SIDE), mod(lane, SIDE)
        places = [(y + r, x) for r in range(0, SIDE, ROWS)]
        return [
            (x, y, f".{n}") if transposed else (y, x, f".w{n}") for n, (y, x) in enumerate(places)
        ]

    def values(self, down: Dim, across: Dim) -> tuple[Mapping[str, Dim], tuple[Dim, ...]]:
        """What the indices are, and where they are inside."""
        i, j = self.row + down, self.col + across
        return (
            {self.down.var: i, self.across.var: j},
            (*border(self.down.extent, SIDE, i), *border(self.across.extent, SIDE, j)),
        )

    def read(self, loads: list[Load], tiles: list[Local]) -> list[Statement]:
        """The tile, along the lines of the source."""
        done: list[Statement] = []
        for down, across, _ in self.spots(transposed=True):
            values, where = self.values(down, across)
            for x, tile in zip(loads, tiles, strict=True):
                found = replace(x, offset=substitute(x.offset, values), where=where)
                done += [Let(found), Store(tile, GAP * across + down, found)]
        return done

    def written(self, loads: list[Load], tiles: list[Local]) -> list[Statement]:
        """What is computed of it, along the lines of the target."""
        i, j = symbol(self.down.var) - self.row, symbol(self.across.var) - self.col
        names: dict[Scalar, Scalar] = {
            x: Load(x.dtype, tile, GAP * j + i) for x, tile in zip(loads, tiles, strict=True)
        }
        body = renamed(self.across.body, names)
        done: list[Statement] = []
        for down, across, suffix in self.spots(transposed=False):
            values, where = self.values(down, across)
            done += Rewriting(values, where, suffix).body(body)
        return done
