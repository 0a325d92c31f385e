"""What a control operation states on its class about its bodies, by the names of its fields.

A pass asks this record, and never which control operation it has, so that an operation of a user
goes through every pass. ``dlvm.ops.flow.structured`` derives the shape rule, the meaning and the
answers of an operation from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Runs(Enum):
    """How often a control operation runs its bodies."""

    ONCE = "once"
    CHOICE = "one of two, by a bool: the first where it holds"
    WHILE = "again while a test of the carried values holds; perhaps never"
    COUNTED = "a given number of times; perhaps never"


@dataclass(frozen=True, kw_only=True)
class Dataflow:
    """How values go into the bodies of a control operation, round them, and out of them.

    Each operand field has one role. Every body, and the test, takes as parameters the operands
    that are not ``steers``, in order: those that it carries, a slice of those that are sliced,
    then all others whole. A body gives new carried values, then the other results, of which a
    counted loop stacks one for each trip.
    """

    bodies: tuple[str, ...] = ("body",)
    """The regions whose results become those of the operation."""
    runs: Runs = Runs.ONCE
    steers: tuple[str, ...] = ()
    """Operands that no body sees but that say whether or when it runs; a choice is the first."""
    carried: tuple[str, ...] = ()
    """Operands that the first trip takes, and that each trip gives to the next."""
    sliced: tuple[str, ...] = ()
    """Operands of which each trip takes a slice along the leading axis."""
    captured: str = ""
    """The last operands that bodies see: each trip takes them whole, and a pass may append some."""
    test: str = ""
    """The region that gives a bool before each trip; it is pure."""
    length: str = ""
    """The attribute with the number of trips."""
    backward: str = ""
    """The attribute that says whether trips go from the last slice to the first."""
    again: bool = False
    """Whether the body is computed again on purpose, so that no pass merges it with another."""

    @property
    def loops(self) -> bool:
        """Whether a body may run more than once."""
        return self.runs in (Runs.WHILE, Runs.COUNTED)

    @property
    def endless(self) -> bool:
        """Whether the operation may never end."""
        return self.runs is Runs.WHILE
