"""A program on a GPU or its emulator: the memory of its functions, and each kernel a launch.

The host walks the steps: it reads conditions and tapes from the device, and counts the trips of a
loop. Nothing else waits for the device. The status of a call is read with conditions and at the
end; a kernel that fails leaves the first failure there, and what runs after it touches only memory
of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from dlvm.gen.loops.status import WORDS
from dlvm.gen.program.steps import For, Launch, Storage, View
from dlvm.gen.program.walking import Ended, uninitialised, walk
from dlvm.ir import Array
from dlvm.ir.sizes.dims import Dim, evaluate
from dlvm.ir.taps import Line

from .arrays import Block
from .device import Device, DeviceCode
from .graphs import Graphs
from .layout import Layout, Place


@dataclass
class Shared:
    """What the activations of one call share: the device, its code, constants, status and tape.

    ``status`` and ``constants`` are addresses. Without ``fails`` no kernel of the program writes to
    the status, and nobody reads it.
    """

    device: Device
    code: DeviceCode
    constants: Sequence[int]
    status: int
    fails: bool = True
    graphs: Graphs | None = None
    """Where calls are captured: those that nothing decides which the device computes."""
    loops: Graphs | None = None
    """Where counted loops of other calls are captured, if nothing inside waits for the device."""
    cells: list[tuple[int, list[Block]]] = field(default_factory=list[tuple[int, list[Block]]])
    words: Array = field(default_factory=lambda: np.zeros(WORDS, np.int64))

    def check(self) -> None:
        """Ends the call if a kernel has failed."""
        if not self.fails:
            return
        self.device.read(self.status, self.words)
        if self.words[0]:
            raise Ended


@dataclass
class DeviceActivation:
    """One function of a program on its way: where its memory is, and its sizes.

    ``given`` are the addresses of the storages that its caller owns.
    """

    layout: Layout
    shared: Shared
    given: Sequence[int]
    bases: Sequence[int] = ()
    """Addresses from which places count: of the arena, of what is given, and of constants."""

    def __post_init__(self) -> None:
        self.program = self.layout.program
        self.sizes = dict(self.layout.sizes)
        self.words, self.cells = self.shared.words, self.shared.cells
        self.launches = 0
        self.inside = False  # of a loop that is asked for as a whole

    def run(self) -> None:
        """All steps; what fails is in the status."""
        with suppress(Ended):
            self.steps()

    def steps(self) -> None:
        """All steps, in memory that is given back once they have been asked for."""
        device = self.shared.device
        arena = device.allocate(self.layout.arena) if self.layout.arena else 0
        try:
            self.bases = [arena, *self.given, *self.shared.constants]
            if self.shared.graphs is None:
                walk(self.program.steps, self)
            else:
                addresses = arena, self.shared.status, *self.given
                self.shared.graphs.run(self.layout, addresses, self._ask)
        finally:
            if arena:
                device.free(arena)

    def _ask(self) -> int:
        """All steps; how many kernels were launched."""
        straight = self.layout.straight
        if straight is not None:
            shared, bases = self.shared, self.bases
            for ready, places in straight:
                at = [bases[i] + offset for i, offset in places]
                shared.device.launch(shared.code, ready, at, shared.status)
            return len(straight)
        self.launches = 0
        walk(self.program.steps, self)
        return self.launches

    def loop(self, step: For, trips: Callable[[], None]) -> None:
        """Run a loop by one launch if it recurs, and nothing inside waits for the device."""
        loops = self.shared.loops
        if loops is None or self.inside or not loops.takes(step):
            trips()
            return

        def ask() -> int:
            before, self.inside = self.launches, True
            try:
                trips()
            finally:
                self.inside = False
            return self.launches - before

        around = [(n, size) for n, size in self.sizes.items() if n != step.variable]
        addresses = self.bases[0], self.shared.status, *self.given
        loops.run(self.layout, (id(step), *addresses, *around), ask)

    def size(self, dim: Dim) -> int:
        """The number that a size has now."""
        return evaluate(dim, self.sizes)

    def address(self, view: View) -> int:
        """Where a view starts."""
        return self.at(self.layout.place(view))

    def at(self, place: Place) -> int:
        """The address of a place."""
        return self.bases[place.base] + self.size(place.offset)

    def bytes(self, view: View) -> int:
        """How much a view is."""
        return self.size(view.type.size) * view.type.dtype.bytes

    def read(self, view: View) -> Array:
        """A copy of a view on the host."""
        found = uninitialised(view, self.sizes)
        self.shared.device.read(self.address(view), found)
        return found

    def write(self, view: View, array: Array) -> None:
        """Copy an array of the host into a view."""
        self.shared.device.write(self.address(view), array)

    def copy(self, source: View, target: View) -> None:
        """Copy one view into another."""
        self.shared.device.copy(self.address(target), self.address(source), self.bytes(target))

    def allocate(self, view: View) -> Block:
        """Memory for the elements of a view."""
        return Block(self.shared.device, self.bytes(view))

    def save(self, view: View, held: Block) -> None:
        """Copy a view into memory that was allocated for it."""
        self.shared.device.copy(held.address, self.address(view), held.bytes)

    def restore(self, view: View, held: Block) -> None:
        """Copy memory that was allocated for a view into it."""
        self.shared.device.copy(self.address(view), held.address, held.bytes)

    def say(self, line: Line, /) -> None:
        """Print a line."""
        print(line)

    def holds(self, condition: View) -> bool:
        """What a condition is, once all launches before have ended without a failure."""
        self.shared.check()
        return bool(self.read(condition))

    def launch(self, step: Launch) -> None:
        """The phases of a kernel on its views."""
        shared, bases = self.shared, self.bases
        found = self.layout.launching(step, self.sizes)
        if found.moves:
            addresses = [self.at(p) for p in found.places]
        else:
            addresses = [bases[i] + offset for i, offset in found.fixed]
        self.launches += len(found.phases)
        for ready in found.phases:
            shared.device.launch(shared.code, ready, addresses, shared.status)

    def enter(self, callee: str, sizes: tuple[int, ...], memory: Mapping[Storage, Block]) -> None:
        """Run another function of the program, whose parameters and results are in ``memory``."""
        layout = self.layout.callee(callee, sizes)
        DeviceActivation(layout, self.shared, [memory[s].address for s in layout.given]).steps()
