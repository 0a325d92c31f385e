"""The arrays of a launch as its checks see them: addresses, sizes, and stamps of who touched what.

For a kernel each array begins at an address of its own, far from all others, so that no address
past the end of one is in another. Buffers that overlap in memory have their stamps in common.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dlvm.gen.gpu.device import Memory
from dlvm.ir import Array

from .memory import GLOBAL_SHIFT, SHARED_SHIFT
from .ptx import SharedArray

PAGE = 4096
"""Addresses of a kernel are as even as those of this process, up to multiples of so many bytes."""


def global_base(index: int) -> int:
    """The first address of a buffer or table, but for what its alignment adds."""
    return ((index + 1) << GLOBAL_SHIFT) + (1 << (GLOBAL_SHIFT - 1))


def shared_base(index: int, array: SharedArray) -> int:
    """The first address of a shared array, which is a multiple of its alignment and no more."""
    return ((index + 1) << SHARED_SHIFT) + array.align


def starts(buffers: Sequence[Memory]) -> list[int]:
    """The addresses of buffers for a kernel."""
    return [global_base(i) + b.address % PAGE for i, b in enumerate(buffers)]


class Stamps:
    """Beside each byte who wrote it last, who read it since, and whether that was as a constant."""

    def __init__(self, count: int) -> None:
        self.writers = np.zeros(count, np.int64)
        self.readers = np.zeros(count, np.int64)
        self.constants = np.zeros(count, np.uint8)

    def words(self, at: int = 0) -> list[int]:
        """Where the stamps of a byte are."""
        return [x.ctypes.data + at * x.itemsize for x in self._all()]

    def clear(self) -> None:
        """As if nobody had touched a byte."""
        for x in self._all():
            x[...] = 0

    def _all(self) -> tuple[Array, Array, Array]:
        return self.writers, self.readers, self.constants


def stamped(buffers: Sequence[Memory]) -> list[tuple[Stamps, int]]:
    """The stamps of each buffer, and the place of its first byte among them."""
    found: list[tuple[Stamps, int]] = [(Stamps(0), 0)] * len(buffers)
    group, start, end = list[int](), 0, 0
    for i in [*sorted(range(len(buffers)), key=lambda i: buffers[i].address), -1]:
        if i < 0 or buffers[i].address >= end:
            stamps = Stamps(end - start)
            for j in group:
                found[j] = stamps, buffers[j].address - start
            group, start, end = [], buffers[i].address, buffers[i].address
        group.append(i)
        end = max(end, buffers[i].address + buffers[i].bytes)
    return found
