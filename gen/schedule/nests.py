"""Which loops the planner joins, takes apart and takes together, and which chunks it spreads."""

from __future__ import annotations

from collections.abc import Iterator

from dlvm.gen.loops.index import calls_of, step_of
from dlvm.gen.loops.statements import (
    Bind,
    Buffer,
    Define,
    Let,
    Load,
    Loop,
    LoopKernel,
    Product,
    Sort,
    Store,
    accesses,
    dims,
    statements,
)
from dlvm.ir.sizes.dims import product

from .chunks import chunks_of
from .transform import WHOLE, Transform
from .transforms.distribute import Distribute
from .transforms.fuse import Fuse, nested
from .transforms.join import Join, against, siblings
from .transforms.serial import Serial
from .transforms.spread import Spread, spread

FEW = 64
"""Turns of a loop that are few for threads to share."""
PLACES = 16
"""Places that are shared among threads; of fewer, each window is shared by itself."""
ROWS, CHUNKS = 16, 4
"""Up to so many rows are each shared among threads, unless a row has so few chunks."""
SHORT = 64
"""Columns that are folded, of which fewer are worth being joined with those beside them."""


def joins(kernel: LoopKernel) -> Iterator[Join]:
    """Windows that are written into one buffer, at each place along the axes that all cover."""
    body, levels = kernel.body, 0
    if len(siblings(body, 1)) < 2:
        return
    written = {x.memory for x in accesses(body) if isinstance(x, Store)}
    while not against(body, levels + 1):
        levels += 1
    if levels and len(written) == 1:
        places = product(tuple(s.extent for s in nested(siblings(body, levels)[0])[:levels]))
        if not (isinstance(places, int) and places < PLACES):
            yield Join(WHOLE, levels)


def spreads(kernel: LoopKernel) -> Iterator[Transform]:
    """Chunks of few long rows, so that threads share each row."""
    done: set[str] = set()
    for chunks, rows in chunks_of(kernel.body):
        count = product(tuple(s.extent for s in rows))
        few = isinstance(count, int) and count <= ROWS
        short = isinstance(chunks.extent, int) and chunks.extent <= CHUNKS
        if (
            few
            and not short
            and not (rows and _goes_along(chunks, rows[-1]))
            and spread(chunks) is not None
        ):
            yield from (Serial(s.var) for s in rows if s.var not in done)
            done.update(s.var for s in rows)
            yield Spread(chunks.var)


def _goes_along(inside: Loop, loop: Loop) -> bool:
    """Whether neighbouring elements are read in neighbouring turns of a loop."""
    loads = (x for x in accesses(inside.body) if isinstance(x, Load))
    return any(isinstance(x.memory, Buffer) and step_of(x.offset, loop.var) == 1 for x in loads)


def distributions(kernel: LoopKernel) -> Iterator[Distribute]:
    """Loops of few turns around several loops, so that threads share the turns of these."""
    for s in statements(kernel.body):
        if isinstance(s, Loop) and s.kind == "parallel" and isinstance(s.extent, int):
            inside = [t for t in s.body if isinstance(t, Loop)]
            plain = all(isinstance(t, Loop | Let | Define | Bind) for t in s.body)
            free = all(t.kind == "parallel" and t.limit is None for t in inside)
            if s.extent < FEW and len(inside) > 1 and plain and free:
                yield Distribute(s.var)


def _are_columns(loop: Loop) -> bool:
    """Whether a loop goes along few columns beside one another, each of which is folded."""
    inside = [*statements(loop.body)]
    loads = [s.scalar for s in inside if isinstance(s, Let) and isinstance(s.scalar, Load)]
    steps = [step_of(x.offset, loop.var) for x in loads if isinstance(x.memory, Buffer)]
    plain = not any(isinstance(s, Product | Sort) for s in inside)
    short = isinstance(loop.extent, int) and loop.extent < SHORT
    return plain and short and 1 in steps and {0, 1}.issuperset(steps)


def fusions(kernel: LoopKernel) -> Iterator[Fuse]:
    """Loops inside one another over what lies at one distance from turn to turn."""
    outermost = (s for s in kernel.body if isinstance(s, Loop) and s.kind == "parallel")
    for chain in map(nested, outermost):
        inside = [t for t in chain[-1].body if isinstance(t, Loop | Product | Sort)]
        if inside and not _are_columns(chain[-1]):
            continue
        for first in range(len(chain) - 1):
            step = Fuse(chain[first].var, len(chain) - first)
            made, name = step.rewritten(chain[first]), f"{chain[first].var}.f"
            if not any(calls_of(d, name) for s in statements(made) for d in dims(s)):
                yield step
                break
