"""Which laws were applied to a program, where and what for; and which assumption would help."""

from __future__ import annotations

from dataclasses import dataclass

from dlvm import passes
from dlvm.cost import Work, work
from dlvm.ir import Module, Rule, rules
from dlvm.ir.decisions import Decision, overseen
from dlvm.ir.numerics import ROUNDING
from dlvm.ir.rewrite import prefixed
from dlvm.ops import Assume
from dlvm.opt.pipelines import meaning

TRIED = ("symmetric", "diagonal", "orthogonal", "lower", "upper")
"""The properties that are tried on every square parameter."""
WORTH = 20
"""An assumption is told where it saves more than one part in so many."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A law that was applied: where, and what it saved where it was weighed."""

    name: str
    law: str
    line: str
    saved: str

    def __str__(self) -> str:
        at = f" at {self.line}" if self.line else ""
        return f"{self.name}{at}{f', {self.saved}' if self.saved else ''}: {self.law}"


def applied_laws(module: Module) -> tuple[Applied, ...]:
    """The laws of the class rounding, and all weighed ones, that the passes apply to a module."""
    told = {r.apply: r for r in rules() if r.law_class == ROUNDING or r.weighed}
    found: list[Applied] = []

    def note(decision: Decision) -> bool:
        if (rule := told.get(decision.law)) is not None:
            found.append(_applied(rule, decision))
        return True

    with overseen(note):
        passes.run(module, meaning(), verify=False)
    return tuple(dict.fromkeys(found))


def _applied(rule: Rule, decision: Decision) -> Applied:
    line = str(decision.ops[0].origin or "")
    return Applied(rule.name, " ".join(rule.law.split()), line, decision.told)


def helpful_assumptions(module: Module) -> tuple[str, ...]:
    """For each square parameter of the first function, the assumptions that would save work."""
    plain = _cost(module)
    found: list[str] = []
    for i, param in enumerate(module.main.params):
        square = param.type.rank > 1 and param.shape[-1] == param.shape[-2]
        if not square or not param.dtype.is_float:
            continue
        for word in TRIED:
            saved = plain - _cost(_assuming(module, i, word))
            if saved.time * WORTH > plain.time:
                found.append(f'dlvm.assume({param.name}, "{word}") would save {saved}')
    return tuple(found)


def _cost(module: Module) -> Work:
    """The work of the first function once it is optimised."""
    return Work.sum(map(work, passes.run(module, meaning(), verify=False).main.ops))


def _assuming(module: Module, index: int, word: str) -> Module:
    """The module whose first function assumes something of a parameter."""
    main = module.main
    param = main.params[index]
    changed = prefixed(main, lambda: {param: Assume(param, word)})
    return module.map(lambda fn: changed if fn is main else fn)
