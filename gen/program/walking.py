"""Runs the steps of a program on a device: loops, branches, calls, the tape, prints.

``walk`` knows in which order steps run and what a tape is. What memory is and how a kernel is
launched, an ``Activation`` says: that of ``interpreter`` holds arrays of NumPy, and that of
``gpu.execution`` addresses on a GPU or its emulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from dlvm.ir import Array, Builder, DType, Module
from dlvm.ir.core import as_tuple
from dlvm.ir.interpret import Interpreter
from dlvm.ir.sizes.dims import evaluate
from dlvm.ir.taps import Line, record

from .steps import (
    CallFunction,
    CallPython,
    Copy,
    EndUnless,
    Exchange,
    For,
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

Held = TypeVar("Held")


class Ended(Exception):
    """The call has ended with a status."""


class Activation(Protocol[Held]):
    """One run of a function of a program: its sizes, and its memory on a device.

    ``sizes`` are the values of its symbols and of the variables of loops. The functions that one
    call runs share ``words``, which hold the status, and ``cells``. A tape is the number of its top
    cell, counted from 1, or 0 when it is empty; a cell has the tape below it and saved values.
    """

    program: Program
    sizes: dict[str, int]
    words: Array
    cells: list[tuple[int, list[Held]]]

    def launch(self, step: Launch) -> None:
        """Run a kernel."""

    def copy(self, source: View, target: View) -> None:
        """Copy one view into another."""

    def holds(self, condition: View) -> bool:
        """What a condition is; ends the call if something before has failed."""
        ...

    def read(self, view: View) -> Array:
        """A copy of a view on the host."""
        ...

    def write(self, view: View, array: Array) -> None:
        """Copy an array of the host into a view."""

    def allocate(self, view: View) -> Held:
        """Memory for the elements of a view."""
        ...

    def save(self, view: View, held: Held) -> None:
        """Copy a view into memory that was allocated for it."""

    def restore(self, view: View, held: Held, /) -> None:
        """Copy memory that was allocated for a view into it."""

    def enter(self, callee: str, sizes: tuple[int, ...], memory: Mapping[Storage, Held]) -> None:
        """Run another function of the program, whose parameters and results are in ``memory``."""

    def say(self, line: Line, /) -> None:
        """Print a line."""

    def loop(self, step: For, trips: Callable[[], None]) -> None:
        """Run a loop, all of whose trips are run by ``trips``."""
        trips()


def walk(steps: Sequence[Step], on: Activation[Any]) -> None:
    """Run steps in order; ``Ended`` if the call is over before the last one."""
    for step in steps:
        match step:
            case Launch():
                on.launch(step)
            case Copy(source=source, target=target):
                on.copy(source, target)
            case If(condition=condition, then=then, otherwise=otherwise):
                walk(then if on.holds(condition) else otherwise, on)
            case While(before=before, condition=condition, body=body):
                walk(before, on)
                while on.holds(condition):
                    walk(body, on)
                    walk(before, on)
            case For():
                on.loop(step, partial(_trips, step, on))
            case Push():
                _push(step, on)
            case Pop():
                _pop(step, on)
            case EndUnless(condition=condition, code=code):
                if not on.holds(condition):
                    on.words[0] = code
                    raise Ended
            case CallFunction():
                _enter(step, on)
            case CallPython():
                _call(step, on)
            case Exchange():
                _exchange(step, on)
            case Show():
                _show(step, on)
            case Tick():
                pass


def _trips(step: For, on: Activation[Any]) -> None:
    trips = range(evaluate(step.length, on.sizes))
    for i in reversed(trips) if step.reverse else trips:
        on.sizes[step.variable] = i
        walk(step.body, on)


def uninitialised(view: View, sizes: Mapping[str, int]) -> Array:
    """An array of the type of a view."""
    return np.empty([evaluate(d, sizes) for d in view.type.shape], held_as(view.type.dtype))


def held_as(dtype: DType) -> Any:
    """The type of NumPy for elements; a tape is the number of a cell."""
    return np.dtype(np.int64) if dtype.kind == "t" else dtype.numpy


def _push(step: Push, on: Activation[Any]) -> None:
    below = int(on.read(step.tape))
    held = [on.allocate(x) for x in step.xs]
    for x, memory in zip(step.xs, held, strict=True):
        on.save(x, memory)
    on.cells.append((below, held))
    on.write(step.result, np.array(len(on.cells), np.int64))


def _pop(step: Pop, on: Activation[Any]) -> None:
    """The values of the top cell; zeros where the tape is empty."""
    below = top = int(on.read(step.tape))
    if top:
        below, held = on.cells[top - 1]
        for x, memory in zip(step.xs, held, strict=True):
            on.restore(x, memory)
    else:
        for x in step.xs:
            on.write(x, np.zeros_like(uninitialised(x, on.sizes)))
    on.write(step.result, np.array(below, np.int64))


def _enter(step: CallFunction, on: Activation[Any]) -> None:
    """Another function of the program, on copies of its arguments."""
    callee = on.program.callee(step.callee)
    memory: dict[Storage, Any] = {}
    for view, param in zip(step.arguments, callee.params, strict=True):
        memory[param.storage] = on.allocate(view)
        on.save(view, memory[param.storage])
    for view, result in zip(step.results, callee.results, strict=True):
        if result.storage not in memory:
            memory[result.storage] = on.allocate(view)
    on.enter(step.callee, tuple(evaluate(d, on.sizes) for d in step.sizes), memory)
    for view, result in zip(step.results, callee.results, strict=True):
        on.restore(view, memory[result.storage])


def _call(step: CallPython, on: Activation[Any]) -> None:
    op, names = on.program.calls[step.index]
    known = {n: evaluate(d, on.sizes) for n, d in zip(names, step.sizes, strict=True)}
    found = Interpreter(Module(()), known).step(op, [on.read(x) for x in step.xs])
    for result, array in zip(step.results, found, strict=True):
        on.write(result, array)


def _exchange(step: Exchange, on: Activation[Any]) -> None:
    op: Any = on.program.exchanges[step.index]
    one = {"xs": op.xs[:1]} if step.xs else {}
    with Builder():  # of one operand, where the operation has several
        op = type(op)(**{**op.attributes, **one})
    found = as_tuple(op.reference(*map(on.read, step.xs)))
    for result, array in zip(step.results, found, strict=True):
        on.write(result, array)


def _show(step: Show, on: Activation[Any]) -> None:
    label, _, how = on.program.prints[step.index]
    value = on.read(step.x)
    if how == "tap":
        record(label, value)
    else:
        on.say(Line(label, value))
