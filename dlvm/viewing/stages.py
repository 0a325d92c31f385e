"""The program after every pass, as lines that know where they come from, and the laws applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dlvm import passes
from dlvm.base.errors import Origin
from dlvm.base.floating import standard_mode
from dlvm.compile import Road
from dlvm.ir import Module, Op, Rule, rules
from dlvm.ir.core import Value
from dlvm.ir.decisions import Decision, overseen
from dlvm.ir.numerics import numerics
from dlvm.ir.text.printer import Printer
from dlvm.opt.pipelines import kernels, meaning
from dlvm.opt.regions.inlining import inline_calls, keep_reachable

from .groups import NONE, Groups

Line: TypeAlias = tuple[str, int]
"""The text of a line, and its group."""


@dataclass(slots=True)
class Stage:
    """The program at one stage; texts of one ``kind`` can be compared line by line.

    ``known_as`` is the name of the stage for ``compiled.text``, if it has one.
    """

    name: str
    kind: str
    lines: Sequence[Line]
    seconds: float = 0.0
    known_as: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        names = ("name", "kind", "lines", "seconds", "known_as")
        return {name: getattr(self, name) for name in names}


class Located(Printer):
    """Writes a module and notes where each line comes from.

    The line of an operation that holds others comes from everywhere that they come from.
    """

    def __init__(self, groups: Groups) -> None:
        super().__init__()
        self.groups = groups
        self.found: dict[int, int] = {}

    def operation(self, op: Op, names: dict[Value, str], indent: str) -> None:
        """Writes an operation and notes its group."""
        inner = (o.origin for r in op.regions.values() for o in r.walk())
        self.found[len(self.lines)] = self.groups.of((op.origin, *inner))
        super().operation(op, names, indent)


def located(module: Module, groups: Groups) -> list[Line]:
    """The lines of the functions of a module that the first one reaches."""
    printer = Located(groups)
    text = printer.module(keep_reachable.run(module).entries).splitlines()
    return [(line, printer.found.get(i, NONE)) for i, line in enumerate(text)]


Applied: TypeAlias = tuple[str, str, Origin | None, str]
"""A stage, the name of a law, the line where it was applied and what that saved."""


def _reachable(pipeline: Sequence[passes.Pass]) -> Iterator[passes.Pass]:
    """The same passes, which leave functions alone that are inlined everywhere.

    Laws that only apply in those change nothing that runs.
    """
    for step in pipeline:
        yield step
        if step is inline_calls:
            yield keep_reachable


@dataclass
class Passes:
    """Runs the passes of a program once more, and notes every law and every change."""

    road: Road
    groups: Groups
    stages: list[Stage] = field(default_factory=list[Stage])
    applied: Counter[Applied] = field(default_factory=Counter[Applied])
    runs: Counter[str] = field(default_factory=Counter[str])

    def run(self) -> None:
        """Adds every stage from the trace to kernels."""
        road = self.road
        self._add("traced", road.traced, known_as="traced")
        self._add("differentiate", road.differentiated, road.seconds.get("differentiate", 0.0))
        self.stages[-1].known_as = self.stages[-1].known_as or "differentiated"
        self._passes(road.differentiated, meaning(), "optimized")
        if road.options.memory is None:
            self._passes(road.optimized, kernels(road.options.parallel), "kernels")
        else:  # several versions were made into kernels, and the best was chosen
            self._add("kernels", road.kernels, known_as="kernels")

    def laws(self) -> list[dict[str, Any]]:
        """The laws that were applied, with how often and what they saved."""
        known = {rule.name: rule for rule in rules()}
        return [
            {
                "stage": stage,
                "name": name,
                "law": " ".join(known[name].law.split()),
                "class": known[name].law_class,
                "line": str(origin or ""),
                "group": self.groups.of((origin,)),
                "saved": saved,
                "count": count,
            }
            for (stage, name, origin, saved), count in self.applied.items()
        ]

    def _passes(self, module: Module, pipeline: Sequence[passes.Pass], known_as: str) -> None:
        laws = {rule.apply: rule for rule in rules()}
        waiting: list[Decision] = []

        def note(decision: Decision) -> bool:
            waiting.append(decision)
            return True

        def watch(name: str, module: Module, seconds: float) -> None:
            if name == keep_reachable.name:
                return
            self.runs[name] += 1
            stage = name if self.runs[name] == 1 else f"{name} {self.runs[name]}"
            self._noted(stage, waiting, laws)
            self._add(stage, module, seconds)

        with numerics(self.road.options.numerics), standard_mode(), overseen(note):
            passes.run(module, [*_reachable(pipeline)], watch, verify=False)
        self.stages[-1].known_as = known_as

    def _noted(self, stage: str, waiting: list[Decision], laws: dict[Any, Rule]) -> None:
        for decision in waiting:
            if (rule := laws.get(decision.law)) is not None:
                origin = decision.ops[0].origin
                at = origin and Origin(origin.file, origin.line)
                self.applied[stage, rule.name, at, decision.told if rule.weighed else ""] += 1
        waiting.clear()

    def _add(self, name: str, module: Module, seconds: float = 0.0, known_as: str = "") -> None:
        """Adds a stage, unless it is the same as the one before."""
        lines = located(module, self.groups)
        if not self.stages or lines != self.stages[-1].lines:
            self.stages.append(Stage(name, "ir", lines, seconds, known_as))
