"""The meaning of a program, in NumPy: its steps on a real arena at the planned offsets.

Kernels run in the loop interpreter. The arena starts as garbage and arguments that are not
donated are read-only, so a storage that is reused too early or an argument that is written
shows as a wrong answer or an error here, before any machine code. Flops and copied elements
are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dlvm.gen.loops.interpreter import Counts, run_kernel
from dlvm.gen.loops.status import WORDS
from dlvm.ir import Array, Module
from dlvm.ir.dims import Dim, evaluate
from dlvm.ir.interpret import Interpreter
from dlvm.ir.taps import Line, record

from .memory import Arena, plan
from .steps import (
    CallFunction,
    CallPython,
    Copy,
    EndUnless,
    For,
    Given,
    If,
    Launch,
    Pop,
    Program,
    Push,
    Show,
    Step,
    Storage,
    Tick,
    View,
    While,
)

GARBAGE = 0xA5


@dataclass(slots=True)
class Outcome:
    """What a run gave: the results, the status words and what was counted."""

    results: tuple[Array, ...]
    status: Array
    flops: int
    copied: int


class Left(Exception):
    """The call has ended with a status."""


def run_program(
    program: Program,
    arena: Arena,
    arrays: Sequence[Array],
    symbols: dict[str, int],
    write: Callable[[str], None] = print,
) -> Outcome:
    """Run on arrays of the right types; donated ones are overwritten."""
    machine = Machine(program, arena, arrays, symbols, write)
    with suppress(Left):
        machine.block(program.steps)
    results = tuple(machine.array(view) for view in program.results)
    return Outcome(results, machine.status, machine.counts.flops, machine.copied)


@dataclass(slots=True)
class Machine:
    """One run: memory, symbols with loop variables, the tape's cells, and counts."""

    program: Program
    arena: Arena
    arrays: Sequence[Array]
    symbols: dict[str, int]
    write: Callable[[str], None]
    status: Array = field(default_factory=lambda: np.zeros(WORDS, np.int64))
    counts: Counts = field(default_factory=Counts)
    copied: int = 0
    cells: list[tuple[int, list[Array]]] = field(default_factory=list[Any])
    memory: dict[Storage, Array] = field(default_factory=dict[Storage, Array])

    def __post_init__(self) -> None:
        block = np.full(evaluate(self.arena.bytes, self.symbols), GARBAGE, np.uint8)
        for storage, offset in self.arena.offsets.items():
            start = evaluate(offset, self.symbols)
            size = evaluate(storage.bytes, self.symbols)
            self.memory[storage] = block[start : start + size].view(_held(storage))
        for view, array in zip(self.program.params, self.arrays, strict=True):
            flat = array.reshape(-1).view()
            flat.setflags(write=view.storage in self.program.donated)
            self.memory[view.storage] = flat
        for view in self.program.results:
            if view.storage not in self.memory:
                size = evaluate(view.type.size, self.symbols)
                self.memory[view.storage] = np.empty(size, view.type.dtype.numpy)

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
        return evaluate(dim, self.symbols)

    def shape(self, view: View) -> tuple[int, ...]:
        """The shape that a view has now."""
        return tuple(map(self.size, view.type.shape))

    def block(self, steps: tuple[Step, ...]) -> None:
        """Run steps in order."""
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        """Run one step."""
        match step:
            case Launch(kernel=kernel, views=views):
                known = {s: self.symbols[s] for s in kernel.symbols}
                arrays = [self.array(v) for v in views]
                run_kernel(kernel, arrays, known, self.status, self.counts)
                self.leave_if_failed()
            case Copy(source=source, target=target):
                self.array(target)[...] = self.array(source)
                self.copied += self.size(target.type.size)
            case If(condition=condition, then=then, otherwise=otherwise):
                self.block(then if self.array(condition) else otherwise)
            case While(before=before, condition=condition, body=body):
                self.block(before)
                while self.array(condition):
                    self.block(body)
                    self.block(before)
            case For(variable=variable, body=body, reverse=reverse):
                trips = range(self.size(step.length))
                for i in reversed(trips) if reverse else trips:
                    self.symbols[variable] = i
                    self.block(body)
            case Push(tape=tape, xs=xs, result=result):
                below = int(self.array(tape))
                self.cells.append((below, [self.array(x).copy() for x in xs]))
                self.array(result)[...] = len(self.cells)
            case Pop(tape=tape, xs=xs, result=result):
                top = int(self.array(tape))
                below, values = self.cells[top - 1] if top else (0, [0] * len(xs))
                for x, value in zip(xs, values, strict=True):
                    self.array(x)[...] = value
                self.array(result)[...] = below
            case EndUnless(condition=condition, code=code):
                if not self.array(condition):
                    self.status[0] = code
                self.leave_if_failed()
            case CallFunction():
                self.enter(step)
            case CallPython(xs=xs, results=results, sizes=sizes, index=index):
                op, names = self.program.calls[index]
                known = dict(zip(names, map(self.size, sizes), strict=True))
                found = Interpreter(Module(()), known).step(op, [self.array(x).copy() for x in xs])
                for result, array in zip(results, found, strict=True):
                    self.array(result)[...] = array
            case Tick():
                pass
            case Show(x=x, index=index):
                label, _, how = self.program.prints[index]
                if how == "tap":
                    record(label, self.array(x))
                else:
                    self.write(Line(label, self.array(x).copy()))

    def enter(self, step: CallFunction) -> None:
        """Run another function of the program, on copies of what it overwrites."""
        callee = replace(self.program.callee(step.callee), callees=self.program.callees)
        sizes = dict(zip(callee.symbols, map(self.size, step.sizes), strict=True))
        arrays = [self.array(v) for v in step.arguments]
        arrays = [
            a.copy() if v.storage in callee.donated else a
            for a, v in zip(arrays, callee.params, strict=True)
        ]
        inner = Machine(callee, plan(callee), arrays, sizes, self.write, self.status, self.counts)
        inner.cells = self.cells
        inner.block(callee.steps)
        self.copied += inner.copied
        for view, found in zip(step.results, callee.results, strict=True):
            self.array(view)[...] = inner.array(found)

    def leave_if_failed(self) -> None:
        """End the run where the status says so."""
        if self.status[0] != 0:
            raise Left


def _held(storage: Storage) -> Any:
    """The dtype of memory; a tape is a handle."""
    return np.dtype(np.int64) if storage.dtype.kind == "t" else storage.dtype.numpy
