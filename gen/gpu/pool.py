"""Memory of a device that is free again, kept for the next who needs as much.

Giving memory back to a driver waits for the device, and taking it costs microseconds; a call that
ran before finds here all that it needs. All that uses memory of a pool runs in one order on one
stream, so memory may be handed on while what used it before still runs.
"""

from __future__ import annotations

from collections.abc import Callable

SMALL, LARGE = 512, 1 << 21
"""Bytes of which allocations are multiples: those of up to ``LARGE`` bytes, and larger ones."""


def rounded(count: int) -> int:
    """The bytes that are taken for so many."""
    unit = SMALL if count <= LARGE else LARGE
    return max(1, -(-count // unit)) * unit


class Pool:
    """Free memory by size.

    ``take`` gives memory or raises ``MemoryError``, ``give`` gives it back. Memory is released by
    finalisers, which may run in the middle of any other method: so there is no lock, and each step
    is one operation on a list.
    """

    def __init__(self, take: Callable[[int], int], give: Callable[[int], None]) -> None:
        self._take, self._give = take, give
        self._free: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}

    def allocate(self, count: int) -> int:
        """Memory of at least so many bytes."""
        size = rounded(count)
        try:
            return self._free[size].pop()
        except LookupError:
            pass
        try:
            address = self._take(size)
        except MemoryError:
            self.empty()
            address = self._take(size)
        self._sizes[address] = size
        return address

    def free(self, address: int) -> None:
        """Keeps memory for the next."""
        self._free.setdefault(self._sizes[address], []).append(address)

    def empty(self) -> None:
        """Gives all free memory back."""
        for held in list(self._free.values()):
            while held:
                address = held.pop()
                del self._sizes[address]
                self._give(address)
