"""A case that failed, made small and named: by ``dlvm.trust``, or else by the fuzzer's own judge.

``bisect`` looks at the whole road and says whose fault it is; derivatives it sees as they are
declared. What it calls right, though the judge does not (other levels of LLVM, two threads, what a
batched form of a form gives), is cut down by asking the judge again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dlvm.base.errors import UserError
from dlvm.target import Target
from dlvm.testing.drawing.random_programs import Program, arguments
from dlvm.trust.failure import Failure
from dlvm.trust.reducing.apart import bisect_apart, text_apart
from dlvm.trust.reducing.case import Case as Small
from dlvm.trust.reducing.reduce import Reduction, reduce
from dlvm.trust.reproducer import written

from .case import Case
from .judge import judged
from .slopes import batched, declared

SECONDS = 90.0
"""How long a case is being cut down."""
ONE = 20.0
HOST = Target.host()


@dataclass(frozen=True)
class Shrunk:
    """The smallest program that was found, and what is wrong with it."""

    program: Small
    failure: Failure

    def __str__(self) -> str:
        said = "\n".join(f"// {line}" for line in str(self.failure).splitlines())
        return f"{written(self.program.module, self.program.arrays)}\n{said}\n"


def shrink(case: Case, seconds: float = SECONDS) -> Shrunk | None:
    """The small program; nothing where the case does not fail again."""
    for view in _views(case):
        named = bisect_apart(view.module, view.arrays, seconds=seconds, target=HOST)
        if named is not None:
            return Shrunk(*reduce(view.module, view.arrays, named, seconds, target=HOST))
    program = case.program()
    said = text_apart(lambda: wrong(program), seconds)
    if said is None:
        return None
    work = Judged(Failure("answer", "machine", said), {}, seconds, seed=program.seed)
    return Shrunk(work.run(Small(program.module, program.arrays)), work.failure)


def _views(case: Case) -> Iterator[Small]:
    """The function with every derivative of it that is looked at, then what runs."""
    given = arguments(case.module.main.params, case.sizes, case.seed)
    module, wrt = declared(case)
    if wrt or case.module.declarations:
        yield Small(module if wrt else case.module, given)
    if wrt:
        yield Small(batched(case)[0], given)
    program = case.program()
    yield Small(program.module, program.arrays)


@dataclass
class Judged(Reduction):
    """A reduction that asks the fuzzer's judge, in the ways that a seed draws."""

    seed: int = 0

    def fails(self, case: Small) -> bool:
        """Whether the judge says so still."""
        self.tried += 1
        said = text_apart(lambda: wrong(Program(case.module, case.arrays, {}, self.seed)), ONE)
        return said is not None and said.split(":")[0] == self.failure.message.split(":")[0]

    def isolated(self, case: Small) -> Small:
        """Nobody knows the operation."""
        return case


def wrong(program: Program) -> str | None:
    """What the judge says of a program, if it is wrong, or what it stumbled over."""
    try:
        list(judged(program))
    except UserError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
