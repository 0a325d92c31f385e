"""The schedules of one kernel that are searched: some numbers, each of which has a few values.

A state is a choice of one value for each number. Two states are neighbours if one number differs
by one place in its list. The first state is the schedule that the planner gives. Numbers are the
lanes of the planner's vectors, how finely threads share its loops, the sizes of tiles of two loops
inside one another and their order, and how often a loop that folds is unrolled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlvm.gen.loops.statements import Loop, LoopKernel, statements
from dlvm.gen.schedule.planner import ALL, planned
from dlvm.gen.schedule.transform import Transform
from dlvm.gen.schedule.transforms import parse_step
from dlvm.gen.schedule.transforms.fuse import nested
from dlvm.gen.schedule.transforms.interchange import Interchange
from dlvm.gen.schedule.transforms.prefetch import Prefetch
from dlvm.gen.schedule.transforms.share import Share
from dlvm.gen.schedule.transforms.split import Split
from dlvm.gen.schedule.transforms.unroll import Unroll
from dlvm.gen.schedule.transforms.vectorize import Vectorize
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv, maximum, mod
from dlvm.target import Target

WIDTHS = (0, 4, 8, 16, 32, 64, 128, 256)
STRIPS = (0, 32, 64, 128, 256, 512)
GRAINS = (1 / 16, 1 / 4, 1, 4, 16)
TILES = (0, 8, 16, 32, 64, 128, 256)
FACTORS = (1, 2, 4, 8)
State = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """One number of a schedule: what it is of, its values, and the place of the planner's."""

    what: str
    loop: str
    values: tuple[Any, ...]
    start: int


class Space:
    """The schedules of a kernel that are searched; all have the planner's forms."""

    def __init__(self, plain: LoopKernel, target: Target | None = None) -> None:
        self.plain = plain.formed(ALL)
        lines = planned(self.plain, target).steps[len(self.plain.steps) :]
        self.base = [parse_step(line, n) for n, line in enumerate(lines, 1)]
        self.numbers = tuple(self._numbers())

    @property
    def start(self) -> State:
        """The planner's schedule."""
        return tuple(n.start for n in self.numbers)

    @property
    def size(self) -> int:
        """How many states there are."""
        return math.prod(len(n.values) for n in self.numbers)

    def neighbours(self, state: State) -> Iterator[State]:
        """The states that differ by one place in one number."""
        for i, number in enumerate(self.numbers):
            for place in (state[i] - 1, state[i] + 1):
                if 0 <= place < len(number.values):
                    yield (*state[:i], place, *state[i + 1 :])

    # -- numbers -------------------------------------------------------------------------------

    def _numbers(self) -> Iterator[Number]:
        for step in self.base:
            match step:
                case Vectorize(loop, width, strip):
                    yield _listed("lanes", loop, WIDTHS, width)
                    if strip:
                        yield _listed("strip", loop, STRIPS, strip)
                case Share(loop, _, levels):
                    yield Number("grain", loop, GRAINS, GRAINS.index(1))
                    if levels > 1:
                        yield Number("levels", loop, tuple(range(1, levels + 1)), levels - 1)
                case _:
                    pass
        if all(isinstance(step, Vectorize | Share | Prefetch) for step in self.base):
            yield from self._tiles()
        yield from self._factors()

    def _tiles(self) -> Iterator[Number]:
        """The two innermost of the loops right inside one another, where each is independent."""
        for s in self.plain.body:
            if isinstance(s, Loop) and s.kind == "parallel" and len(chain := nested(s)) > 1:
                for loop in chain[-2:]:
                    yield Number("tile", loop.var, TILES, 0)
                yield Number("order", chain[-2].var, (False, True), 0)

    def _factors(self) -> Iterator[Number]:
        for s in statements(self.plain.body):
            if isinstance(s, Loop) and s.kind == "serial" and s.limit is None:
                fits = [f for f in FACTORS if mod(s.extent, f) == 0]
                if len(fits) > 1:
                    yield Number("factor", s.var, tuple(fits), 0)

    # -- steps ---------------------------------------------------------------------------------

    def steps(self, state: State) -> list[Transform]:
        """The schedule that a state stands for; it may be one that is refused."""
        chosen = {
            (n.what, n.loop): n.values[place] for n, place in zip(self.numbers, state, strict=True)
        }
        tiles, sizes = self._tiling(chosen)
        unrolled = [
            Unroll(loop, factor)
            for (what, loop), factor in chosen.items()
            if what == "factor" and factor > 1
        ]
        rest = [self._changed(step, chosen, sizes) for step in self.base]
        return [*tiles, *unrolled, *rest]

    def _tiling(self, chosen: dict[tuple[str, str], Any]) -> tuple[list[Transform], dict[str, int]]:
        """Splits and the interchange that put one loop of tiles inside the other."""
        steps: list[Transform] = []
        sizes = {loop: size for (what, loop), size in chosen.items() if what == "tile" and size}
        steps += [Split(loop, size) for loop, size in sizes.items()]
        names = [loop for what, loop in chosen if what == "tile"]
        for outer, inner in zip(names[::2], names[1::2], strict=True):
            if chosen["order", outer] or (outer in sizes and inner in sizes):
                steps.append(Interchange(f"{outer}.i" if outer in sizes else outer))
        return steps, sizes

    def _changed(
        self, step: Transform, chosen: dict[tuple[str, str], Any], sizes: dict[str, int]
    ) -> Transform:
        """A step of the planner's with the numbers of a state, on what became of its loop."""
        loop, size = step.loop, sizes.get(step.loop, 0)
        match step:
            case Vectorize():
                strip = chosen.get(("strip", loop), step.strip)
                name = f"{loop}.i" if size else loop
                return replace(step, loop=name, width=chosen["lanes", loop], strip=strip)
            case Share(grain=grain, levels=levels):
                levels = chosen.get(("levels", loop), levels)
                grain = _scaled(grain, chosen["grain", loop] / (size or 1))
                return Share(f"{loop}.o" if size else loop, grain, levels)
            case Prefetch():
                return Prefetch(f"{loop}.o" if size else loop)
            case _:
                return step


def _listed(what: str, loop: str, values: Sequence[int], own: int) -> Number:
    """A number whose values include the planner's."""
    found = tuple(sorted({*values, own}))
    return Number(what, loop, found, found.index(own))


def _scaled(grain: Dim, factor: float) -> Dim:
    """A grain so many times as large, and at least 1."""
    if isinstance(grain, int):
        return max(1, round(grain * factor))
    if factor >= 1:
        return grain * round(factor)
    return maximum(1, floordiv(grain, round(1 / factor)))
