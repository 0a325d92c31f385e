"""Memory that calls borrow: a bounded pool of aligned blocks, safe under threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from dlvm.gen.program.memory import ALIGNMENT
from dlvm.ir import Array

KEPT = 16
"""How many blocks wait for the next call; more exist only while more calls run at once."""


class Arenas:
    """Blocks of one executable; a call has one to itself."""

    def __init__(self) -> None:
        self._free: deque[Array] = deque(maxlen=KEPT)

    @contextmanager
    def lease(self, size: int) -> Generator[int]:
        """The aligned address of at least ``size`` bytes."""
        block = self._take(size + ALIGNMENT)
        address = int(block.ctypes.data)
        yield address + -address % ALIGNMENT
        self._free.append(block)

    def _take(self, size: int) -> Array:
        """A block that is large enough; one that is not goes. Each step is one of the deque's."""
        try:
            block = self._free.pop()
        except IndexError:
            block = None
        return np.empty(size, np.uint8) if block is None or block.size < size else block
