"""What must hold of a case: machine code of every level gives what the interpreter gives.

Levels are how much of the pipeline ran: none of it, laws only, kernels too. Each is made into
machine code in ways that the seed of the case draws: how hard LLVM tries, how wide vectors are,
whether accesses are checked. The code runs on one thread and on two, which must agree to the bit;
whole numbers must be equal, floats as near as rounding explains (``dlvm.trust.answers``), and so
what is printed and tapped, in its order. On arguments with special values among them, NaN,
infinities and signs of zeros must be the same.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dlvm.gen.build import build
from dlvm.gen.call.executable import Executable
from dlvm.ir import Array, Module
from dlvm.opt.pipelines import DEFAULT, MEANING
from dlvm.passes import Pass, run
from dlvm.target import Target
from dlvm.testing.drawing.random_programs import Program
from dlvm.trust.answers import Answer, Question, answered, differ, unlike
from dlvm.trust.inputs import with_special_values
from tests.gen.values import same_bits

from .case import Case

LEVELS: dict[str, tuple[Pass, ...]] = {"plain": DEFAULT[:1], "laws": MEANING, "kernels": DEFAULT}


MEMORY = 16 << 30


class Wrong(AssertionError):
    """Two ways to run a program differ."""


def limit_memory() -> None:
    """Makes a case that asks for too much memory fail, and leaves the hard limit as it is."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, most))


@dataclass(frozen=True)
class Way:
    """How machine code is made of a module: as users get it, unless something else is said."""

    llvm: int = 2
    bits: int = Target.host().vector_bits
    check: bool = False

    def build(self, module: Module) -> Executable:
        """The machine code."""
        target = replace(Target.host(), vector_bits=self.bits)
        return build(module, target, level=self.llvm, check=self.check)


def ways(level: str, seed: int) -> list[Way]:
    """Kernels are always made as users get them, and half of the time in another way too."""
    rng = random.Random(f"{level} {seed}")
    widths = (Way.bits, Way.bits, 128, 8)
    other = Way(rng.choice((0, 1, 2, 3)), rng.choice(widths), rng.random() < 0.15)
    if level != "kernels":
        return [other]
    return [Way(), other] if rng.random() < 0.5 else [Way()]


def judge(case: Case) -> Iterator[Module]:
    """Raise where the levels of a case differ; gives the modules that were compiled."""
    return judged(case.program())


def judged(program: Program) -> Iterator[Module]:
    """The same for a program whose declarations are filled in; nothing where it takes too long.

    Every second program is compiled without the laws that suppose finite operands, so that special
    values must come out as they do from the program itself; in the others, from what laws made.
    """
    question = Question(program.module, program.arrays, program.seed)
    if question.too_long:
        return
    every = with_special_values(program.arrays, program.seed)
    exact = program.seed % 2 == 0
    for level, passes in LEVELS.items():
        passes = [step for step in passes if not (exact and step.supposes_finite)]
        module = run(program.module, passes, verify=True)
        asks = program.module if exact else module
        special = [Question(asks, arrays, program.seed) for arrays in every]
        other = None if level == "plain" else Question(module, program.arrays)
        for way in ways(level, program.seed):
            code, name = way.build(module), f"{level} {way}"
            one = outcome(code, program, 1)
            compare(question, one, other, name)
            for asked in special:
                compare_special(asked, code, name)
            if not way.check:
                compare_threads(one, outcome(code, program, 2), name)
        yield module


def outcome(code: Executable, program: Program, threads: int) -> Answer:
    """One run on so many threads, on copies of the arguments; on one, memory is no numbers."""
    arrays = [np.array(a) for a in program.arrays]
    own = replace(code, threads=threads)
    call = own.run_on_soil if threads == 1 else own.run
    return answered(lambda write: call(arrays, write))


def compare(question: Question, found: Answer, other: Question | None, level: str) -> None:
    """The answer of machine code against that of the interpreter."""
    asked = question.answer
    if asked.error is not None and found.error is None and level.startswith("plain"):
        raise Wrong(f"{level}: no error where the interpreter says {asked.error}")
    difference = differ(question, found, other)
    if difference is not None:
        raise Wrong(f"{level}: {difference}")


def compare_special(question: Question, code: Executable, level: str) -> None:
    """NaN, infinities and the signs of zeros are those of the interpreter."""
    if question.answer.error is not None:
        return
    arrays = [np.array(a) for a in question.arrays]
    found = answered(lambda write: replace(code, threads=1).run(arrays, write))
    if (difference := unlike(question, found)) is not None:
        raise Wrong(f"{level}, special values: {difference}")


def compare_threads(one: Answer, two: Answer, level: str) -> None:
    """Threads change no bit."""
    if type(one.error) is not type(two.error):
        raise Wrong(f"{level}: {one.error!r} on one thread, {two.error!r} on two")
    if not all(_same(a, b) for (_, a), (_, b) in zip(one.values, two.values, strict=True)):
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
