"""A device that is emulated on the CPU, for tests: the same programs, step by step."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.gen.gpu.device import DeviceCode, Ready
from dlvm.ir import Array

from .machine import emulated

ALIGNMENT = 256
"""Of what a driver allocates."""


class EmulatedDevice:
    """Memory of the host, and kernels that run thread by thread in an order drawn from a seed."""

    name = "emulator"
    place = 1, 0
    """A CPU, to DLPack."""
    stream = 0
    shares = True

    def __init__(self, seed: int = 0, races: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.races = races
        self.held: dict[int, Array] = {}
        self.launches = 0

    def allocate(self, count: int) -> int:
        """Memory that starts as garbage."""
        held = np.full(count + ALIGNMENT, 0xA5, np.uint8)
        address = held.ctypes.data + -held.ctypes.data % ALIGNMENT
        self.held[address] = held
        return address

    def free(self, address: int) -> None:
        """Gives memory back."""
        del self.held[address]

    def write(self, address: int, array: Array) -> None:
        """A copy to the device."""
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def read(self, address: int, array: Array) -> None:
        """A copy from the device."""
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy on the device."""
        ctypes.memmove(target, source, count)

    def launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        """All blocks of a kernel."""
        self.launches += 1
        seed = int(self.rng.integers(1 << 31))
        kernel = ready.kernel
        told = ready.blocks, kernel.lanes, ready.memories(at), ready.sizes, status
        emulated(code.ptx, kernel.loops.name).launch(*told, seed, self.races)

    def wait(self) -> None:
        """Nothing, as every launch has ended."""

    def follow(self, stream: int) -> None:
        """Nothing, as others run on the CPU as well."""

    def ordinal(self, address: int) -> int | None:
        """None, as it is all memory of the host."""

    def mark(self) -> Any:
        """The time now."""
        return time.perf_counter()

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two points."""
        return 1e3 * (end - start)
