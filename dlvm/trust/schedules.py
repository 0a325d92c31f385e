"""What the steps of a schedule leave of an answer: ``DLVM_VERIFY=passes`` of a given schedule.

A step that breaks a rule of the loop level is refused where it is applied. One that keeps to the
rules and computes something else, as a transform from outside of dlvm may, is found by running the
loops under the schedule in their interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.program.coalesce import resolved
from dlvm.gen.program.control import to_program
from dlvm.gen.schedule.plans import Plans
from dlvm.gen.schedule.text import Schedule
from dlvm.gen.schedule.transform import TRANSFORMS
from dlvm.gen.schedule.transforms import parse_step
from dlvm.ir import Module

from .answers import Question
from .examine import LARGEST, Examination, Failed, roomy
from .failure import Failure
from .inputs import drawn
from .rounding import QUICK


@dataclass(frozen=True)
class Shortened:
    """A schedule with the steps of one kernel after the first ``count`` left out."""

    plans: Plans
    kernel: str
    count: int

    @property
    def forms(self) -> tuple[str, ...]:
        """Those of the whole schedule."""
        return self.plans.forms

    def applied(self, plain: LoopKernel) -> LoopKernel:
        """The loops of a kernel."""
        whole = self.plans.applied(plain)
        if plain.name != self.kernel:
            return whole
        steps = tuple(parse_step(step, 1) for step in whole.steps[: self.count])
        return Schedule({plain.name: steps}).applied(plain)


def check_schedule(module: Module, plans: Plans, seed: int = 0) -> None:
    """Raises an error that names the first step which changes what a program of kernels gives."""
    arrays = drawn(module, seed, patience=QUICK)
    question = Question(module, arrays, seed, QUICK)
    if question.too_long or sum(a.size for a in arrays) > LARGEST:
        return
    found = _failure(question, plans)
    if found is None:
        return
    for kernel in to_program(module, plans).kernels():
        for count, step in enumerate(kernel.steps):
            before = Shortened(plans, kernel.name, count)
            after = replace(before, count=count + 1)
            if _failure(question, before) is None and _failure(question, after) is not None:
                raise _error(f"the step {step!r} of @{kernel.name}", step, found)
    raise _error("the schedule", "", found)


def _failure(question: Question, plans: Plans) -> Failure | None:
    work = Examination(question.module, question.arrays)
    program = resolved(to_program(question.module, plans))
    try:
        work.steps("schedule", question, program, roomy(program))
    except Failed as failed:
        return failed.failure
    return None


def _error(what: str, step: str, found: Failure) -> CompilerError:
    kind = TRANSFORMS.get(step.partition(" ")[0])
    home = "dlvm" if kind is None or kind.__module__.startswith("dlvm.") else kind.__module__
    return CompilerError(
        f"{what} changes a result: {found}; take it out of the schedule, or mend the transform "
        f"in {home}",
        stage="schedule",
        reproducer="",
        author=home,
    )
