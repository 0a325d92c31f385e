"""Which loops have trips that threads may share: those that carry nothing and show nothing."""

from __future__ import annotations

from dlvm import cost
from dlvm.ir import Op
from dlvm.ops import Pop, Print, Push, Structured, Tap

LEAST = 4_000
"""Picoseconds of a trip that are worth entering a function."""
WORTH = 2 * cost.THREAD
"""Picoseconds of trips that are worth a thread, which takes memory of its own for them."""
ORDERED = (Print, Tap, Push, Pop)
"""What, like a call, keeps trips in order, or counts on the stack of one thread."""


def is_apart(op: Structured) -> bool:
    """Whether the trips of a loop may run in any order, and there is enough in them."""
    (body,) = op.giving
    if op.carries or any(_in_order(kind) for kind in body.kinds):
        return False
    trip = cost.body_time(body)
    whole = trip * op.trips
    small = isinstance(trip, int) and trip < LEAST
    return not (small or (isinstance(whole, int) and whole < 2 * WORTH))


def _in_order(kind: type[Op]) -> bool:
    """Whether operations of a class run on one thread, one after the other."""
    return bool(kind.enters) or kind.asks_python or issubclass(kind, ORDERED)
