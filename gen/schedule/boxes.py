"""Where the planner cuts the loops of an element-wise kernel, and which of them become one.

Where tensors are joined, padded or partly replaced, each element asks for each piece whether it
lies there. The positions where a guard begins to hold or ends cut the loops into boxes, in each of
which it is decided. Loops inside one another whose elements lie beside one another become one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from dlvm.cost import typical
from dlvm.gen.loops.statements import (
    Body,
    Inside,
    Let,
    Load,
    Loop,
    LoopKernel,
    Product,
    Sort,
    Store,
    statements,
)
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import at_least, symbols
from dlvm.ir.sizes.equations import as_line

from .transform import WHOLE, Transform, apply
from .transforms.cut import Cut
from .transforms.simplify import Simplify

BOXES, OPERATIONS = 9, 128
"""How many boxes there may be, and how many operations in all of them together."""
GUARDS = 64
"""Guards in a loop that are too many to decide by cuts."""


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
