"""Asking for the next row of an operand while the last one is read again.

A kernel that reads each row several times (its largest element, then the sum of exponentials)
waits for memory in the first pass and not in the others. So the second pass asks for the row after
it, line by line: no result depends on it, and an address that is not there does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dlvm.gen.loops.statements import Buffer, Load
from dlvm.gen.text.sizes import Offsets
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import substitute, symbol, symbols

LINE = 64
"""Bytes that one request brings near."""
FAR = 4
"""Lines of a row from which on it is worth asking for."""


@dataclass(slots=True)
class Ahead:
    """The loop over rows by its variable, and the first passes over each row that were met."""

    row: str
    depth: int
    passes: dict[tuple[str, Dim], list[Dim]] = field(
        default_factory=dict[tuple[str, Dim], list[Dim]]
    )

    def next(self, offsets: Offsets, s: Load, offset: Dim) -> Dim | None:
        """Where the same elements of the next row lie, in the second pass over this one."""
        if not isinstance(s.memory, Buffer) or self.row not in symbols(offset):
            return None
        there = substitute(offset, {self.row: symbol(self.row) + 1})
        step = there - offset
        if isinstance(step, int) and abs(step) * s.dtype.bytes < FAR * LINE:
            return None
        inside = {n for scope in offsets.scopes[self.depth :] for n in scope.names} - {self.row}
        inside |= {offsets.vector.var} if offsets.vector else set()
        corner = substitute(offset, dict.fromkeys(inside & set(symbols(offset)), 0))
        passes = self.passes.setdefault((s.memory.name, corner), [])
        if offset not in passes:
            passes.append(offset)
        return there if passes.index(offset) == 1 else None
