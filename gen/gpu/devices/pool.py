"""Memory of a device that is free again, kept for whoever needs memory next.

Giving memory back to a driver waits for the device, and taking it costs microseconds; a call that
ran before finds here all that it needs. All that uses memory of a pool runs in one order on one
stream, so memory may be handed on while what used it before still runs.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable

SMALL, LARGE = 512, 1 << 21
"""Bytes of which blocks are multiples, and of which what is taken from the driver is."""


class Blocks:
    """Free blocks, each joined with its free neighbours in the same memory of the driver."""

    def __init__(self) -> None:
        self.taken: dict[int, int] = {}
        """The bytes of what was taken from the driver, by address."""
        self._by_size: list[tuple[int, int]] = []
        self._sizes: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        """The address of a block by that of its end."""

    def add(self, start: int, size: int) -> None:
        """A block is free again."""
        if start not in self.taken and (before := self._starts.get(start)) is not None:
            start, size = before, size + self._remove(before)
        if (end := start + size) not in self.taken and end in self._sizes:
            size += self._remove(end)
        self._sizes[start], self._starts[start + size] = size, start
        insort(self._by_size, (size, start))

    def cut(self, size: int, most: float) -> int | None:
        """The start of the smallest block that is large enough, and at most ``most`` bytes.

        The rest of it stays free.
        """
        i = bisect_left(self._by_size, (size, 0))
        if i == len(self._by_size) or self._by_size[i][0] > most:
            return None
        start = self._by_size[i][1]
        found = self._remove(start)
        if found > size:
            self.add(start + size, found - size)
        return start

    def bytes(self) -> int:
        """How much is free."""
        return sum(size for size, _ in self._by_size)

    def whole(self) -> list[int]:
        """Removes what is free from end to end as it was taken from the driver."""
        found = [start for start, size in self.taken.items() if self._sizes.get(start) == size]
        for start in found:
            self._remove(start)
            del self.taken[start]
        return found

    def _remove(self, start: int) -> int:
        size = self._sizes.pop(start)
        del self._starts[start + size]
        del self._by_size[bisect_left(self._by_size, (size, start))]
        return size


class Pool:
    """Free memory: what was given back last by its size, and older blocks, joined.

    ``take`` gives memory or raises ``MemoryError``, ``give`` gives it back. Finalisers release
    memory in the middle of any other method, so ``free`` is one operation on a list and takes no
    lock; blocks are joined when no released one has the size that is needed. A block is split for
    a request of at least half of it, or if it has at most ``LARGE`` bytes: otherwise small arrays
    that live long would occupy the memory of large ones. Where the driver has no more, any block
    is split. Before more is free than ever was in use, what can be given back is given back.
    """

    def __init__(self, take: Callable[[int], int], give: Callable[[int], None]) -> None:
        self._take, self._give = take, give
        self._released: dict[int, list[int]] = {}
        self._sizes: dict[int, int] = {}
        self._blocks, self._lock, self._peak = Blocks(), threading.Lock(), 0

    def allocate(self, count: int) -> int:
        """Memory of at least so many bytes."""
        size = -(-count // SMALL) * SMALL or SMALL
        try:
            return self._released[size].pop()
        except LookupError:
            pass
        with self._lock:
            address = self._found(size)
            self._released.setdefault(size, [])
            self._sizes[address] = size
        return address

    def free(self, address: int) -> None:
        """Keeps memory for the next."""
        self._released[self._sizes[address]].append(address)

    def empty(self) -> None:
        """Gives back to the driver what nobody uses a part of."""
        with self._lock:
            self._empty()

    def _found(self, size: int) -> int:
        """Memory by splitting a block, from the driver, or by splitting any block."""
        most = max(2 * size, LARGE)
        address = self._blocks.cut(size, most)
        if address is None:
            self._join()
            address = self._blocks.cut(size, most)
        return self._from_driver(size) if address is None else address

    def _from_driver(self, size: int) -> int:
        free = self._blocks.bytes()
        self._peak = max(self._peak, sum(self._blocks.taken.values()) - free + size)
        if free > self._peak:
            self._empty()
        count = -(-size // LARGE) * LARGE
        try:
            return self._segment(size, count)
        except MemoryError:
            self._empty()
        try:
            return self._segment(size, count)
        except MemoryError:
            address = self._blocks.cut(size, float("inf"))
        return self._segment(size, size) if address is None else address

    def _segment(self, size: int, count: int) -> int:
        """Takes ``count`` bytes from the driver, of which ``size`` are used now."""
        address = self._take(count)
        self._blocks.taken[address] = count
        if count > size:
            self._blocks.add(address + size, count - size)
        return address

    def _join(self) -> None:
        """Joins what was released with its neighbours."""
        for released in list(self._released.values()):
            while (address := _popped(released)) is not None:
                self._blocks.add(address, self._sizes.pop(address))

    def _empty(self) -> None:
        self._join()
        for address in self._blocks.whole():
            self._give(address)


def _popped(released: list[int]) -> int | None:
    """The last address of a list from which others take, without a lock, at any time."""
    try:
        return released.pop()
    except IndexError:
        return None
