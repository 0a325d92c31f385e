"""How long programs and their steps take on one core, in picoseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.schedule.cost import time_of, time_of_copy
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import maximum, substitute
from dlvm.target import Target

from .steps import CallFunction, Copy, Launch, Program, Step

UNBOUNDED = 1 << 50
"""The time of a program with a loop of which nobody knows the number of trips: many minutes."""


@dataclass(slots=True)
class Times:
    """The times of the steps of one program on a target."""

    target: Target
    kernels: dict[LoopKernel, Dim] = field(default_factory=dict[LoopKernel, Dim])

    def step(self, step: Step) -> Dim:
        """That of one step by itself."""
        match step:
            case Launch(kernel=kernel):
                return step.here(self.kernel(kernel))
            case Copy(target=view):
                return time_of_copy(view.type, self.target)
            case _:
                return 0

    def kernel(self, kernel: LoopKernel) -> Dim:
        """That of a kernel."""
        if kernel not in self.kernels:
            self.kernels[kernel] = time_of(kernel, self.target)
        return self.kernels[kernel]

    def program(self, program: Program) -> Dim:
        """That of a run, for choices between ways to run it."""
        if any(_unbounded(step, program) for step in program.walk()):
            return UNBOUNDED
        return total(program.steps, entering(program, self.step))

    def trip(self, trip: Program, whole: Program) -> Dim:
        """That of one trip of a loop, a ``while`` inside counted once."""
        return total(trip.steps, entering(whole, self.step))


def _unbounded(step: Step, whole: Program) -> bool:
    recursion = isinstance(step, CallFunction) and not whole.callee(step.callee).trip
    return recursion or step.trips is None


def entering(whole: Program, cost: Callable[[Step], Dim]) -> Callable[[Step], Dim]:
    """A cost, where a function that is entered costs what its steps do, as do trips inside."""

    def of(step: Step) -> Dim:
        if not isinstance(step, CallFunction):
            return cost(step)
        callee = whole.callee(step.callee)
        sizes = dict(zip(callee.symbols, step.sizes, strict=True))
        return substitute(total(callee.steps, of if callee.trip else cost), sizes)

    return of


def total(steps: Sequence[Step], cost: Callable[[Step], Dim], loops: bool = True) -> Dim:
    """The cost of steps and of all that they hold, trips counted; without ``loops`` none inside."""
    out: Dim = 0
    for step in steps:
        if step.repeats and not loops:
            continue
        inside = [total(body, cost, loops) for body in step.bodies]
        if step.CHOOSES:
            out = out + reduce(maximum, inside)
        elif step.repeats:
            out = out + sum(inside) * (1 if step.trips is None else step.trips)
        else:
            out = out + cost(step)
    return out
