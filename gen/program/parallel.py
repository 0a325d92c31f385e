"""Which loops have trips that threads may share: those that carry nothing and show nothing."""

from __future__ import annotations

from dlvm.cost import body_flops, size_in_bytes, sum_of
from dlvm.ops import Call, Pop, Print, Push, Scan, Tap

LEAST = 256
"""Bytes and operations of a trip that are worth entering a function."""
WORTH = 1 << 18
"""Bytes and operations that are worth waking a thread."""
ORDERED = (Call, Print, Tap, Push, Pop)
"""What keeps trips in order, or counts on the stack of one thread."""


def is_apart(op: Scan) -> bool:
    """Whether the trips of a loop may run in any order, and there is enough in them."""
    if op.init or any(kind.called or issubclass(kind, ORDERED) for kind in op.body.kinds):
        return False
    made = sum_of(size_in_bytes(r.type) for inner in op.body.walk() for r in inner.results)
    trip = body_flops(op.body) + made
    whole = trip * op.length
    small = isinstance(trip, int) and trip < LEAST
    return not (small or (isinstance(whole, int) and whole < 2 * WORTH))
