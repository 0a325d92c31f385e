"""Runs a program on a device: its steps in order, each kernel a launch.

The host walks the steps: it reads the condition of a branch or of a ``while`` from the device, and
counts the trips of a loop. Nothing else waits for the device. The status of a call is read with
conditions and at the end; a kernel that fails leaves the first failure there, and what runs after
it touches only memory of the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from dlvm.gen.loops.status import WORDS
from dlvm.gen.program.steps import (
    CallFunction,
    Copy,
    EndUnless,
    For,
    If,
    Launch,
    Pop,
    Push,
    Show,
    Step,
    Storage,
    View,
    While,
)
from dlvm.ir import Array
from dlvm.ir.dims import Dim, evaluate
from dlvm.ir.taps import Line, record

from .arrays import Block
from .device import Device, DeviceCode
from .layout import Layout, Place


class Ended(Exception):
    """The call has ended with a status."""


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
class Activation:
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

    def run(self) -> None:
        """All steps; what fails is in the status."""
        with suppress(Ended):
            self.steps()

    def steps(self) -> None:
        """All steps, in memory that is given back once they have been asked for."""
        device = self.shared.device
        arena = device.allocate(self.layout.arena)
        try:
            self.bases = [arena, *self.given, *self.shared.constants]
            self.block(self.program.steps)
        finally:
            device.free(arena)

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

    def host(self, view: View) -> Array:
        """A copy of a view on the host."""
        held = np.int64 if view.type.dtype.kind == "t" else view.type.dtype.numpy
        found = np.empty([self.size(d) for d in view.type.shape], held)
        self.shared.device.read(self.address(view), found)
        return found

    def block(self, steps: Sequence[Step]) -> None:
        """Steps in order."""
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        """One step."""
        device = self.shared.device
        match step:
            case Launch():
                self.launch(step)
            case Copy(source=source, target=target):
                device.copy(self.address(target), self.address(source), self.bytes(target))
            case If(condition=condition, then=then, otherwise=otherwise):
                self.block(then if self.holds(condition) else otherwise)
            case While(before=before, condition=condition, body=body):
                self.block(before)
                while self.holds(condition):
                    self.block(body)
                    self.block(before)
            case For(variable=variable, body=body, reverse=reverse):
                trips = range(self.size(step.length))
                for i in reversed(trips) if reverse else trips:
                    self.sizes[variable] = i
                    self.block(body)
            case Push() | Pop():
                self.tape(step)
            case EndUnless(condition=condition, code=code):
                if not self.holds(condition):
                    self.shared.words[0] = code
                    raise Ended
            case CallFunction():
                self.enter(step)
            case Show(x=x, index=index):
                label, _, how = self.program.prints[index]
                if how == "tap":
                    record(label, self.host(x))
                else:
                    print(Line(label, self.host(x)))
            case _:
                raise AssertionError(f"no device runs {step}")

    def holds(self, condition: View) -> bool:
        """What a condition is, once all launches before have ended without a failure."""
        self.shared.check()
        return bool(self.host(condition))

    def launch(self, step: Launch) -> None:
        """The phases of a kernel on its views."""
        shared, bases = self.shared, self.bases
        found = self.layout.launching(step, self.sizes)
        if found.moves:
            addresses = [self.at(p) for p in found.places]
        else:
            addresses = [bases[i] + offset for i, offset in found.fixed]
        for ready in found.phases:
            shared.device.launch(shared.code, ready, addresses, shared.status)

    def tape(self, step: Push | Pop) -> None:
        """A tape is a number of a cell; the values lie in blocks of their own."""
        device, cells = self.shared.device, self.shared.cells
        number = int(self.host(step.tape))
        if isinstance(step, Push):
            held = [Block(device, self.bytes(x)) for x in step.xs]
            for x, block in zip(step.xs, held, strict=True):
                device.copy(block.address, self.address(x), block.bytes)
            cells.append((number, held))
            number = len(cells)
        else:
            number, held = cells[number - 1] if number else (0, [])
            for x, block in zip(step.xs, held, strict=bool(held)):
                device.copy(self.address(x), block.address, block.bytes)
        device.write(self.address(step.result), np.array(number, np.int64))

    def enter(self, step: CallFunction) -> None:
        """Another function of the program, on copies of what it overwrites."""
        device = self.shared.device
        sizes = tuple(map(self.size, step.sizes))
        layout = self.layout.callee(step.callee, sizes)
        callee = layout.program
        memory: dict[Storage, Block] = {}
        for view, param in zip(step.arguments, callee.params, strict=True):
            block = Block(device, self.bytes(view))
            device.copy(block.address, self.address(view), block.bytes)
            memory[param.storage] = block
        for view, result in zip(step.results, callee.results, strict=True):
            if result.storage not in memory:
                memory[result.storage] = Block(device, self.bytes(view))
        inner = Activation(layout, self.shared, [memory[s].address for s in layout.given])
        inner.steps()
        for view, result in zip(step.results, callee.results, strict=True):
            device.copy(self.address(view), inner.address(result), self.bytes(view))
