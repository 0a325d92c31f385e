"""Blame: the rewrite rule, derivative rule or operation that is responsible for a failure.

A pass that is known to be wrong runs again with only its first n decisions allowed (``overseen``),
and bisection finds the n at which the failure appears. If a derivative or machine code is wrong,
each operation is tried alone, with the operands that it had, inner operations first. Machine code
is also compiled without threads, vectors or LLVM's optimiser, to find out which of them it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dlvm.base.errors import UserError
from dlvm.cost import Count
from dlvm.gen.build import build, emit
from dlvm.gen.math import functions as math
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import lowering_of, to_program
from dlvm.gen.program.memory import plan
from dlvm.ir import Array, DType, Module, Op
from dlvm.ir.decisions import Decision, overseen
from dlvm.ir.numerics import numerics
from dlvm.ops.families import Effect, Elementwise
from dlvm.passes import PASSES, Pass
from dlvm.target import Target

from .alone import alone, operands_of
from .answers import Question, answered, differ, unlike
from .examine import Examination, copies, examined
from .failure import Failure, Law
from .rules import guilty_operation
from .showing import shown_after, shown_before

BELOW = ("lower", "coalesce", "memory", "emit", "machine")
"""The stages below the modules: loops, memory and machine code."""
WRITERS: dict[str, Callable[..., Any]] = {
    "lower": to_program,
    "coalesce": coalesce,
    "memory": plan,
    "machine": emit,
}
"""The function that is responsible for a whole stage, if no single operation is wrong."""


def bisect(module: Module, arrays: Sequence[Array] | None = None, **how: Any) -> Failure | None:
    """The first failure of a program, with blame; the parameters are those of ``Examination``."""
    work = Examination(module, arrays, **how)
    failure = examined(work)
    if failure is None or work.question is None:
        return failure
    with numerics(work.numerics):
        return blamed(failure, work, work.question)


def blamed(failure: Failure, work: Examination, question: Question) -> Failure:
    """The failure with everything that can be found out; ``question`` is the last correct stage."""
    if failure.stage == "differentiate":
        return _derivative(failure, work) if failure.kind == "answer" else failure
    if failure.stage == "interpret":
        return failure
    if failure.stage in BELOW:
        return _code(failure, question, work.target or Target.host())
    place = failure.position
    step = PASSES[failure.stage] if place is None else work.pipeline[place]
    return _pass(failure, step, question)


# -- laws ------------------------------------------------------------------------------------------


def _pass(failure: Failure, step: Pass, question: Question) -> Failure:
    """Finds the first decision with which a pass goes wrong."""
    count = len(decisions(step, question.module, None))
    if not count or _outcome(step, question, 0) == failure.kind:
        return failure
    low, high = 0, count + 1
    while high - low > 1:
        middle = (low + high) // 2
        if _outcome(step, question, middle) == failure.kind:
            high = middle
        else:
            low = middle
    done = decisions(step, question.module, high)
    if high > count or len(done) < high:
        return failure
    last = done[high - 1]
    named = last.ops[-1] if last.values is None else last.ops[0]
    return failure.blamed(
        law=Law.of(last.law),
        origin=named.origin,
        before=shown_before(question.module, last.ops),
        after=_after(question.module, last),
        note=f"decision {high} of {count}",
    )


def _after(module: Module, decision: Decision) -> str:
    """What the operations were replaced by."""
    if decision.values is None:
        return decision.told or "nothing"
    return shown_after(module, decision.ops[0], decision.values)


def decisions(step: Pass, module: Module, limit: int | None) -> list[Decision]:
    """The decisions that a pass makes on a module, up to a limit."""
    done: list[Decision] = []
    _limited(step, module, limit, done)
    return done


def _limited(
    step: Pass, module: Module, limit: int | None, done: list[Decision]
) -> Module | Exception:
    """The result of a pass of which only the first decisions are allowed, or its exception."""

    def may(decision: Decision) -> bool:
        if limit is not None and len(done) >= limit:
            return False
        done.append(decision)
        return True

    try:
        with overseen(may):
            return step.run(module)
    except Exception as error:
        return error


def _outcome(step: Pass, question: Question, limit: int) -> str:
    """The kind of failure of a pass with a limit on decisions; an empty string if it is right."""
    made = _limited(step, question.module, limit, [])
    if isinstance(made, Exception):
        return "crash"
    try:
        made.verify()
    except Exception:
        return "refused"
    other = question.then(made)
    wrong = differ(question, other.answer, other) or unlike(question, other.answer)
    return "answer" if wrong is not None else ""


# -- derivatives -----------------------------------------------------------------------------------


def _derivative(failure: Failure, work: Examination) -> Failure:
    """Blames the rule of the first operation that is wrong alone."""
    assert work.arrays is not None
    guilty = guilty_operation(work.module, work.arrays)
    if guilty is None:
        return failure
    module, _, op, law = guilty
    before = shown_before(module, module.main.ops[:1])
    return failure.blamed(law=law, origin=op.origin, before=before)


# -- code ------------------------------------------------------------------------------------------


def _code(failure: Failure, question: Question, target: Target) -> Failure:
    """Blames the operation whose code is wrong alone, and notes what it takes to be wrong."""
    if failure.law is None and failure.stage in WRITERS:
        failure = failure.blamed(law=Law.of(WRITERS[failure.stage]))
    if failure.stage == "machine" and failure.kind == "answer":
        failure = failure.blamed(note=_what_it_takes(question, target))
    guilty = guilty_code(failure, question, target)
    if guilty is None:
        return failure
    module, _, op = guilty
    law = failure.law if failure.kind == "crash" and failure.law else code_rule(op)
    before = shown_before(module, module.main.ops[:1])
    return failure.blamed(law=law, origin=op.origin, before=before)


def guilty_code(
    failure: Failure, question: Question, target: Target
) -> tuple[Module, list[Array], Op] | None:
    """The first operation that fails alone in the same way; of a kernel, one that it contains."""
    module = question.module
    for op, operands in operands_of(module, module.main.name, copies(question)).items():
        if isinstance(op, Effect) or (op.one_nest and op.dataflow is not None):
            continue
        single = alone(op, operands)
        if single is not None and _fails_alone(failure, single, operands, target):
            return single, list(operands), op
    return None


def _fails_alone(failure: Failure, single: Module, arrays: Sequence[Array], target: Target) -> bool:
    try:
        again = examined(Examination(single, arrays, target))
    except UserError:
        return False
    return again is not None and again.same[:2] == failure.same[:2]


def code_rule(op: Op) -> Law:
    """The function that writes the code of an operation: a float function, or its lowering."""
    if not isinstance(op, Elementwise):
        return Law.of(lowering_of(op))
    words = Functions()
    op.scalar(words, *(x.dtype.compute for x in op.operands))
    return Law.of(words.found[0] if len(words.found) == 1 else type(op).scalar)


class Functions(Count):
    """An implementation of the scalar functions that records the code of float functions."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Callable[..., Any]] = []

    def unary(self, word: str, x: DType) -> DType:
        """Records the function."""
        self._note(math.UNARY.get(word))
        return x

    def binary(self, word: str, x: DType, y: DType) -> DType:
        """Records the function."""
        self._note(math.BINARY.get(word))
        return super().binary(word, x, y)

    def _note(self, code: Callable[..., Any] | None) -> None:
        if code is not None and code not in self.found:
            self.found.append(code)


def _what_it_takes(question: Question, target: Target) -> str:
    """A note on which simpler ways of compiling give the right answer."""
    ways: tuple[tuple[str, Target, int], ...] = (
        ("one thread", replace(target, threads=1), 2),
        ("LLVM at its lowest level", target, 0),
        ("vectors of one lane", replace(target, vector_bits=8), 2),
    )
    right = [name for name, other, level in ways if _is_right(question, other, level)]
    return f"right with {', with '.join(right)}" if right else "wrong on one thread, in scalar code"


def _is_right(question: Question, target: Target, level: int) -> bool:
    try:
        code = build(question.module, target, level=level)
    except Exception:
        return False
    found = answered(lambda write: code.run_on_soil(question.arrays, write))
    return differ(question, found) is None
