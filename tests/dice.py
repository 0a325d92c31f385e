"""Where random programs get their choices: from Hypothesis, which shrinks, or from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Dice(Protocol):
    """Choices; the first of several, the low end and no are the simplest."""

    def choose(self, items: Collection[T]) -> T:
        """One of several."""
        ...

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``."""
        ...


class Drawn:
    """Choices of a Hypothesis test."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw

    def choose(self, items: Collection[T]) -> T:
        return self.draw(st.sampled_from(list(items)))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


class Seeded:
    """Choices that are the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def choose(self, items: Collection[T]) -> T:
        return self.random.choice(list(items))

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


class Taped(Seeded):
    """Choices of a seed that begin as others did once; ``drawn`` are all of them."""

    def __init__(self, seed: int, tape: Sequence[int] = ()) -> None:
        super().__init__(seed)
        self.tape = iter(tape)
        self.drawn: list[int] = []

    def choose(self, items: Collection[T]) -> T:
        every = list(items)
        return every[self.integer(0, len(every) - 1)]

    def integer(self, low: int, high: int) -> int:
        old = next(self.tape, None)
        new = self.random.randint(low, high) if old is None else low + old % (high - low + 1)
        self.drawn.append(new - low)
        return new
