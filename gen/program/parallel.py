"""Which loops have trips that threads may share: those that carry nothing and show nothing."""

from __future__ import annotations

from dlvm.cost import body_flops, size_in_bytes, sum_of
from dlvm.ir import Op
from dlvm.ops import Pop, Print, Push, Structured, Tap

LEAST = 256
"""Bytes and operations of a trip that are worth entering a function."""
WORTH = 1 << 18
"""Bytes and operations that are worth waking a thread."""
ORDERED = (Print, Tap, Push, Pop)
"""What, like a call, keeps trips in order, or counts on the stack of one thread."""


def is_apart(op: Structured) -> bool:
    """Whether the trips of a loop may run in any order, and there is enough in them."""
    (body,) = op.giving
    if op.carries or any(_in_order(kind) for kind in body.kinds):
        return False
    made = sum_of(size_in_bytes(r.type) for inner in body.walk() for r in inner.results)
    trip = body_flops(body) + made
    whole = trip * op.trips
    small = isinstance(trip, int) and trip < LEAST
    return not (small or (isinstance(whole, int) and whole < 2 * WORTH))


def _in_order(kind: type[Op]) -> bool:
    """Whether operations of a class run on one thread, one after the other."""
    return bool(kind.enters) or kind.asks_python or issubclass(kind, ORDERED)
