"""What a source of examples gives: plans of batches, in order, and the batch of a plan.

Plans are drawn one after the other. The batches of several plans may be made at the same time, in
any order, so that what a batch holds does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dlvm.ir import Array


@dataclass(frozen=True)
class Plan:
    """One batch to be made: its number, its examples, and the longest length in its bucket.

    Examples are a slice of rows, places of rows, or what a stream gave.
    """

    number: int
    held: slice | Array | Sequence[Any]
    bound: int | None = None

    @property
    def count(self) -> int:
        """The number of examples."""
        held = self.held
        return held.stop - held.start if isinstance(held, slice) else len(held)

    def part(self, low: int, high: int) -> Plan:
        """The plan of some examples of this one, of which there may be fewer."""
        held, high = self.held, min(high, self.count)
        if isinstance(held, slice):
            return replace(self, held=slice(held.start + low, held.start + high))
        return replace(self, held=held[low:high])


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
