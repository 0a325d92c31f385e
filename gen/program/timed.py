"""A program with a tick after each kernel, copy and call of Python: what a build measures by.

The time of a step runs from the tick before it to the tick after it. What stands between, such as
loops, branches and functions that are entered, goes to the slot ``BETWEEN``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dlvm.base.errors import UserError
from dlvm.ir.sizes.dims import substitute

from .steps import (
    CallFunction,
    CallPython,
    Copy,
    For,
    Launch,
    Program,
    Show,
    Step,
    Tick,
    walk,
)

START, BETWEEN, FIRST = 0, 1, 2
"""Slots: what the first tick of a call adds, which is no time; the time between steps; and the
first step's."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A step that is measured: its slot, and the function and the loop variables around it."""

    slot: int
    step: Launch | Copy | CallPython | Show
    function: Program
    loops: tuple[For, ...]


@dataclass(slots=True)
class _Timer:
    """Writes ticks into one function; ``found`` is shared by all functions of a program."""

    function: Program
    found: list[Timed]
    most: int

    def block(self, steps: tuple[Step, ...], loops: tuple[For, ...] = ()) -> tuple[Step, ...]:
        """The steps with ticks around those that are measured."""
        return tuple(self._ticked(steps, loops))

    def _ticked(self, steps: tuple[Step, ...], loops: tuple[For, ...]) -> Iterator[Step]:
        fresh = False  # whether the step before has just ticked
        for step in steps:
            if not isinstance(step, Launch | Copy | CallPython | Show):
                yield self.inside(step, loops)
                fresh = False
                continue
            if not fresh:
                yield Tick(BETWEEN)
            yield step
            yield Tick(self.slot(step, loops))
            fresh = True

    def inside(self, step: Step, loops: tuple[For, ...]) -> Step:
        """The same step with ticks in the blocks that it holds."""
        around = (*loops, step) if isinstance(step, For) else loops
        return step.changed(lambda body: self.block(body, around))

    def slot(self, step: Launch | Copy | CallPython | Show, loops: tuple[For, ...]) -> int:
        """A new slot for a step."""
        slot = FIRST + len(self.found)
        if slot >= self.most:
            raise UserError(
                f"{self.function.name} runs more than {self.most} kernels and copies, which is "
                "as many as a profile measures",
                remedy="profile a part of the function, such as one layer",
            )
        self.found.append(Timed(slot, step, self.function, loops))
        return slot


def timed(program: Program, most: int) -> tuple[Program, list[Timed]]:
    """The program with ticks, and what each slot from ``FIRST`` on measures."""
    found: list[Timed] = []
    callees = tuple(
        replace(c, steps=_Timer(c, found, most).block(c.steps)) for c in program.callees
    )
    steps = (Tick(START), *_Timer(program, found, most).block(program.steps), Tick(BETWEEN))
    return replace(program, steps=steps, callees=callees), found


def entered_with(program: Program, sizes: dict[str, int]) -> dict[str, dict[str, int]]:
    """The sizes of each function's symbols, by its name, where it is first entered."""
    known = {program.name: sizes}
    pending = [program]
    while pending:
        around = pending.pop(0)
        for step in walk(around.steps):
            if isinstance(step, CallFunction) and step.callee not in known:
                callee = program.callee(step.callee)
                given = [substitute(d, known[around.name]) for d in step.sizes]
                pairs = zip(callee.symbols, given, strict=True)
                known[step.callee] = {n: d for n, d in pairs if isinstance(d, int)}
                pending.append(callee)
    return known
