"""Is dlvm right about one program? Down the whole road, stop by stop, to the first failure.

Each stop is verified and answers the same question as the stop before: the traced module by its
references, what derivatives mean by differences (``derivatives``), the module after each pass, the
loops by their interpreter (on memory that nothing shares, then as the plan shares it), and the
machine code. The first stop that crashes, that a verifier refuses, or that answers otherwise than
the one before it, is the guilty one. ``examine`` runs here; what may end the process is run by
``apart``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from dlvm import passes
from dlvm.ad import expand
from dlvm.base.errors import CompilerError
from dlvm.gen.build import build
from dlvm.gen.coalesce import coalesce, resolved
from dlvm.gen.control import to_program
from dlvm.gen.loops_verify import verify as verify_loops
from dlvm.gen.memory import Arena, align, intervals, padded, plan
from dlvm.gen.program import Program
from dlvm.gen.program_run import run_program
from dlvm.gen.status import error_of
from dlvm.ir import Array, Dim, Module
from dlvm.ir.interpret import bind
from dlvm.ir.numerics import Mode, current_mode, numerics
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import Pass, may_refuse
from dlvm.target import Target

from .answers import Difference, Question, answered, differ, unlike
from .derivatives import check_declarations
from .failure import Failure, Law, short
from .inputs import drawn, with_special_values
from .rounding import PATIENCE, QUICK

T = TypeVar("T")
LARGEST = 1 << 20
"""How many elements the arguments may have that loops are interpreted on."""


UNCOMPARED = (
    "@%s: answers are not compared, as a run by the references takes more than %d operations; "
    "what every stage makes is verified"
)
log = logging.getLogger("dlvm.trust")


class Failed(Exception):
    """The first failure of an examination."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


@dataclass
class Examination:
    """One program on its way; ``pipeline`` are the passes of the road unless others are asked for.

    ``target`` is None where the road ends before the loops.
    """

    module: Module
    arrays: Sequence[Array] | None = None
    target: Target | None = None
    seed: int = 0
    pipeline: Sequence[Pass] = DEFAULT
    until: str = "machine"
    """The last stage below the modules that is looked at."""
    watch: Callable[[str], None] = field(default=lambda stage: None)
    patience: int = PATIENCE
    """How many operations a run by the references may take, or answers are not compared."""
    numerics: Mode = field(default_factory=current_mode)
    """Which classes of laws the passes apply."""
    special: bool = False
    """Whether NaN, infinities and both zeros are tried, beside the arguments."""
    question: Question | None = field(default=None, init=False)
    """The last stop that answered rightly."""

    def run(self) -> None:
        """To the end, or to the first failure, which is raised."""
        with numerics(self.numerics):
            self._run()

    def _run(self) -> None:
        self.watch("differentiate")
        module = self.differentiated()
        arrays = self.arrays = self.arguments(module)
        question = self.question = Question(module, arrays, self.seed, self.patience)
        with at("interpret"):
            too_long = question.too_long
        if too_long:
            log.warning(UNCOMPARED, module.main.name, self.patience)
        with at("differentiate"):
            found = None if too_long else check_declarations(self.module, module, arrays)
        if found is not None:
            raise Failed(found)
        beside = self.beside(question)
        for position, step in enumerate(self.pipeline):
            self.watch(step.name)
            question = self.question = self.after(step, question, position)
            beside = [self.alike(step, other, question.module, position) for other in beside]
        if self.target is not None:
            self.machine(question, self.target, beside)

    def beside(self, question: Question) -> list[Question]:
        """The same question about special values, where these are tried."""
        if not self.special or question.too_long or self.numerics == "fast":
            return []
        every = with_special_values(question.arrays, self.seed)
        return [Question(question.module, arrays, self.seed, self.patience) for arrays in every]

    def alike(self, step: Pass, before: Question, module: Module, position: int) -> Question:
        """The question after a pass, which may have changed no special value of the answer."""
        if module is before.module or before.too_long:
            return before
        other = before.then(module)
        if (difference := unlike(before, other.answer)) is not None:
            self.question = before
            raise Failed(wrong(step.name, difference, Law.of(step.run), position))
        return other

    def differentiated(self) -> Module:
        """With every declaration filled in."""
        self.module.verify()
        with at("differentiate"):
            module = expand(self.module)
        self.verified("differentiate", self.module, module)
        return module

    def arguments(self, module: Module) -> list[Array]:
        """Those that were given, or random ones."""
        if self.arrays is None:
            return drawn(module, self.seed, patience=min(QUICK, self.patience))
        return [np.asarray(a) for a in self.arrays]

    def after(self, step: Pass, question: Question, position: int) -> Question:
        """The question to the module after a pass."""
        before = question.module
        with at(step.name, position):
            module = passes.run(before, [step], verify=False)
        if module is before:
            return question
        self.verified(step.name, before, module, position)
        other = question.then(module)
        if (difference := differ(question, other.answer, other)) is not None:
            raise Failed(wrong(step.name, difference, Law.of(step.run), position))
        return other

    def verified(self, stage: str, before: Module, module: Module, position: Any = None) -> None:
        """Refused by the verifier of the language, or not."""
        if module is before:
            return
        try:
            module.verify()
        except Exception as error:
            raise Failed(Failure("refused", stage, str(error), position=position)) from error

    # -- below the modules -----------------------------------------------------------------------

    def machine(self, question: Question, target: Target, beside: Sequence[Question] = ()) -> None:
        """The loops, the plan of memory and the machine code."""
        self.watch("lower")
        with at("lower"):
            program = to_program(question.module)
            plain = resolved(program)
        for kernel in program.kernels():
            try:
                verify_loops(kernel)
            except CompilerError as error:
                raise Failed(Failure("refused", "lower", str(error))) from error
        interpreted = sum(a.size for a in question.arrays) <= LARGEST
        if interpreted:
            self.steps("lower", question, plain, roomy(plain))
        if self.until == "lower":
            return
        with at("coalesce"):
            joined = coalesce(program)
        if interpreted:
            self.steps("coalesce", question, joined, roomy(joined))
        if self.until == "coalesce":
            return
        with at("memory"):
            arena = plan(joined)
        if interpreted:
            self.steps("memory", question, joined, arena)
        if self.until == "memory":
            return
        self.watch("emit")
        with at("emit"):
            code = build(question.module, target)
        self.watch("machine")
        self.compare("machine", question, lambda write: code.run_on_soil(question.arrays, write))
        self.compare("machine", question, lambda write: code.run(copies(question), write))
        for other in beside:
            with at("machine"):
                found = answered(lambda write, o=other: code.run(copies(o), write))
            if (difference := unlike(other, found)) is not None:
                raise Failed(wrong("machine", difference))

    def steps(self, stage: str, question: Question, program: Program, arena: Arena) -> None:
        """A program by the interpreter of loops on some arena."""
        self.watch(stage)
        params = question.module.main.params

        def run(write: Callable[[str], None]) -> tuple[Array, ...]:
            arrays = copies(question)
            names = [p.name for p in params]
            symbols = bind([p.type for p in params], arrays, names)
            out = run_program(program, arena, arrays, symbols, write)
            if out.status[0]:
                raise error_of([int(w) for w in out.status], question.module)
            return out.results

        self.compare(stage, question, run)

    def compare(self, stage: str, question: Question, run: Callable[[Any], Any]) -> None:
        """An answer of these steps beside that of the module that they were made of."""
        if question.answer.error is not None:
            return
        with at(stage):
            found = answered(run)
        if (difference := differ(question, found)) is not None:
            raise Failed(wrong(stage, difference))


def examine(module: Module, arrays: Sequence[Array] | None = None, **how: Any) -> Failure | None:
    """The first failure of a program on these arrays (random ones if left out), if there is one.

    The parameters are those of ``Examination``. An error of the user's is raised.
    """
    return examined(Examination(module, arrays, **how))


def examined(work: Examination) -> Failure | None:
    """The first failure that an examination meets."""
    try:
        work.run()
    except Failed as found:
        return found.failure
    return None


def copies(question: Question) -> list[Array]:
    """Arguments that may be overwritten, dense."""
    return [np.array(a, order="C") for a in question.arrays]


def roomy(program: Program) -> Arena:
    """An arena in which every storage has memory of its own."""
    offsets: dict[Any, Dim] = {}
    end: Dim = 0
    for storage in intervals(program):
        offsets[storage] = align(end)
        end = end + padded(storage) + 64
    return Arena(offsets, align(end))


def wrong(
    stage: str, difference: Difference, law: Law | None = None, position: int | None = None
) -> Failure:
    """A wrong answer."""
    return Failure("answer", stage, str(difference), law, position=position)


@contextmanager
def at(stage: str, position: int | None = None) -> Generator[None]:
    """What goes wrong inside is a failure of this stage, unless it is an error of the user's."""
    try:
        yield
    except (Failed, MemoryError):
        raise
    except Exception as error:
        if may_refuse(stage, error):
            raise
        raise Failed(crash(stage, error, position)) from error


def crash(stage: str, error: Exception, position: int | None = None) -> Failure:
    """The failure that an exception is; its law is the function of ours that raised it."""
    cause = error.__cause__
    if isinstance(error, CompilerError) and isinstance(cause, Exception):
        error = cause
    message = f"{type(error).__name__}: {str(error).strip()}".removesuffix(": ")
    return Failure("crash", stage, message, thrown_by(error.__traceback__), position=position)


ASKING = {"_better", "transform", "stated"}
"""The functions that ask a law, what a pass visits with, or the adjoint of a leaf."""


def thrown_by(traceback: TracebackType | None) -> Law | None:
    """The law in a traceback: what was asked last, or else the innermost function of ours."""
    found: Law | None = None
    asked = settled = False
    while traceback is not None:
        frame = traceback.tb_frame
        code = frame.f_code
        if str(frame.f_globals.get("__name__", "")).startswith("dlvm.") or asked:
            if asked or not settled:
                name = code.co_qualname.split(".<locals>")[0]
                found = Law(name, short(code.co_filename), code.co_firstlineno)
            settled = settled or asked
            asked = code.co_name in ASKING
        traceback = traceback.tb_next
    return found
