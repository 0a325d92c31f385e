"""Addresses for memory that has none: numbers that no other buffer of the device has.

A kernel then gets a buffer and how far in it an address lies.
"""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from typing import Any

APART = 256
"""Bytes between the addresses of two buffers, and of which an address is a multiple."""
WORD = 4
"""Bytes of which copies have a multiple, at a multiple of them."""


def words(offset: int, count: int) -> tuple[int, int]:
    """Where the words start and end in which these bytes lie."""
    return offset // WORD * WORD, -(-(offset + count) // WORD) * WORD


def bound(offset: int, count: int, whole: int) -> tuple[int, int]:
    """What is bound of a buffer of ``whole`` bytes for some bytes of it: its start and its size.

    A binding starts at a multiple of ``APART``, and has room for an element of any type.
    """
    start = offset // APART * APART
    return start, min(words(offset, max(count, 8))[1], whole) - start


class Numbered:
    """The buffers of a device by their addresses."""

    def __init__(self) -> None:
        self._next = APART
        self._starts: list[int] = []
        self._held: dict[int, Any] = {}
        self._lock = threading.RLock()

    def add(self, buffer: Any, size: int) -> int:
        """The address that a buffer has from now on."""
        with self._lock:
            address = self._next
            self._next += -(-size // APART) * APART + APART
            self._held[address] = buffer
            insort(self._starts, address)
        return address

    def remove(self, address: int) -> None:
        """Forgets a buffer."""
        with self._lock:
            del self._held[address]
            del self._starts[bisect_right(self._starts, address) - 1]

    def at(self, address: int) -> tuple[Any, int]:
        """The buffer in which an address lies, and how far; an empty array may lie in none."""
        with self._lock:
            start = self._starts[max(bisect_right(self._starts, address) - 1, 0)]
            return self._held[start], max(address - start, 0)

    def __len__(self) -> int:
        return len(self._held)
