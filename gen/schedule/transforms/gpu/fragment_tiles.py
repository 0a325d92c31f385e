"""The same loops where a warp multiplies small matrices by one instruction.

Warps of a block share its tile: each has ``down`` x ``across`` elements, in tiles of the
instruction, of which every lane keeps four. What is summed over lies side by side in the panels,
with a gap between rows, so that the lanes of a warp use different banks of shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from dlvm.gen.loops.statements import WARP, Local, Multiply
from dlvm.ir import BF16, F16, F32, Dim, DType
from dlvm.ir.numerics import FAST, ROUNDING, LawClass
from dlvm.ir.sizes.dims import floordiv, mod

from .block_tiles import BlockTiles

GAP = 16
"""Bytes between the rows of a panel."""
ROWS, COLUMNS = 16, 8


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a warp multiplies at once: 16 rows, 8 columns, ``depth`` products for each element.

    A register of a lane holds ``packed`` neighbouring elements. GPUs have the instruction from the
    compute capability ``since`` (times ten) on, and its sums need the license of a class of laws.
    """

    dtype: DType
    depth: int
    packed: int
    since: int
    law: LawClass


INSTRUCTIONS = {
    "mma.bf16": Instruction(BF16, 16, 2, 80, ROUNDING),
    "mma.f16": Instruction(F16, 16, 2, 80, ROUNDING),
    "mma.tf32": Instruction(F32, 8, 1, 80, FAST),
}


class FragmentTiles(BlockTiles):
    """The loops of one product, whose sums over k have an order of the processor's."""

    chunked: ClassVar[bool] = False

    @property
    def instruction(self) -> Instruction:
        """What a warp multiplies at once."""
        return INSTRUCTIONS[self.numbers.instruction]

    @property
    def element(self) -> DType:
        """Operands stay in their type."""
        return self.instruction.dtype

    @property
    def step(self) -> int:
        """From one row of a panel to the next."""
        return self.numbers.depth + GAP // self.element.bytes

    def panel(self, name: str, width: int) -> Local:
        """A panel, row by row."""
        return self.shared(name, width * self.step)

    def place(self, wide: Dim, deep: Dim, width: int) -> Dim:
        """Where an element of a panel lies."""
        return self.step * wide + deep

    def kept(self) -> Iterator[tuple[Dim, Dim]]:
        """The four elements of a lane in each tile of its warp, of rows g and g + 8."""
        n = self.numbers
        row, col = self.warp
        inside = mod(self.lane, WARP)
        g, t = floordiv(inside, 4), mod(inside, 4)
        for i in range(0, n.down, ROWS):
            for j in range(0, n.across, COLUMNS):
                for q in range(4):
                    yield row + i + g + 8 * (q // 2), col + j + 2 * t + q % 2

    @property
    def warp(self) -> tuple[Dim, Dim]:
        """The first row and column of the elements of a warp."""
        n, number = self.numbers, floordiv(self.lane, WARP)
        wide = n.columns // n.across
        return n.down * floordiv(number, wide), n.across * mod(number, wide)

    def multiplied(self, total: Local, depth: Dim) -> None:
        """Whole panels, which hold zeros behind the last k."""
        n, (row, col) = self.numbers, self.warp
        for k in range(0, n.depth, self.instruction.depth):
            at = 0
            for i in range(0, n.down, ROWS):
                x = self.place(row + i, k, n.rows)
                for j in range(0, n.across, COLUMNS):
                    y = self.place(col + j, k, n.columns)
                    operands = (self.x, x, self.step, self.y, y, self.step)
                    self.nest.put(Multiply(n.instruction, *operands, total, at))
                    at += 4
