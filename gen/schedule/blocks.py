"""Schedules for a GPU: which loops become blocks, and which the lanes of a block.

Every lane of a GPU runs the same code as the 31 others of its warp at a time, so neighbouring
lanes take neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from dlvm.base.errors import UserError
from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.statements import (
    WARP,
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Statement,
    Store,
    accesses,
    statements,
)
from dlvm.ir import DType
from dlvm.ir.sizes.dims import at_least, mod, product, substitute
from dlvm.target import Target

from .folding import FEW, unrolled
from .rows import kept
from .tilings import instructions_of, tiles_of
from .transform import WHOLE, OfKernel, Transform, apply
from .transforms.fuse import Fuse, nested
from .transforms.gpu.apart import Apart
from .transforms.gpu.bind import LANES as MOST_LANES
from .transforms.gpu.bind import Bind
from .transforms.gpu.block_tiles import BLOCK
from .transforms.gpu.deal import Deal, warps_of
from .transforms.gpu.lanes import Lanes, rewritten_buffers
from .transforms.gpu.parts import Parts
from .transforms.gpu.stages import Stages
from .transforms.gpu.tiles import product_of
from .transforms.gpu.transpose import SIDE, Transpose, transposed_loads
from .transforms.interchange import Interchange
from .transforms.split import Split
from .transforms.unroll import Unroll
from .transforms.vectorize import Vectorize, holds_no_lanes

LANES = 128
"""Lanes of a block that writes elements."""
SHORT = 16
"""Elements of a row that one lane folds."""


@dataclass(frozen=True, slots=True)
class GpuPlanner:
    """Plans kernels for a GPU.

    Products of some types are left to an instruction of a warp, whose sums have their own order.
    Where lanes do not exchange registers, one warp has all chunks of a row.
    """

    instructions: Mapping[DType, str] = field(default_factory=dict[DType, str])
    exchanges: bool = True

    @property
    def forms(self) -> tuple[str, ...]:
        """That of factorisations, whose rows are shared by the lanes of a block."""
        return ("together",)

    @staticmethod
    def of(target: Target) -> GpuPlanner:
        """The planner of a processor, by the laws that the compilation licenses."""
        return GpuPlanner(instructions_of(target), target.exchanges)

    def applied(self, plain: LoopKernel) -> LoopKernel:
        """The kernel in blocks and lanes."""
        before, kernel = prepared(plain, self.exchanges)
        made = blocks(kernel, LANES, self.instructions)
        return replace(made, steps=(*map(str, before), *made.steps))


def prepared(kernel: LoopKernel, exchanges: bool = True) -> tuple[list[Transform], LoopKernel]:
    """Long folds and products in two stages, rows that are read once: the steps, and the loops."""
    done: list[Transform] = []
    stages = (Parts, Stages, Apart)
    dealing = (_of_kernel(Deal),) if exchanges else ()
    for rule in (_outward, *map(_of_kernel, stages), kept, *dealing):
        steps = [*rule(kernel)]
        kernel = apply(kernel, steps)
        done += steps
    return done, kernel


def _of_kernel(step: type[OfKernel]) -> Callable[[LoopKernel], Iterator[Transform]]:
    """The rule that takes a step wherever it is possible."""

    def rule(kernel: LoopKernel) -> Iterator[Transform]:
        if step.made(kernel.body) is not None:
            yield step(WHOLE)

    return rule


def _outward(kernel: LoopKernel) -> Iterator[Interchange]:
    """Loops whose turns are lanes come out of loops whose turns are in order, as updates are."""
    for loop in statements(kernel.body):
        inner = [s for s in loop.body if isinstance(s, Loop)] if isinstance(loop, Loop) else []
        if isinstance(loop, Loop) and loop.kind == "serial" and len(inner) == 1:
            for _ in nested(inner[0]) if inner[0].kind == "parallel" else ():
                step = Interchange(loop.var)
                try:
                    kernel = apply(kernel, [step])
                except UserError:
                    break
                yield step


UNPROVEN = ("tiles", "transpose")
"""Steps after which it is not shown that no two lanes write one element."""


def is_proven(kernel: LoopKernel) -> bool:
    """Whether the verifier can follow the schedule of a kernel."""
    return not any(step.startswith(UNPROVEN) for step in kernel.steps)


def blocks(
    kernel: LoopKernel, lanes: int, instructions: Mapping[DType, str] | None = None
) -> LoopKernel:
    """The kernel in blocks of ``lanes`` lanes of a GPU: one for each row, or for elements."""
    steps = list(_blocks(kernel.body, lanes, instructions or {}))
    made = apply(kernel, steps)
    folds = list(unrolled(_untiled(made, steps)))
    return replace(apply(made, folds), steps=tuple(map(str, (*steps, *folds))))


def _untiled(kernel: LoopKernel, steps: Collection[Transform]) -> LoopKernel:
    """A kernel without what is in tiles, whose turns are written out already."""
    if any(isinstance(step, Transpose) for step in steps):
        return replace(kernel, body=())
    rest = (s for s in kernel.body if not (isinstance(s, Loop) and s.var == BLOCK))
    return replace(kernel, body=tuple(rest))


def _blocks(body: Body, lanes: int, instructions: Mapping[DType, str]) -> Iterator[Transform]:
    """Tiles of a product; rows that lanes share; or each turn of the outermost loops in a lane."""
    _, _, found = product_of(body)
    if found is not None:
        yield tiles_of(found, instructions)
        return
    if any(isinstance(s, Local) for s in body) and _shares(body):
        yield Lanes(WHOLE, min(lanes, WARP))  # one row, whose loops are those of its lanes
        return
    if _works(body):
        yield Lanes(WHOLE, _workers(body, lanes))  # one matrix
        return
    for loop in [s for s in body if isinstance(s, Loop) and s.kind == "parallel"]:
        if (found := product_of((loop,))[2]) is not None:
            yield replace(tiles_of(found, instructions), loop=loop.var)
            continue
        chain = nested(loop)
        if len(chain) > 1 and is_large(chain) and transposed_loads(chain):
            yield Transpose(loop.var)
            continue
        name, last, inside = loop.var, chain[-1].var, chain[-1].body
        width = vector_width(chain[-1])
        if width > 1:
            yield Split(last, width)
            name = f"{name}.o" if len(chain) == 1 else name
        if len(chain) > 1:
            yield Fuse(name, len(chain))
            name = f"{name}.f"
        if is_short(inside):
            yield from _each_in_a_lane(name, inside, min(lanes, WARP) if _few(chain) else lanes)
        elif _shares(inside):
            folds = any(isinstance(s, Local) for s in statements(inside))
            size, warps = min(lanes, WARP) if folds else lanes, warps_of(inside)
            if folds:
                yield from _vectors(inside, size * warps)
            yield from (Bind(name, "block"), Lanes(name, size, warps))
        elif _works(inside) and not _many(chain):
            yield from (Bind(name, "block"), Lanes(name, _workers(inside, lanes)))
        elif any(isinstance(s, Loop) for s in inside):
            yield from _each_in_a_lane(name, inside, min(lanes, WARP) if _few(chain) else lanes)
        else:
            yield from (
                Split(name, lanes, "mask"),
                Bind(f"{name}.o", "block"),
                Bind(f"{name}.i", "lane"),
            )
        if width > 1:
            yield Vectorize(f"{last}.i", width)


def _vectors(body: Body, lanes: int) -> Iterator[Transform]:
    """Neighbouring elements at once where the lanes of a block read or write a row, if all can."""
    arrays = {s.name for s in body if isinstance(s, Local) and s.size > WARP}
    for s in body:
        if isinstance(s, Loop) and s.kind == "parallel":
            chain = nested(s)
            width, count = vector_width(chain[-1], arrays), product(tuple(t.extent for t in chain))
            if width > 1 and at_least(count, lanes * width):
                yield Split(chain[-1].var, width)
                yield Vectorize(f"{chain[-1].var}.i", width)


def _each_in_a_lane(name: str, inside: Body, lanes: int) -> Iterator[Transform]:
    """A turn of the loop in each lane, whose loops inside are written out where they are short."""
    yield from (Split(name, lanes), Bind(f"{name}.o", "block"), Bind(f"{name}.i", "lane"))
    if is_short(inside):
        for s in statements(inside):
            if isinstance(s, Loop) and isinstance(s.extent, int):
                yield Unroll(s.var, s.extent)


def _few(chain: list[Loop]) -> bool:
    """Whether there are so few lanes that blocks of a warp use more processors."""
    count = product(tuple(s.extent for s in chain))
    return isinstance(count, int) and count <= FEW


def is_short(body: Body) -> bool:
    """Whether a row is so short that a lane folds it alone, in registers.

    The lanes of a warp would have less to do than they would wait for one another.
    """
    inside = list(statements(body))
    loops = [s for s in inside if isinstance(s, Loop)]
    whole = all(isinstance(s.extent, int) and s.extent <= WARP for s in loops)
    plain = all(isinstance(s, Loop | Let | Store | Define | Local) for s in inside)
    reads = [s for s in loops if any(_reads(t) for t in s.body)]
    size = sum(int(str(s.extent)) for s in reads) if whole else SHORT + 1
    flat = not any(isinstance(t, Loop) for s in loops for t in s.body)
    return bool(loops) and whole and plain and flat and size <= SHORT


def _reads(s: Statement) -> bool:
    memory = s.scalar.memory if isinstance(s, Let) and isinstance(s.scalar, Load) else None
    return isinstance(memory, Buffer)


def is_large(chain: list[Loop]) -> bool:
    """Whether tiles of the innermost two loops are not empty for the most part."""
    return all(s.extent >= SIDE // 2 for s in chain[-2:] if isinstance(s.extent, int))


MANY = 1 << 14
"""Small matrices from which on a lane takes each."""
WIDE = 16
"""Bytes that a lane reads and writes at once."""


def vector_width(loop: Loop, arrays: Collection[str] = ()) -> int:
    """How many neighbouring elements a lane takes at once: 16 bytes of the widest type.

    All that an iteration touches is then the same for all of them, or starts at a multiple of the
    width; it is in buffers or in these ``arrays``, which start at such addresses.
    """
    touched = list(accesses(loop.body))
    simple = (isinstance(s, Let | Store | Define) and not holds_no_lanes(s) for s in loop.body)
    if not all(simple) or not touched:
        return 1
    width = WIDE // max(x.memory.dtype.bytes for x in touched)
    whole = isinstance(loop.extent, int) and loop.extent % width == 0
    known = (isinstance(x.memory, Buffer) or x.memory.name in arrays for x in touched)
    plain = all(known) and not any(x.where for x in touched)
    return width if whole and plain and all(_fits(x, loop, width) for x in touched) else 1


def _fits(x: Load | Store, loop: Loop, width: int) -> bool:
    step = step_of(x.offset, loop.var)
    first = substitute(x.offset, {loop.var: 0})
    return step == 0 or (step == 1 and mod(first, width) == 0)


def _shares(body: Body) -> bool:
    """Whether lanes can share loops inside: none reads from a buffer what another has written."""
    return not rewritten_buffers(body) and _is_free(body)


def _works(body: Body) -> bool:
    """Whether a block works on a matrix in memory, with a barrier after what others need.

    What a turn of some loop writes, a later turn reads; lanes take the loops inside.
    """
    steps = (s for s in body if isinstance(s, Loop) and s.kind == "serial")
    return _is_free(body) and any(_is_free(s.body) and rewritten_buffers(s.body) for s in steps)


def _workers(body: Body, lanes: int) -> int:
    """The lanes that work on a matrix: as many as it has rows, within what a block may have."""
    extents = (s.extent for s in statements(body) if isinstance(s, Loop) and s.kind == "parallel")
    most = max((n for n in extents if isinstance(n, int)), default=0)
    return max(lanes, min(MOST_LANES, most // WARP * WARP))


def _is_free(body: Body) -> bool:
    """Whether there are loops inside whose turns lanes can take."""
    inside = list(statements(body))
    free = any(isinstance(s, Loop) and s.kind == "parallel" for s in inside)
    return free and not any(holds_no_lanes(s) for s in inside)


def _many(chain: list[Loop]) -> bool:
    """Whether there are so many matrices that a lane for each is better."""
    count = product(tuple(s.extent for s in chain))
    return not isinstance(count, int) or count > MANY
