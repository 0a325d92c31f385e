"""Makes a failing program small while it fails in the same way at the same stage.

It applies delta debugging (Zeller and Hildebrandt 2002) to results and operations, then one step at
a time: a region becomes the program, branches and calls are inlined, sizes shrink, types become
plain. Every smaller program that still fails is kept, until no step succeeds or time is up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dlvm.ir import Array, Module, Op
from dlvm.opt.pipelines import default
from dlvm.target import Target
from dlvm.trust.blame import BELOW, guilty_code
from dlvm.trust.examine import Examination, examined
from dlvm.trust.failure import Failure
from dlvm.trust.reproducer import read, written
from dlvm.trust.rules import guilty_operation

from . import fewer, inside, places, plainer
from .apart import bisect_apart, examine_apart, text_apart
from .case import Case, Steps

T = TypeVar("T")
REDUCTIONS: tuple[Callable[[Case], Steps], ...] = (
    places.declared,
    places.focused,
    fewer.without_entries,
    plainer.concrete,
    inside.opened,
    fewer.earlier,
    inside.dropped,
    fewer.without_params,
    inside.inner,
    plainer.narrower,
    plainer.plainer,
    plainer.rounder,
    plainer.rounder_constants,
)
QUESTION = 20.0
"""Time limit for examining one program, in seconds."""


@dataclass
class Reduction:
    """The reduction of one failure; ``how`` are the arguments of ``examine``."""

    failure: Failure
    how: dict[str, Any]
    seconds: float
    tried: int = 0
    _end: float = field(default=0.0)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds
        below = self.failure.stage in BELOW
        if below:
            self.how = {**self.how, "until": self.failure.stage}
        elif self.failure.kind != "died":
            passed = self.how.get("pipeline", default())
            last = len(passed) if self.failure.position is None else self.failure.position + 1
            self.how = {**self.how, "target": None, "pipeline": passed[:last]}

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._end

    def fails(self, case: Case) -> bool:
        """Whether a program fails in the same way."""
        self.tried += 1
        try:
            case.module.verify()
            apart = self.how.get("target") is not None or self.failure.kind == "died"
            if apart:
                found = examine_apart(case.module, case.arrays, QUESTION, **self.how)
            else:
                found = examined(Examination(case.module, case.arrays, **self.how))
        except Exception:  # an invalid program, or one that is rejected
            return False
        return found is not None and found.same == self.failure.same

    # -- the search ------------------------------------------------------------------------------

    def run(self, case: Case) -> Case:
        """The smallest program that was found."""
        case = self.isolated(case)
        while not self.over:
            before = case.weight
            case = self.fewest_results(case)
            case = self.fewest_ops(case)
            for step in REDUCTIONS:
                case = self.repeated(step, case)
            if case.weight >= before:
                break
        return case

    def isolated(self, case: Case) -> Case:
        """The program of the one operation whose rule or code is wrong, if there is one."""
        text = text_apart(lambda: self._isolated(case), QUESTION)
        if text is None:
            return case
        found = read(text)
        alone = Case(found.module, found.arrays or ())
        return alone if self.fails(alone) else case

    def _isolated(self, case: Case) -> str | None:
        work = Examination(case.module, case.arrays, **self.how)
        examined(work)
        guilty = None
        if self.failure.stage == "differentiate" and self.failure.kind == "answer":
            guilty = guilty_operation(case.module, case.arrays)
        elif self.failure.stage in BELOW and work.question:
            guilty = guilty_code(self.failure, work.question, work.target or Target.host())
        return None if guilty is None else written(guilty[0], guilty[1])

    def repeated(self, step: Callable[[Case], Steps], case: Case) -> Case:
        """Applies a step as long as it succeeds."""
        while (better := self.first(step, case)) is not None:
            case = better
        return case

    def first(self, step: Callable[[Case], Steps], case: Case) -> Case | None:
        """The first smaller program of this step that fails, or None."""
        for make in step(case):
            if self.over:
                return None
            tried = attempted(make)
            if tried is not None and tried.weight < case.weight and self.fails(tried):
                return tried
        return None

    def fewest_results(self, case: Case) -> Case:
        """The program with only the results that the failure needs."""
        kept = self.minimal(
            range(len(case.main.results)), lambda some: fewer.with_results(case, some)
        )
        return fewer.with_results(case, kept)

    def fewest_ops(self, case: Case) -> Case:
        """The program with only the operations of the first function that the failure needs."""
        kept = self.minimal(case.main.ops, lambda some: _with_ops(case, some))
        return case if len(kept) == len(case.main.ops) else _with_ops(case, kept)

    def minimal(self, items: Sequence[T], made: Callable[[Sequence[T]], Case]) -> Sequence[T]:
        """A subset of the items with which it still fails; large chunks are removed first."""
        items = list(items)
        size = max(1, len(items) // 2)
        while items and not self.over:
            gone = False
            for start in reversed(range(0, len(items), size)):
                rest = items[:start] + items[start + size :]
                if self.over:
                    break
                case = attempted(lambda rest=rest: made(rest))
                if case is not None and self.fails(case):
                    items, gone = rest, True
            if size == 1 and not gone:
                break
            size = max(1, size // 2)
        return items


def _with_ops(case: Case, some: Sequence[Op]) -> Case:
    return fewer.with_ops(case, set(some))


def attempted(make: Callable[[], Case]) -> Case | None:
    """The smaller program, or None if it cannot be constructed."""
    try:
        return make()
    except Exception:  # a step may construct an invalid operation
        return None


def reduce(
    module: Module,
    arrays: Sequence[Array],
    failure: Failure,
    seconds: float = 60.0,
    **how: Any,
) -> tuple[Case, Failure]:
    """The smallest program found that fails in the same way, and its failure with blame."""
    work = Reduction(failure, how, seconds)
    case = work.run(Case(module, tuple(arrays)))
    found = bisect_apart(case.module, case.arrays, **how)
    return case, failure if found is None or found.same != failure.same else found
