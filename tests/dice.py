"""Where random programs get their choices: from Hypothesis, which shrinks, or from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
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
