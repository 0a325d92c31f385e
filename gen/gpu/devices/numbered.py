"""Devices whose memory has no addresses: numbers that no other buffer of the device has serve.

A kernel then gets a buffer and how far in it an address lies.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from bisect import bisect_right, insort
from time import perf_counter
from typing import Any

from dlvm.base.errors import UserError

APART = 256
"""Bytes between the addresses of two buffers, and of which an address is a multiple."""
WORD = 4
"""Bytes of which copies have a multiple, at a multiple of them."""

LONGEST = (1 << 31) - 1
"""The largest index where indices have 32 bits."""
WITHOUT = "leave the target out, and the function runs on the CPU"


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


def word_of(n: int, target: str, remedy: str = WITHOUT) -> int:
    """A size as a kernel with indices of 32 bits gets it."""
    if n > LONGEST:
        said = f"sizes and indices of target={target!r} have 32 bits, and {n:,} needs more"
        raise UserError(said, remedy=remedy)
    return n & 0xFFFFFFFF


class NumberedDevice:
    """What such devices have in common: no other library shares their queue or their memory."""

    name: str
    stream = 0
    shares = False

    def __init__(self) -> None:
        self.memory = Numbered()

    def free(self, address: int) -> None:
        """Gives memory back once all that was asked of it has ended."""
        self.memory.remove(address)

    def follow(self, stream: int) -> None:
        """Nothing, as no other library shares the queue."""

    def ordinal(self, address: int) -> int | None:
        """None, as addresses are numbers of our own."""

    def check_arrays(self, count: int, most: int) -> None:
        """An error for a kernel with more arrays than the device gives to one, the status apart."""
        if count >= most:
            raise UserError(
                f"a kernel has {count} arrays, and {self.name} gives a kernel {most - 1}",
                remedy="compute less in one function, or leave the target out",
            )

    def check_reach(self, size: int, last: int, count: int, most: int) -> None:
        """An error for an array of which a kernel does not reach all."""
        if size > most or last > LONGEST:
            raise UserError(
                f"a kernel on {self.name} reaches {most:,} bytes of an array, not {count:,}",
                remedy="leave the target out, or make the arrays smaller",
            )


class TimedByHost(NumberedDevice, ABC):
    """One of these without a clock of its own: points in time are those of the host."""

    @abstractmethod
    def wait(self) -> None:
        """Returns once all that was asked has ended."""

    def mark(self) -> Any:
        """A point in the order of launches: the time when all before it have ended."""
        self.wait()
        return perf_counter()

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two points."""
        return 1e3 * (end - start)
