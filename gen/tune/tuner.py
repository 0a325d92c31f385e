"""The kernels of a program, each searched for a schedule that is faster than the planner's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dlvm.gen.build import build
from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.program.control import kernels_of
from dlvm.gen.tuned import Tuned, keep, written
from dlvm.ir import Array, Module
from dlvm.target import Target

from .measure import CONFIRMING, Bench, side_by_side
from .search import Found, Measure, best_first
from .space import Space, State

GAIN = 0.97
"""The time of a schedule, in times that of the planner's, from which on it is kept."""
FINALISTS = 3
Search = Callable[[Space, Measure, Callable[[], bool], int], Found]


@dataclass(frozen=True, slots=True)
class Result:
    """What the search for one kernel has found."""

    kernel: LoopKernel
    space: int
    """How many schedules there are."""
    tried: int
    possible: int
    """How many of those that were tried a transform or the verifier allows."""
    time: float
    """The confirmed time of the best, in times that of the planner's; 1 where none is faster."""
    steps: tuple[str, ...]
    """The best schedule; the planner's where none is faster."""

    @property
    def gains(self) -> bool:
        """Whether it is faster than the planner's."""
        return self.time <= GAIN


def tuned(
    module: Module,
    target: Target,
    seconds: float,
    sizes: Mapping[str, int] | None = None,
    search: Search = best_first,
    seed: int = 0,
) -> Iterator[Result]:
    """What is found for each kernel, for which the search takes so many seconds; a gain is kept.

    ``sizes`` are those of the symbols, which must be known to measure anything.
    """
    for kernel, plain in kernels_of(module):
        bench = Bench(kernel, target, sizes or {})
        found = searched(Space(plain, target), bench, seconds, search, seed)
        if found.gains:
            keep(target, plain, found.steps)
        yield found


def of_program(module: Module, target: Target, arrays: Sequence[Array]) -> float:
    """The time of a call under what is kept, in times that under the planner's schedules."""
    alone = replace(target, adaptive=False)
    found = build(module, alone, plans=Tuned.of(written(target), target))
    return side_by_side(found, build(module, alone), arrays, CONFIRMING)


def forget(module: Module, target: Target) -> None:
    """Take back what is kept for the kernels of a program."""
    for _, plain in kernels_of(module):
        keep(target, plain, None)


def searched(
    space: Space, bench: Bench, seconds: float, search: Search = best_first, seed: int = 0
) -> Result:
    """The best schedule that is found for a kernel in so many seconds."""
    end = time.perf_counter() + seconds
    found = search(
        space, lambda s: bench.ratio(space.steps(s)), lambda: time.perf_counter() < end, seed
    )
    best, least = confirmed(space, bench, found)
    steps = (*space.plain.steps, *map(str, space.steps(best)))
    return Result(space.plain, space.size, found.visited, len(found.times), least, steps)


def confirmed(space: Space, bench: Bench, found: Found) -> tuple[State, float]:
    """The fastest state by more rounds, and its time; the planner's unless one gains."""
    best, least = space.start, 1.0
    for state in found.best(FINALISTS):
        if state == space.start or found.times[state] > GAIN:
            continue
        time = bench.ratio(space.steps(state), CONFIRMING)
        if time is not None and time <= GAIN and time < least:
            best, least = state, time
    return best, least
