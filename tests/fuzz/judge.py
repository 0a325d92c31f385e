"""What must hold of a case: machine code of every level gives what the interpreter gives.

Levels are how much of the pipeline ran: none of it, laws only, kernels too. Each level runs on
one thread and on two, which must agree to the bit; whole numbers must be equal, floats as near
as rounding explains (``dlvm.trust.answers``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dlvm.errors import UserError
from dlvm.gen.build import build
from dlvm.gen.executable import Executable
from dlvm.ir import Array, Module
from dlvm.opt.pipelines import DEFAULT, MEANING
from dlvm.passes import Pass, run
from dlvm.testing.random_programs import Program
from dlvm.trust.answers import Answer, Question, differ
from tests.gen.values import same_bits

from .case import Case

LEVELS: dict[str, tuple[Pass, ...]] = {"plain": DEFAULT[:1], "laws": MEANING, "kernels": DEFAULT}


class Wrong(AssertionError):
    """Two ways to run a program differ."""


@dataclass(frozen=True)
class Outcome:
    """What a run gave: results, or an error; and what it printed."""

    results: tuple[Array, ...]
    error: UserError | None
    said: list[str]


def judge(case: Case) -> Iterator[Module]:
    """Raise where the levels of a case differ; gives the modules that were compiled."""
    program = case.program()
    question = Question(program.module, program.arrays, program.seed)
    for level, passes in LEVELS.items():
        module = run(program.module, passes, verify=True)
        code = build(module)
        one = outcome(code, program, 1)
        compare(
            question, one, None if level == "plain" else Question(module, program.arrays), level
        )
        compare_threads(one, outcome(code, program, 2), level)
        yield module


def outcome(code: Executable, program: Program, threads: int) -> Outcome:
    """One run on so many threads, on copies of the arguments."""
    said: list[str] = []
    arrays = [np.array(a) for a in program.arrays]
    try:
        found = replace(code, threads=threads).run(arrays, said.append)
    except UserError as error:
        return Outcome((), error, said)
    return Outcome(found, None, said)


def compare(question: Question, found: Outcome, other: Question | None, level: str) -> None:
    """Results of machine code against those of the interpreter, and how often it prints."""
    asked = question.answer
    if asked.error is not None:
        if found.error is None and level == "plain":
            raise Wrong(f"{level}: no error where the interpreter says {asked.error}")
        return
    difference = differ(question, Answer(found.results, None, found.error), other)
    if difference is not None:
        raise Wrong(f"{level}: {difference}")
    prints = sum(name.startswith("print ") for name, _ in asked.told or ())
    if found.error is None and len(found.said) != prints and question.freedom is not None:
        raise Wrong(f"{level}: printed {len(found.said)} times, the interpreter {prints}")


def compare_threads(one: Outcome, two: Outcome, level: str) -> None:
    """Threads change no bit."""
    if type(one.error) is not type(two.error):
        raise Wrong(f"{level}: {one.error!r} on one thread, {two.error!r} on two")
    if not all(_same(a, b) for a, b in zip(one.results, two.results, strict=True)):
        raise Wrong(f"{level}: other bits on two threads")


def _same(a: Array, b: Array) -> bool:
    return same_bits(np.ascontiguousarray(a), np.ascontiguousarray(b))


def features(modules: Sequence[Module]) -> set[str]:
    """What a case reached: which operation feeds which, where, and on what elements."""
    found: set[str] = set()
    for module in modules:
        for fn in module.functions:
            for op in fn.walk():
                found.update(f"{v.dtype} {type(v).__name__} {op.name}" for v in op.operands)
                for region in op.regions.values():
                    found.add(f"{op.name} {len(region.ops).bit_length()} {len(region.params)}")
    return found
