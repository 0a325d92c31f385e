"""Elements that don't lie on one line, computed row by row into arrays before they are folded.

Where operands of a fold over several axes are broadcast, turned or cut, each element asks by a
division where it lies. A loop of its own for each row of a piece asks once; what it gives lies on
one line, as the tree of a fold takes it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.frames import lines
from dlvm.gen.loops.index import ceildiv, piece
from dlvm.ir import Dim, Value
from dlvm.ir.sizes.dims import at_least, floordiv, maximum, minimum, product
from dlvm.ir.sizes.positions import Index, split

if TYPE_CHECKING:
    from .elements import Pull

FILLED, OPERANDS = 1 << 13, 2
"""The most bytes that are computed before they are folded, and the most operands of a fold."""
STAGED_ELEMENTS = FILLED // 8
"""Elements up to which a fold over several axes of open length is one piece, of any type."""
WIDE, ROWS = 16, 32
"""Rows so wide are worth a loop of their own; half as wide, if there are so many and to divide by
their width is no shift; and those of open length, as divisions by that take longer than loops."""


@dataclass(frozen=True, slots=True)
class Along:
    """What is folded: a shape, the axes along which, and the index along the others."""

    shape: Index
    axes: tuple[int, ...]
    at: At

    @property
    def sizes(self) -> Index:
        """The sizes along the axes."""
        return tuple(self.shape[a] for a in self.axes)

    @property
    def beside(self) -> int:
        """How many of the axes, counted from the last, follow one another."""
        last = self.axes[-1]
        return next((n for n, a in enumerate(reversed(self.axes)) if a != last - n), len(self.axes))

    def place(self, reduced: Index) -> At:
        """The index of an operand, from one along the axes."""
        inner, outer = iter(reduced), iter(self.at.index)
        both = (next(inner if a in self.axes else outer) for a in range(len(self.shape)))
        return At(tuple(both), self.at.where)


def scattered(along: Along, operands: Sequence[Value]) -> Index:
    """The last sizes, a row of which is better computed before it is folded, if there are.

    That is so where operands don't lie on one line, so that each element would ask where it
    lies, and rows may be long enough for a loop of their own.
    """
    if len(along.sizes) < 2 or len(operands) > OPERANDS:
        return ()
    row = along.sizes[-max(1, min(along.beside, *map(lines, operands))) :]
    width, extent = product(row), product(along.sizes)
    many = not isinstance(extent, int) or (isinstance(width, int) and extent >= ROWS * width)
    odd = isinstance(width, int) and width & (width - 1) != 0 and 2 * width >= WIDE and many
    long = odd or not isinstance(width, int) or width >= WIDE
    return row if long and len(row) < len(along.sizes) else ()


class Pieces:
    """A chunk in pieces that fit into arrays, one for each operand."""

    def __init__(
        self, pull: Pull, along: Along, row: Index, operands: Sequence[Value], chunk: int
    ) -> None:
        self.pull, self.nest = pull, pull.nest
        self.along, self.row = along, row
        self.size = min(chunk, *(FILLED // x.dtype.bytes for x in operands))
        self.arrays = {x: self.nest.local("piece", x.dtype, self.size) for x in operands}

    @contextmanager
    def each(self, first: Dim, length: Dim, short: bool) -> Generator[tuple[Dim, Dim]]:
        """A loop over the pieces of a chunk, filled: where each begins, and how long it is.

        One that is short is one piece, whatever is known of its length.
        """
        if short or at_least(self.size, length):
            self._fill(first, length)
            yield first, minimum(length, self.size)
            return
        with self.nest.loop("serial", ceildiv(length, self.size), "piece") as p:
            begin, count = first + p * self.size, piece(self.size, length, p)
            self._fill(begin, count)
            yield begin, count

    def _fill(self, first: Dim, length: Dim) -> None:
        """Elements of a chunk, row by row, into arrays in which they lie on one line.

        The first and the last row may be cut; only these ask where.
        """
        sizes, row, size = self.along.sizes, self.row, self.size
        above, width = sizes[: -len(row)], product(row)
        top, bottom = (floordiv(x, width) for x in (first, first + length))
        head, tail = minimum(1, first - top * width), minimum(1, first + length - bottom * width)
        most, rest = product(above) - 1, bottom + tail - top - 1

        def place(r: Dim, low: Dim, to: Dim, here: Dim, counts: Dim | None) -> None:
            with self.nest.loop("parallel", here, counts=counts) as j:
                at = self.along.place((*split(r, above), *split(low + j, row)))
                for x, local in self.arrays.items():
                    self.nest.store(local, to + j, self.pull.element(x, at))

        ends = minimum(head + tail, rest + 1)
        with self.nest.loop("serial", ends, "end", counts=1) as e:
            r = self.nest.named("r", top + minimum((e + 1 - head) * length, rest), most)
            low = self.nest.named("low", maximum(0, first - r * width), width - 1)
            to = self.nest.named("to", r * width + low - first, size - 1)
            place(r, low, to, minimum(width - low, length - to), length)
        if not at_least(width, size + 1):
            counts = None if ends == 0 else 0  # the others are counted with those
            with self.nest.loop(
                "serial", maximum(0, bottom - top - head), "row", counts=counts
            ) as q:
                r = self.nest.named("r", top + head + q, most)
                place(r, 0, self.nest.named("to", r * width - first, size - width), width, None)
