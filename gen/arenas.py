"""Memory that calls borrow: a bounded pool of aligned blocks, safe under threads."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from dlvm.ir import Array

from .memory import ALIGNMENT

KEPT = 16
"""How many blocks wait for the next call; more exist only while more calls run at once."""


class Arenas:
    """Blocks of one executable; a call has one to itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[Array] = []

    @contextmanager
    def lease(self, size: int) -> Generator[int]:
        """The aligned address of at least ``size`` bytes."""
        block = self._take(size)
        address = int(block.ctypes.data)
        yield address + -address % ALIGNMENT
        with self._lock:
            if len(self._free) < KEPT:
                self._free.append(block)

    def _take(self, size: int) -> Array:
        with self._lock:
            for i, block in enumerate(self._free):
                if block.size >= size + ALIGNMENT:
                    return self._free.pop(i)
            if self._free:
                self._free.pop()
        return np.empty(size + ALIGNMENT, np.uint8)
