"""What kernels take on a processor, in picoseconds: the one cost that schedules go by.

It is the longer of two times, as a core computes while memory moves (the roofline of Williams,
Waterman and Patterson, 2009): that of all instructions, vectors counted once, and that of all
bytes, by the nearest memory that holds them. Where sizes are open it is an expression, which code
can compute in a call, and bytes come from the second cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dlvm.cost import PICOSECONDS, WEIGHTS
from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.statements import (
    Body,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Product,
    Search,
    Sort,
    Statement,
    Store,
    Word,
    statements,
)
from dlvm.gen.loops.work import accesses, count
from dlvm.ir import Dim, TensorType
from dlvm.ir.sizes.dims import floordiv, maximum, minimum, substitute, symbols
from dlvm.target import Target

ORDERING = 100
"""Instructions for one element that is put in its place, or found."""
SCATTERED = 2
"""Instructions for each lane of a vector whose elements do not lie beside one another."""
FMA = 0.7
"""Instructions for one multiplication of a vector in a product, whose loops hold nothing else."""


def time_of(kernel: LoopKernel, target: Target) -> Dim:
    """Picoseconds that a kernel takes on one core."""
    moved = bytes_of(kernel)
    return maximum(
        Costs(kernel.body, target).instructions(kernel.body), moved * _far(target, moved)
    )


def time_of_copy(t: TensorType, target: Target) -> Dim:
    """Picoseconds that it takes to copy a tensor."""
    moved = 2 * t.size * t.dtype.bytes
    return moved * _far(target, moved)


def bytes_of(kernel: LoopKernel) -> Dim:
    """The bytes of all that a kernel reads and writes, no more of a buffer than it has."""
    touched = accesses(kernel.body)
    out: Dim = 0
    for b in kernel.buffers:
        out = out + minimum(touched.get(b.name, 0), b.size) * b.dtype.bytes
    return out


def _far(target: Target, size: Dim) -> int:
    """Picoseconds for a byte of the memory that holds so many."""
    machine = target.machine
    level = machine.level(size) if isinstance(size, int) else machine.levels[1]
    return max(1, round(PICOSECONDS / level.rate))


@dataclass
class Costs:
    """The picoseconds of parts of one body, of which it knows what stands in vectors."""

    body: Body
    target: Target
    vectors: dict[Statement, Loop] = field(init=False)
    instruction: float = field(init=False)

    def __post_init__(self) -> None:
        self.instruction = PICOSECONDS / self.target.machine.rate
        loops = [s for s in statements(self.body) if isinstance(s, Loop) and s.kind == "vector"]
        self.vectors = {s: loop for loop in loops for s in statements(loop.body)}

    def time(self, body: Sequence[Statement]) -> Dim:
        """Those of a part, in the first turn of the loops around it; all from the second cache."""
        moved = _first(count(tuple(body), _bytes))
        return maximum(self.instructions(body), moved * _far(self.target, moved))

    def instructions(self, body: Sequence[Statement]) -> Dim:
        """Those of its instructions, where all memory is near."""
        return _first(count(tuple(body), self._each))

    def _each(self, s: Statement) -> Dim:
        match s:
            case Let(Word(dtype, word)):
                return self._time(WEIGHTS.get(word, 1) * self._lane(s, max(dtype.bytes, 4)))
            case Let(Load(memory=Local())) | Store(memory=Local()):
                return 0  # a register
            case Let(Load() as x) | (Store() as x):
                return self._time(self._access(s, x))
            case Sort(count=n):
                return n * self._time(ORDERING)
            case Let(Search()):
                return self._time(ORDERING)
            case Product(m=m, n=n, k=k):
                lanes = self.target.lanes(s.tile.dtype.bytes)
                return floordiv(m * n * k * self._time(FMA), lanes)
            case _:
                return 0

    def _time(self, instructions: float) -> int:
        return max(1, round(instructions * self.instruction))

    def _lane(self, s: Statement, bytes_: int) -> float:
        """The part of an instruction that is of one lane."""
        return 1 / self.target.lanes(bytes_) if s in self.vectors else 1

    def _access(self, s: Statement, x: Load | Store) -> float:
        """Instructions of a load or store, of one lane."""
        loop = self.vectors.get(s)
        if loop is None:
            return 1
        beside = step_of(x.offset, loop.var) in (0, 1)
        return self._lane(s, x.memory.dtype.bytes) if beside else SCATTERED


def _bytes(s: Statement) -> Dim:
    match s:
        case Let(Load(memory=memory)) | Store(memory=memory) if not isinstance(memory, Local):
            return memory.dtype.bytes
        case Product(x, y, m, n, k):
            return m * k * x.buffer.dtype.bytes + k * n * y.buffer.dtype.bytes
        case _:
            return 0


def _first(cost: Dim) -> Dim:
    """A cost in the first turn of loops."""
    return substitute(cost, {n: 0 for n in symbols(cost) if n.startswith("%")})
