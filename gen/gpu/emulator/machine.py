"""Launches of emulated kernels: blocks one after the other, lanes in an order drawn from a seed.

A round runs every thread that is ready to where it waits. Then the warps exchange what their lanes
give, and where all lanes of a block are at the barrier they go on. What no real GPU would do, or
what depends on its timing, is an ``EmulatorError`` that names the kernel, the array and the lane.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from dlvm.gen.gpu.device import Memory
from dlvm.gen.llvm.binding import Library, coroutine_code
from dlvm.gen.loops.statements import WARP
from dlvm.gen.loops.status import WORDS
from dlvm.ir import Array
from dlvm.target import Target

from .asynchronous import MOST
from .memory import (
    AT_BARRIER,
    BLOCK,
    BLOCKS,
    CHANGED,
    CLAMP,
    CONTEXT,
    DONE,
    EPOCH,
    FAULT,
    GIVE,
    GLOBALS,
    GOT,
    IN_WARP,
    LANE,
    LAUNCH,
    LINE,
    MANY,
    MASK,
    MISALIGNED,
    NEVER_WRITTEN,
    NOWHERE,
    OFFSET,
    OTHER,
    OUTSIDE,
    READY,
    REGION,
    REGION_WORDS,
    REGISTERS_GIVEN,
    REGISTERS_GOT,
    SHAREDS,
    SITE,
    SPARE,
    STATE,
    TOO_MANY,
    WHERE,
    WHO,
    WITH,
)
from .products import multiplied
from .ptx import Instruction
from .regions import Stamps, shared_base, stamped, starts
from .threads import Threads, threads

POISON = 0xA5
"""What shared memory holds before somebody writes there."""
FAULTS = {
    OUTSIDE: "outside of the array",
    MISALIGNED: "the address is no multiple of the bytes that are read or written",
    NEVER_WRITTEN: "nobody has written what is read",
    CHANGED: "what is read as a constant is written",
}


class EmulatorError(Exception):
    """What a kernel does that a GPU does not allow, or does in an order of its own."""


@dataclass
class EmulatedKernel:
    """One kernel of a module of PTX, compiled for this processor, that can be launched."""

    text: str
    name: str
    code: Threads = field(init=False)

    def __post_init__(self) -> None:
        self.code = threads(self.text, self.name)
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
        code, given = self.code, [*buffers, Memory(status, 8 * WORDS)]
        if code.lanes and block != code.lanes:
            raise EmulatorError(f"@{code.name}: .reqntid {code.lanes}, launched with {block} lanes")
        if (len(given), len(given) + len(sizes)) != (pointers(code), len(code.parameters)):
            raise EmulatorError(f"@{code.name}: launched with other parameters than its own")
        promised = [p.align for p in code.parameters if p.align]
        for i, (b, align) in enumerate(zip(given, promised, strict=True)):
            if b.bytes and b.address % align:
                raise EmulatorError(f"@{code.name}: b{i} is at no multiple of {align}, as promised")
        launch = _Launch(self, block, given, races, np.random.default_rng(seed))
        *first, last = starts(given)
        arguments = np.array([*first, *sizes, last], np.int64)
        for number in launch.rng.permutation(grid):
            launch.block(int(number), grid, arguments)


def pointers(code: Threads) -> int:
    """How many parameters of a kernel are addresses."""
    return sum(p.align > 0 for p in code.parameters)


def aligned(words: int) -> Array:
    """Zeros that start at a multiple of 64 bytes."""
    held = np.zeros(words + 8, np.int64)
    start = -held.ctypes.data % 64 // 8
    return held[start : start + words]


@lru_cache(maxsize=256)
def emulated(text: str, name: str) -> EmulatedKernel:
    """The kernel of a text and a name, made once; two threads must not launch it at once."""
    return EmulatedKernel(text, name)


class _Launch:
    """One launch: the records of its threads, and those of the arrays that they touch."""

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
        self.held: list[Array | Stamps] = []
        self.shared: list[tuple[Array, Stamps]] = []
        self.names, code = list[str](), kernel.code
        regions = [*self._buffers(buffers), *self._tables()]
        self.record[GLOBALS], self.record[SHAREDS] = len(regions), len(code.shared)
        for i, array in enumerate(code.shared):
            memory = aligned(array.bytes // 8 + 1).view(np.uint8)[: array.bytes]
            stamps = Stamps(array.bytes)
            self.shared.append((memory, stamps))
            self.names.append(f"@{array.name}")
            regions.append(self._region(shared_base(i, array), memory, stamps, False))
        self.regions = np.array(regions, np.int64).reshape(-1, REGION_WORDS)
        self.record[0] = self.regions.ctypes.data

    def _buffers(self, buffers: Sequence[Memory]) -> Iterator[list[int]]:
        self.names += [*(f"b{i}" for i in range(len(buffers) - 1)), "the status"]
        stamps = stamped(buffers) if self.races else []
        self.held += [s for s, _ in stamps]
        for i, (b, base) in enumerate(zip(buffers, starts(buffers), strict=True)):
            words = stamps[i][0].words(stamps[i][1]) if self.races and b.bytes else [0, 0, 0]
            yield [base, b.bytes, b.address, *words, int(b.written)]

    def _tables(self) -> Iterator[list[int]]:
        for name, base, content in self.kernel.code.tables:
            memory, stamps = np.frombuffer(content, np.uint8).copy(), Stamps(len(content))
            self.names.append(f"@{name}")
            self.held += [memory, stamps]
            yield self._region(base, memory, stamps, True)

    def _region(self, base: int, memory: Array, stamps: Stamps, written: bool) -> list[int]:
        words = stamps.words() if self.races else [0, 0, 0]
        return [base, memory.nbytes, memory.ctypes.data, *words, int(written)]

    def block(self, number: int, blocks: int, arguments: Array) -> None:
        """All threads of one block, from the start to the end."""
        for memory, stamps in self.shared:
            memory[...] = POISON
            stamps.clear()
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
        site = self.kernel.code.sites[int(self.record[LINE])].text
        lane, block, at = (int(self.record[i]) for i in (WHO, WHERE, OFFSET))
        who = f"@{self.kernel.code.name}: lane {lane} of block {block}"
        if kind == NOWHERE:
            raise EmulatorError(f"{who}: address {at:#x} is in no array of its space: {site}")
        if kind == TOO_MANY:
            raise EmulatorError(f"{who}: more than {MOST} asynchronous copies of one lane: {site}")
        what = FAULTS.get(kind) or f"a race with {_described(int(self.record[OTHER]))}"
        name = self.names[int(self.record[REGION])]
        raise EmulatorError(f"{who}, byte {at} of {name}: {what}: {site}")

    def _go_on(self) -> None:
        """Warps that exchange something go on, else the block from its barrier."""
        state = self.contexts[:, STATE]
        warps = {int(lane) // WARP for lane in np.flatnonzero(state == IN_WARP)}
        for warp in sorted(warps):
            self._exchanges(self.contexts[warp * WARP : (warp + 1) * WARP], warp)
        if not warps:
            self._barrier()

    def _barrier(self) -> None:
        """All lanes of a block are at one barrier, those of a warp at one instruction."""
        c = self.contexts
        if not (c[:, STATE] == AT_BARRIER).all():
            gone = int((c[:, STATE] == DONE).sum())
            self._stuck(f"{gone} of {self.lanes} lanes have ended, the others are at a barrier")
        if len(set(c[:, WITH])) > 1:
            self._stuck("lanes of one block are at barriers of different numbers")
        for warp in range(0, self.lanes, WARP):
            if len(set(c[warp : warp + WARP, SITE])) > 1:
                self._stuck(f"lanes of warp {warp // WARP} are at different .aligned barriers")
        c[:, STATE] = READY
        c[:, EPOCH] += 1

    def _stuck(self, what: str) -> None:
        raise EmulatorError(f"@{self.kernel.code.name}: {what}")

    def _exchanges(self, lanes: Array, warp: int) -> None:
        """The exchanges whose lanes are all there; an error if there is none.

        An instruction names its lanes by a mask. Who executes it must be one of them, and it waits
        for all others.
        """
        waits = lanes[:, STATE] == IN_WARP
        done = False
        for site, mask in {(int(c[SITE]), int(c[MASK])) for c in lanes[waits]}:
            here = waits & (lanes[:, SITE] == site) & (lanes[:, MASK] == mask)
            named = np.array([mask >> i & 1 for i in range(len(lanes))], bool)
            text = self.kernel.code.sites[site].text
            if (here & ~named).any():
                self._stuck(f"a lane of warp {warp} is not in the mask of its own: {text}")
            if (here == named).all():
                self._exchange(lanes, here, self.kernel.code.sites[site])
                done = True
        if not done:
            self._stuck(f"not all lanes of warp {warp} are at one exchange")

    def _exchange(self, lanes: Array, here: Array, site: Instruction) -> None:
        """What some lanes of a warp give one another."""
        if site.opcode.startswith("mma."):
            if len(lanes) < WARP or not here.all():
                self._stuck(f"a warp with fewer than {WARP} lanes: {site.text}")
            given = lanes[:, REGISTERS_GIVEN : REGISTERS_GIVEN + 10]
            lanes[:, REGISTERS_GOT : REGISTERS_GOT + 4] = multiplied(site.opcode, given)
        else:
            source = _sources(site.opcode.split(".")[2], lanes)
            if not here[source[here]].all():
                self._stuck(f"a value is read of a lane that takes no part: {site.text}")
            lanes[here, GOT] = lanes[source[here], GIVE]
        lanes[here, STATE] = READY


def _described(stamp: int) -> str:
    lane = f"lane {(stamp & MANY) - 1}" if stamp & MANY != MANY else "several lanes"
    return f"{lane} of block {(stamp >> 40) - 1}"


def _sources(how: str, lanes: Array) -> Array:
    """The lane that each reads from, by the formulas of the PTX ISA; its own if out of range."""
    lane, far = np.arange(len(lanes)), lanes[:, WITH] & 31
    segment, clamp = lanes[:, CLAMP] >> 8 & 31, lanes[:, CLAMP] & 31
    first = lane & segment
    last = first | (clamp & ~segment)
    source = {
        "down": lane + far,
        "up": lane - far,
        "bfly": lane ^ far,
        "idx": first | (far & ~segment),
    }[how]
    inside = source >= last if how == "up" else source <= last
    return np.where(inside, source, lane)
