"""The meaning of a program, in NumPy: its steps on a real arena at the planned offsets.

Kernels run in the loop interpreter. The arena starts as garbage and arguments that are not
donated are read-only, so a storage that is reused too early or an argument that is written
shows as a wrong answer or an error here, before any machine code. Flops and copied elements
are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dlvm.gen.loops.interpreter import Counts, run_kernel
from dlvm.gen.loops.status import WORDS
from dlvm.ir import Array
from dlvm.ir.sizes.dims import Dim, evaluate

from .memory import Arena, plan
from .steps import For, Given, Launch, Program, Storage, View
from .walking import Ended, held_as, uninitialised, walk

GARBAGE = 0xA5


@dataclass(slots=True)
class Outcome:
    """What a run gave: the results, the status words and what was counted."""

    results: tuple[Array, ...]
    status: Array
    flops: int
    copied: int


def run_program(
    program: Program,
    arena: Arena,
    arrays: Sequence[Array],
    symbols: dict[str, int],
    write: Callable[[str], None] = print,
) -> Outcome:
    """Run on arrays of the right types; donated ones are overwritten."""
    given = {v.storage: array for v, array in zip(program.params, arrays, strict=True)}
    for view in program.results:
        if view.storage not in given:
            given[view.storage] = uninitialised(view, symbols)
    machine = Machine(program, arena, given, symbols, write)
    with suppress(Ended):
        walk(program.steps, machine)
    results = tuple(machine.array(view) for view in program.results)
    return Outcome(results, machine.words, machine.counts.flops, machine.copied)


@dataclass(slots=True)
class Machine:
    """An activation of a function in NumPy; what ``given`` storages hold is its caller's."""

    program: Program
    arena: Arena
    given: Mapping[Storage, Array]
    sizes: dict[str, int]
    say: Callable[[str], None]
    words: Array = field(default_factory=lambda: np.zeros(WORDS, np.int64))
    counts: Counts = field(default_factory=Counts)
    cells: list[tuple[int, list[Array]]] = field(default_factory=list[Any])
    copied: int = 0
    memory: dict[Storage, Array] = field(default_factory=dict[Storage, Array])

    def __post_init__(self) -> None:
        block = np.full(self.size(self.arena.bytes), GARBAGE, np.uint8)
        for storage, offset in self.arena.offsets.items():
            start, size = self.size(offset), self.size(storage.bytes)
            self.memory[storage] = block[start : start + size].view(held_as(storage.dtype))
        for storage, array in self.given.items():
            self.memory[storage] = array.reshape(-1).view()
        for view in self.program.params:
            self.memory[view.storage].setflags(write=view.storage in self.program.donated)

    def array(self, view: View) -> Array:
        """The elements of a view, in place."""
        place = view.storage.place
        if isinstance(place, Given) and place.kind == "constant":
            return self.program.constants[place.index].reshape(self.shape(view))
        start = self.size(view.offset)
        flat = self.memory[view.storage][start : start + self.size(view.type.size)]
        return flat.reshape(self.shape(view))

    def size(self, dim: Dim) -> int:
        """The number that a size has now."""
        return evaluate(dim, self.sizes)

    def shape(self, view: View) -> tuple[int, ...]:
        """The shape that a view has now."""
        return tuple(map(self.size, view.type.shape))

    def launch(self, step: Launch) -> None:
        """Run a kernel, and end the run if it has failed."""
        known = dict(zip(step.kernel.symbols, map(self.size, step.known), strict=True))
        run_kernel(step.kernel, [self.array(v) for v in step.views], known, self.words, self.counts)
        if self.words[0] != 0:
            raise Ended

    def copy(self, source: View, target: View) -> None:
        """Copy one view into another."""
        self.array(target)[...] = self.array(source)
        self.copied += self.size(target.type.size)

    def loop(self, step: For, trips: Callable[[], None]) -> None:
        """Run a loop trip by trip."""
        trips()

    def holds(self, condition: View) -> bool:
        """What a condition is."""
        return bool(self.array(condition))

    def read(self, view: View) -> Array:
        """A copy of a view."""
        return self.array(view).copy()

    def write(self, view: View, array: Array) -> None:
        """Copy an array into a view."""
        self.array(view)[...] = array

    def allocate(self, view: View) -> Array:
        """Memory for the elements of a view."""
        return uninitialised(view, self.sizes)

    def save(self, view: View, held: Array) -> None:
        """Copy a view into memory that was allocated for it."""
        held[...] = self.array(view)

    restore = write

    def enter(self, callee: str, sizes: tuple[int, ...], memory: Mapping[Storage, Array]) -> None:
        """Run another function of the program, whose parameters and results are in ``memory``."""
        entered = replace(self.program.callee(callee), callees=self.program.callees)
        known = dict(zip(entered.symbols, sizes, strict=True))
        call = self.say, self.words, self.counts, self.cells
        inner = Machine(entered, plan(entered), memory, known, *call)
        walk(entered.steps, inner)
        self.copied += inner.copied
