"""A device that writes down what a program asks of it, for a machine that has no dlvm.

It is the emulator, which runs small programs, so that conditions which the host reads are those of
a GPU. Large programs are only written down: their memory is never touched.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dlvm.gen.gpu.device import DeviceCode, Ready
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.ir import Array

Place = tuple[int, int]
"""The number of an allocation, and an offset in bytes."""


def fingerprint(array: Array) -> str:
    """What tells arrays apart by their bytes."""
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view("u1")).hexdigest()


class Recorder(EmulatedDevice):
    """Steps of a call as lists. An array that a recipe of ``drawn`` makes is told by it."""

    def __init__(self, drawn: Mapping[str, Sequence[Any]], runs: bool) -> None:
        super().__init__(races=False)
        self.drawn, self.runs = drawn, runs
        self.steps: list[list[Any]] = []
        self.stored: dict[str, Array] = {}
        self._starts: list[int] = []
        self._numbers: dict[int, int] = {}

    def allocate(self, count: int) -> int:
        """Memory that stays until the end, so that each address belongs to one allocation."""
        if self.runs:
            address = super().allocate(count)
        else:
            self.held[len(self.held)] = held = np.empty(count + 512, np.uint8)
            address = held.ctypes.data + -held.ctypes.data % 512
        number = self._numbers[address] = len(self._numbers)
        self._starts.append(address)
        self._starts.sort()
        self.steps.append(["alloc", number, count])
        return address

    def free(self, address: int) -> None:
        """Nothing."""

    def write(self, address: int, array: Array) -> None:
        """A copy to the device, by its recipe or by its bytes."""
        if self.runs:
            super().write(address, array)
        source = self.drawn.get(fingerprint(array))
        self.steps.append(["write", self.place(address), source or self._keep("w", array)])

    def read(self, address: int, array: Array) -> None:
        """A copy from the device: what a condition is, or that nothing has failed."""
        if self.runs:
            super().read(address, array)
        else:
            array[...] = 0
        self.steps.append(["read", self.place(address), self._keep("k", array)])

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy on the device."""
        if self.runs:
            super().copy(target, source, count)
        if count:
            self.steps.append(["copy", self.place(target), self.place(source), count])

    def launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        """A kernel with its blocks, lanes, places and sizes."""
        kernel = ready.kernel
        told = kernel.loops.name, ready.blocks, kernel.lanes
        sizes = [int(s) for s in ready.sizes]
        self.steps.append(["launch", *told, [*map(self.place, at)], sizes, self.place(status)])
        if self.runs:
            super().launch(code, ready, at, status)

    def place(self, address: int) -> Place:
        """Where an address is."""
        start = self._starts[bisect_right(self._starts, address) - 1]
        return self._numbers[start], address - start

    def _keep(self, kind: str, array: Array) -> str:
        name = f"{kind}{len(self.stored)}"
        self.stored[name] = np.array(array).reshape(-1).view("u1")
        return name
