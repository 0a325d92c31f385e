"""The choices of random programs, from a seed; ``strategies`` has those of Hypothesis."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Dice(Protocol):
    """A source of choices; the first of several, the lowest number and no are the simplest."""

    def choose(self, items: Collection[T]) -> T:
        """One of several."""
        ...

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        ...


class Seeded:
    """Choices that are the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def choose(self, items: Collection[T]) -> T:
        """One of several."""
        return self.random.choice(list(items))

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        return self.random.randint(low, high)


class Taped(Seeded):
    """Choices of a seed that begin with those of an earlier run; ``drawn`` has all of them."""

    def __init__(self, seed: int, tape: Sequence[int] = ()) -> None:
        super().__init__(seed)
        self.tape = iter(tape)
        self.drawn: list[int] = []

    def choose(self, items: Collection[T]) -> T:
        """One of several."""
        every = list(items)
        return every[self.integer(0, len(every) - 1)]

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        old = next(self.tape, None)
        new = self.random.randint(low, high) if old is None else low + old % (high - low + 1)
        self.drawn.append(new - low)
        return new
