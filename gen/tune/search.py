"""Which schedule is tried next: best first, or at random.

``best_first`` is G-BFS (Zhang et al., arXiv 1909.10616): of the states that were measured the
fastest is taken, and some of its neighbours, drawn at random, are measured; a state whose
neighbours are not all known comes back later. Both stop after ``PATIENCE`` states without a gain.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .space import Space, State

SAMPLED = 5
"""Neighbours of a state that are measured before the next state is taken."""
PATIENCE = 30
"""States without a gain of 1 % after which a search ends."""
Measure = Callable[[State], "float | None"]
"""The time of a state in times that of the planner's; None for one that is refused."""


@dataclass(slots=True)
class Found:
    """What a search has measured: the time of each state that is possible, and how many are not."""

    times: dict[State, float] = field(default_factory=dict[State, float])
    refused: set[State] = field(default_factory=set[State])
    idle: int = 0

    @property
    def visited(self) -> int:
        """How many states were tried."""
        return len(self.times) + len(self.refused)

    def best(self, count: int) -> list[State]:
        """The fastest states."""
        return sorted(self.times, key=self.times.__getitem__)[:count]

    def known(self, state: State) -> bool:
        """Whether a state was tried."""
        return state in self.times or state in self.refused

    def tried(self, state: State, measure: Measure) -> float | None:
        """Measure a state that is new."""
        least = min(self.times.values(), default=float("inf"))
        time = measure(state)
        if time is None:
            self.refused.add(state)
        else:
            self.times[state] = time
        self.idle = 0 if time is not None and time < 0.99 * least else self.idle + 1
        return time


def best_first(space: Space, measure: Measure, goes_on: Callable[[], bool], seed: int) -> Found:
    """Greedy best-first search from the planner's schedule."""
    dice, result = random.Random(seed), Found()
    queue: list[tuple[float, int, State]] = []

    def tried(state: State) -> None:
        time = result.tried(state, measure)
        if time is not None:
            heapq.heappush(queue, (time, result.visited, state))

    tried(space.start)
    while queue and goes_on() and result.idle < PATIENCE:
        time, number, state = heapq.heappop(queue)
        new = [s for s in space.neighbours(state) if not result.known(s)]
        for neighbour in dice.sample(new, min(SAMPLED, len(new))):
            if goes_on():
                tried(neighbour)
        if len(new) > SAMPLED:
            heapq.heappush(queue, (time, number, state))
    return result


def at_random(space: Space, measure: Measure, goes_on: Callable[[], bool], seed: int) -> Found:
    """States drawn at random, each once, after the planner's."""
    dice, found = random.Random(seed), Found()
    for state in _drawn(space, dice):
        if not goes_on() or found.visited >= space.size or found.idle >= PATIENCE:
            break
        if not found.known(state):
            found.tried(state, measure)
    return found


def _drawn(space: Space, dice: random.Random) -> Iterator[State]:
    yield space.start
    while True:
        yield tuple(dice.randrange(len(n.values)) for n in space.numbers)
