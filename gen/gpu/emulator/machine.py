"""Launches of emulated kernels: blocks one after the other, lanes in an order drawn from a seed.

A round runs every thread that is ready to where it waits. Then the warps exchange what their lanes
give, and where all lanes of a block are at the barrier they go on. What no real GPU would do, or
what depends on its timing, is an ``EmulatorError`` that names the kernel, the array and the lane.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dlvm.gen.gpu.device import Memory
from dlvm.gen.llvm.binding import Library, coroutine_code
from dlvm.gen.loops.statements import WARP
from dlvm.ir import Array
from dlvm.target import Target

from .asynchronous import MOST, TOO_MANY
from .memory import (
    AT_BARRIER,
    BLOCK,
    BLOCKS,
    CONTEXT,
    DONE,
    EPOCH,
    FAULT,
    GIVE,
    GOT,
    IN_WARP,
    LANE,
    LAUNCH,
    MISALIGNED,
    NEVER_WRITTEN,
    OFFSET,
    OTHER,
    OUTSIDE,
    READY,
    REGION,
    REGION_WORDS,
    REGISTERS_GIVEN,
    REGISTERS_GOT,
    SITE,
    SPARE,
    STATE,
    WHERE,
    WHO,
    WITH,
)
from .products import multiplied
from .threads import Threads, threads

POISON = 0xA5
"""What shared memory holds before somebody writes there."""


class EmulatorError(Exception):
    """What a kernel does that a GPU does not allow, or does in an order of its own."""


@dataclass
class EmulatedKernel:
    """One kernel, compiled for this processor, that can be launched."""

    text: str
    code: Threads = field(init=False)

    def __post_init__(self) -> None:
        self.code = threads(self.text)
        host = Target.host()
        self.library = Library(coroutine_code(self.code.text, host), host)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
        self.make: Callable[..., None] = call(self.library.address("emu.make"))
        self.round: Callable[..., None] = call(self.library.address("emu.round"))
        end = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2)
        self.end: Callable[..., None] = end(self.library.address("emu.end"))

    def launch(
        self,
        grid: int,
        block: int,
        buffers: Sequence[Memory],
        sizes: Sequence[int],
        status: int,
        seed: int = 0,
        races: bool = True,
    ) -> None:
        """Runs all blocks; raises the first fault that was seen."""
        launch = _Launch(self, block, buffers, races, np.random.default_rng(seed))
        words = [b.address for b in buffers] + [*sizes, status]
        arguments = np.array(words, np.int64)
        for number in launch.rng.permutation(grid):
            launch.block(int(number), grid, arguments)


def aligned(words: int) -> Array:
    """Zeros that start at a multiple of 64 bytes."""
    held = np.zeros(words + 8, np.int64)
    start = -held.ctypes.data % 64 // 8
    return held[start : start + words]


@lru_cache(maxsize=256)
def emulated(text: str) -> EmulatedKernel:
    """The kernel of a text, made once; two threads must not launch it at once."""
    return EmulatedKernel(text)


class _Launch:
    """One launch: the records of its threads, and the stamps of what they touch."""

    def __init__(
        self,
        kernel: EmulatedKernel,
        lanes: int,
        buffers: Sequence[Memory],
        races: bool,
        rng: np.random.Generator,
    ) -> None:
        self.kernel, self.lanes, self.rng, self.races = kernel, lanes, rng, races
        self.contexts = np.zeros((lanes, CONTEXT), np.int64)
        self.handles = np.zeros(lanes, np.int64)
        self.record = aligned(SPARE + 8)
        self.names = [*kernel.code.buffers, *(f"@{s.name}" for s in kernel.code.shared)]
        self.stamps: list[Array] = []
        regions = [self._region(m.address, m.bytes, m.written) for m in buffers]
        self.shared: list[tuple[Array, Array]] = []
        for array in kernel.code.shared:
            address = kernel.library.data(array.name)
            regions.append(self._region(address, array.bytes, False))
            held = (ctypes.c_uint8 * array.bytes).from_address(address)
            self.shared.append((np.ctypeslib.as_array(held), self.stamps[-1]))
        self.regions = np.array(regions, np.int64).reshape(-1, REGION_WORDS)
        self.record[0] = self.regions.ctypes.data

    def _region(self, address: int, size: int, written: bool) -> list[int]:
        stamps = np.zeros((2, size if self.races else 0), np.int64)
        self.stamps.append(stamps)
        where = [s.ctypes.data if self.races and size else 0 for s in stamps]
        return [address, size, *where, int(written)]

    def block(self, number: int, blocks: int, arguments: Array) -> None:
        """All threads of one block, from the start to the end."""
        for memory, stamps in self.shared:
            memory[...] = POISON
            stamps[...] = 0
        c = self.contexts
        c[...] = 0
        c[:, LANE], c[:, BLOCK], c[:, BLOCKS] = range(self.lanes), number, blocks
        c[:, LAUNCH] = self.record.ctypes.data
        code, places = self.kernel, (c.ctypes.data, self.handles.ctypes.data)
        code.make(arguments.ctypes.data, *places, self.lanes)
        while True:
            order = self.rng.permutation(self.lanes).astype(np.int64)
            code.round(*places, order.ctypes.data, self.lanes)
            self._check()
            if (c[:, STATE] == DONE).all():
                break
            self._go_on()
        code.end(places[1], self.lanes)

    def _check(self) -> None:
        """Raises the first fault of a round."""
        kind = int(self.record[FAULT])
        if not kind:
            return
        name = self.names[int(self.record[REGION])]
        lane, block, at = (int(self.record[i]) for i in (WHO, WHERE, OFFSET))
        where = f"@{self.kernel.code.name}: lane {lane} of block {block}, byte {at} of {name}"
        if kind == OUTSIDE:
            raise EmulatorError(f"{where}: outside of the array")
        if kind == TOO_MANY:
            raise EmulatorError(f"{where}: more than {MOST} asynchronous copies of one lane")
        if kind == MISALIGNED:
            raise EmulatorError(f"{where}: the address is no multiple of the bytes that are read")
        if kind == NEVER_WRITTEN:
            raise EmulatorError(f"{where}: nobody has written what is read")
        other = int(self.record[OTHER])
        who = f"lane {(other & 0xFFFF) - 1}" if other & 0xFFFF != 0xFFFF else "several lanes"
        raise EmulatorError(f"{where}: a race with {who} of block {(other >> 40) - 1}")

    def _go_on(self) -> None:
        """Warps whose lanes all wait for one another go on, else the block from its barrier."""
        state = self.contexts[:, STATE]
        warps = {int(lane) // WARP for lane in np.flatnonzero(state == IN_WARP)}
        for warp in sorted(warps):
            self._exchange(self.contexts[warp * WARP : (warp + 1) * WARP], warp)
        if warps:
            return
        if not (state == AT_BARRIER).all():
            gone = int((state == DONE).sum())
            self._stuck(f"{gone} of {self.lanes} lanes have ended, the others are at a barrier")
        state[...] = READY
        self.contexts[:, EPOCH] += 1

    def _stuck(self, what: str) -> None:
        raise EmulatorError(f"@{self.kernel.code.name}: {what}")

    def _exchange(self, lanes: Array, warp: int) -> None:
        """What the lanes of a warp give one another."""
        if not (lanes[:, STATE] == IN_WARP).all() or len(set(lanes[:, SITE])) > 1:
            self._stuck(f"not all lanes of warp {warp} are at one exchange")
        site = self.kernel.code.sites[int(lanes[0, SITE])]
        if site.startswith("mma."):
            given = lanes[:, REGISTERS_GIVEN : REGISTERS_GIVEN + 10] & 0xFFFFFFFF
            lanes[:, REGISTERS_GOT : REGISTERS_GOT + 4] = multiplied(site, given)
            lanes[:, STATE] = READY
            return
        lane, other = np.arange(len(lanes)), lanes[:, WITH]
        sources = {
            "down": lane + other,
            "up": lane - other,
            "bfly": lane ^ other,
            "idx": other % WARP,
        }
        source = sources[site.split(".")[2]]
        outside = (source < 0) | (source >= len(lanes))
        source = np.where(outside, lane, source)
        lanes[:, GOT] = lanes[source, GIVE]
        lanes[:, STATE] = READY
