"""What a source of examples gives: plans of batches, in order, and the batch of a plan.

Plans are drawn one after the other. The batches of several plans may be made at the same time, in
any order, so that what a batch holds does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Plan:
    """One batch to be made: its number, its examples, and the longest length in its bucket."""

    number: int
    held: Any
    bound: int | None = None


class Source(Protocol):
    """Examples in batches."""

    @property
    def total(self) -> int | None:
        """The number of batches in all epochs, where it is known."""
        ...

    def plans(self, start: int) -> Iterator[Plan]:
        """The plans from number ``start`` on."""
        ...

    def make(self, plan: Plan) -> Any:
        """The batch of a plan."""
        ...
