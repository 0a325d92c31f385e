"""Where the planner cuts the loops of an element-wise kernel, and which of them become one.

Where tensors are joined, padded or partly replaced, each element asks for each piece whether it
lies there. The positions where a guard begins to hold or ends cut the loops into boxes, in each of
which it is decided. Loops inside one another whose elements lie beside one another become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from dlvm.cost import typical
from dlvm.gen.loops.index import calls_of, step_of
from dlvm.gen.loops.statements import (
    Bind,
    Body,
    Buffer,
    Define,
    Inside,
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
from dlvm.ir import Dim
from dlvm.ir.dims import at_least, product, symbols
from dlvm.ir.equations import as_line

from .transform import WHOLE, Transform, apply
from .transforms.cut import Cut
from .transforms.distribute import Distribute
from .transforms.fuse import Fuse, nested
from .transforms.join import Join, against, siblings
from .transforms.serial import Serial
from .transforms.simplify import Simplify
from .transforms.spread import Spread, spread
from .transforms.stages import CHUNK

BOXES, OPERATIONS = 9, 128
"""How many boxes there may be, and how many operations in all of them together."""
GUARDS = 64
"""Guards in a loop that are too many to decide by cuts."""
FEW = 64
"""Turns of a loop that are few for threads to share."""
PLACES = 16
"""Places that are shared among threads; of fewer, each window is shared by itself."""
ROWS, CHUNKS = 16, 4
"""Up to so many rows are each shared among threads, unless a row has so few chunks."""
SHORT = 64
"""Columns that are folded, of which fewer are worth being joined with those beside them."""


def boxes(kernel: LoopKernel) -> tuple[list[Transform], LoopKernel]:
    """The steps that cut a kernel into boxes, and its loops after them.

    Where there would be too many boxes, the largest of them is cut out, and the rest stays whole.
    """
    for core in (False, True):
        steps, made = _cut(kernel, core)
        count = sum(isinstance(s, Cut) for s in steps)
        work = sum(isinstance(s, Let) for s in statements(made.body))
        few = sum(isinstance(s, Let) for s in statements(kernel.body)) * 2
        if not steps or (count < BOXES and work <= max(OPERATIONS, few)):
            return steps, made
    return [], kernel


def _cut(kernel: LoopKernel, core: bool) -> tuple[list[Transform], LoopKernel]:
    """Cut after cut, each of which decides what the next one has to ask."""
    steps: list[Transform] = []
    while len(steps) < 4 * BOXES:
        step = next(_cuts(kernel.body, core), None)
        if step is None:
            break
        both = (step, Simplify(WHOLE))
        steps += both
        kernel = apply(apply(kernel, both[:1]), both[1:])
    return steps, kernel


def _leaves(body: Body, around: tuple[Loop, ...] = ()) -> Iterator[tuple[Loop, ...]]:
    """Each element-wise loop that holds no other one, behind those around it."""
    for s in body:
        if isinstance(s, Loop) and s.kind == "parallel":
            inside = [t for t in statements(s.body) if isinstance(t, Loop | Product | Sort)]
            if all(isinstance(t, Loop) and t.kind == "parallel" for t in inside):
                yield from _leaves(s.body, (*around, s)) if inside else ((*around, s),)


def _cuts(body: Body, core: bool) -> Iterator[Cut]:
    """The cuts that decide a guard of some loop, the outermost first."""
    for path in _leaves(body):
        variables = {s.var for s in path}
        guards = dict.fromkeys(d for s in path[-1].body for d in _guards(s))
        if len(guards) > GUARDS:
            continue
        for loop in path:
            found = (_point(d, loop, variables) for d in guards)
            points = _in_order([p for p in found if p is not None], loop.extent)
            if core and points:
                ends = [0, *points, loop.extent]
                begin, end = max(pairwise(ends), key=lambda pair: typical(pair[1] - pair[0]))
                points = [p for p in (begin, end) if p not in (0, loop.extent)]
            for point in points:
                yield Cut(loop.var, point)


def _guards(s: object) -> tuple[Dim, ...]:
    access = s.scalar if isinstance(s, Let) else s
    return access.where if isinstance(access, Load | Store | Inside) else ()


def _point(guard: Dim, loop: Loop, variables: set[str]) -> Dim | None:
    """Where along a loop a guard begins to hold, or no longer does."""
    line = as_line(guard, loop.var)
    if line is None or line[0] not in (1, -1) or not variables.isdisjoint(symbols(line[1])):
        return None
    return -1 * line[1] if line[0] == 1 else line[1] + 1


def _in_order(points: list[Dim], size: Dim) -> list[Dim]:
    """The points that lie inside a loop, in order; none where that is not known."""
    found: list[Dim] = [0, size]
    for point in dict.fromkeys(points):
        if any(n.startswith("%") for n in symbols(point)):
            continue
        if at_least(0, point) or at_least(point, size):
            continue
        place = next((i for i, end in enumerate(found) if at_least(end, point)), 0)
        if place == 0 or not at_least(point, found[place - 1]):
            return []
        if point != found[place]:
            found.insert(place, point)
    return found[1:-1]


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
    for chunks, rows in _chunks(kernel.body, ()):
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


def _chunks(body: Body, rows: tuple[Loop, ...]) -> Iterator[tuple[Loop, tuple[Loop, ...]]]:
    """The loops over chunks of folds, and those around that go over rows."""
    for s in body:
        if isinstance(s, Loop) and s.var.startswith(CHUNK):
            yield s, rows
        elif isinstance(s, Loop):
            yield from _chunks(s.body, (*rows, s) if s.kind == "parallel" else rows)


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
