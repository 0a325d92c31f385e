"""The transform ``tiles``: a product as the blocks of a GPU, each of which sums one tile of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.statements import WARP, Bind, Body, Define, Let, Loop, Product, Statement
from dlvm.gen.schedule.transform import WHOLE, Transform, register

from .block_tiles import BlockTiles
from .fragment_tiles import COLUMNS, INSTRUCTIONS, ROWS, FragmentTiles

MOST_LANES = 1024
"""Threads of a block, at most."""


@register
@dataclass(frozen=True, slots=True)
class Tiles(Transform):
    """A block sums ``rows`` x ``columns`` elements, of which each lane keeps ``down`` x ``across``.

    The block copies ``depth`` columns of the left operand and as many rows of the right one to
    shared memory at a time, or computes them there. Each element is a chain over each
    chunk of k, and these are added.
    """

    word: ClassVar[str] = "tiles"
    rows: int
    columns: int
    depth: int
    down: int
    across: int
    instruction: str = "fma"

    @property
    def lanes(self) -> int:
        """The lanes of a block; a warp has ``down`` x ``across`` elements by an instruction."""
        parts = (self.rows // self.down) * (self.columns // self.across)
        return parts if self.instruction == "fma" else WARP * parts

    def rewritten(self, loop: Loop) -> Body:
        """The loop, or the whole kernel, as one loop over blocks."""
        whole = loop.var == WHOLE
        scalars, chain, found = product_of(loop.body if whole else (loop,))
        if found is None:
            raise self.refused("there is more than one product")
        self._check()
        work = BlockTiles if self.instruction == "fma" else FragmentTiles
        made = (*scalars, work(self, found).blocks(chain))
        return (replace(loop, body=made),) if whole else made

    def _check(self) -> None:
        """Refuses numbers that are no tiles, or no tiles of the instruction."""
        if min(self.rows, self.columns, self.depth, self.down, self.across) < 1:
            raise self.refused("each number is 1 or more")
        if self.rows % self.down or self.columns % self.across:
            raise self.refused("the elements of a lane do not divide those of a block")
        if self.lanes > MOST_LANES:
            raise self.refused(f"a block has {MOST_LANES} lanes at most, not {self.lanes}")
        if self.instruction == "fma":
            return
        how = INSTRUCTIONS.get(self.instruction)
        if how is None:
            known = ", ".join(("fma", *INSTRUCTIONS))
            raise self.refused(f"the instruction is one of {known}, not {self.instruction}")
        if self.down % ROWS or self.across % COLUMNS or self.depth % how.depth:
            tile = f"{ROWS} rows, {COLUMNS} columns and {how.depth} of k"
            raise self.refused(f"a warp multiplies {tile} at once, which must divide its tile")


def product_of(body: Body) -> tuple[list[Statement], list[Loop], Product | None]:
    """The scalars of a kernel, the loops over its products, and the one product inside of them."""
    scalars: list[Statement] = [s for s in body if isinstance(s, Let | Define | Bind)]
    rest = [s for s in body if s not in scalars]
    chain: list[Loop] = []
    while len(rest) == 1 and isinstance(rest[0], Loop) and rest[0].kind == "parallel":
        chain.append(rest[0])
        rest = list(rest[0].body)
    found = rest[0] if len(rest) == 1 and isinstance(rest[0], Product) else None
    return scalars, chain, found
