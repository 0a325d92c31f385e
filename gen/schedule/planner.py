"""The planner: the schedule of a kernel for which nobody wrote one.

It goes by a few rules. Vectors lie along the innermost loops whose turns are independent; along a
loop around others only if one turn touches the element beside that of the turn before, which is so
of none of those inside.
Threads share the outermost loops whose turns are independent, in parts that are worth a thread
(``grains``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dlvm import cost
from dlvm.gen.loops.statements import (
    Body,
    Define,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Nested,
    Store,
    statements,
)
from dlvm.gen.lower.forms import FORMS
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import substitute, symbols
from dlvm.ir.sizes.equations import as_line
from dlvm.target import Target

from .boxes import boxes
from .grains import columns, grains, open_columns
from .nests import distributions, fusions, joins, spreads
from .tiling import sums, tiles, turns
from .transform import Transform, apply
from .transforms.prefetch import Prefetch, reads_again
from .transforms.vectorize import Vectorize, holds_no_lanes, loop_of_uneven_turns

LONG_BODY = 400
"""Statements of a kernel from which on its rows of open length have one way, and not two."""
ALL = tuple(FORMS)
"""The forms that folds have on a CPU, where they can."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans kernels for a processor."""

    target: Target

    def applied(self, plain: LoopKernel) -> LoopKernel:
        """The kernel under the schedule that the rules give it."""
        return planned(plain, self.target)

    @property
    def forms(self) -> tuple[str, ...]:
        """What folds are asked to look like: all that is possible."""
        return ALL


def planned(
    kernel: LoopKernel, target: Target | None = None, work: int | None = None, width: int = 0
) -> LoopKernel:
    """The kernel under the schedule that the rules give it, which it shows as its ``steps``.

    Threads share what is worth ``work`` ps (0: nothing; ``cost.THREAD`` unless given), and vectors
    have ``width`` lanes (0: as many as the registers of the target, the host if none is named,
    hold).
    """
    processor = target or Target.host()

    def vectors(kernel: LoopKernel) -> Iterator[Transform]:
        return _vectors(kernel.body, width, processor)

    def shares(kernel: LoopKernel) -> Iterator[Transform]:
        return grains(kernel.body, cost.THREAD if work is None else work, processor)

    kernel = _formed(kernel)
    steps: list[Transform] = [*joins(kernel)]
    cuts, kernel = boxes(apply(kernel, steps))
    steps += cuts
    for rule in (tiles, sums, spreads, distributions, fusions, vectors, turns, shares, _ahead):
        chosen = [*rule(kernel)]
        steps += chosen
        kernel = apply(kernel, chosen)
    return replace(kernel, steps=(*kernel.steps, *map(str, steps)))


def _formed(kernel: LoopKernel) -> LoopKernel:
    """The kernel with all forms that are possible, but for one that costs more code than time.

    Both ways of rows of open length hold all that an element is made of, which may be the windows
    of an image.
    """
    found = kernel.formed(ALL)
    if sum(1 for _ in statements(found.body)) <= LONG_BODY:
        return found
    return kernel.formed(tuple(form for form in ALL if form != "unswitch"))


def _vectors(body: Body, width: int, target: Target) -> Iterator[Transform]:
    """Innermost parallel loops, or those outside of them that neighbouring elements lie along."""
    for s in body:
        if isinstance(s, Nested):
            if isinstance(s, Loop) and s.kind == "parallel" and _is_best(s):
                strip = open_columns(s, target)
                yield Vectorize(s.var, width or s.width or columns(s, target), strip)
            else:
                yield from _vectors(s.body, width, target)


def _ahead(kernel: LoopKernel) -> Iterator[Transform]:
    """Rows that threads share and each turn reads twice."""
    for s in statements(kernel.body):
        if isinstance(s, Loop) and s.grain != 0 and reads_again(s):
            yield Prefetch(s.var)


def _is_best(loop: Loop) -> bool:
    """Whether vectors lie better along a loop than along those inside."""
    inside = [*statements(loop.body)]
    if any(holds_no_lanes(s) for s in inside) or loop_of_uneven_turns(loop) is not None:
        return False
    loops = [s for s in inside if isinstance(s, Loop)]
    if free := [s for s in loops if s.kind == "parallel"]:
        return _deepest(loop.body)[0] > 0 and _along(loop) and not any(map(_along, free))
    return not loops or _along(loop)


def _along(loop: Loop) -> bool:
    """Whether a turn touches the elements beside the last turn's, where the loop does most."""
    defines = {s.name: s.dim for s in statements(loop.body) if isinstance(s, Define)}
    steps = [_step(offset, loop.var, defines) for offset in _deepest(loop.body)[1]]
    beside = sum(step in (1, -1) for step in steps)
    return 2 * beside > sum(step != 0 for step in steps)


def _deepest(body: Body) -> tuple[int, list[Dim]]:
    """Where the innermost of the loops that touch buffers do so, and how deep these are."""
    inner = [_deepest(s.body) for s in body if isinstance(s, Loop)]
    depth = max((d + 1 for d, offsets in inner if offsets), default=0)
    if depth:
        return depth, [o for d, offsets in inner if d + 1 == depth for o in offsets]
    accesses = (s.scalar if isinstance(s, Let) else s for s in body)
    return 0, [x.offset for x in accesses if isinstance(x, Load | Store) and _lasts(x)]


def _lasts(x: Load | Store) -> bool:
    return not isinstance(x.memory, Local)


def _step(offset: Dim, var: str, defines: dict[str, Dim]) -> Dim | None:
    """How far a turn's element is from that of the turn before; None where that varies."""
    while any(name in defines for name in symbols(offset)):
        offset = substitute(offset, defines)
    line = as_line(offset, var)
    return line[0] if line else None if var in symbols(offset) else 0
