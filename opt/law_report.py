"""Which laws were applied to a program, where and what for; and which assumption would help."""

from __future__ import annotations

from dataclasses import dataclass

from dlvm import cost, passes
from dlvm.cost import Work, typical, work
from dlvm.ir import Function, Module, Param, rules
from dlvm.ir.decisions import Decision, overseen
from dlvm.ir.numerics import EXACT, FAST, numerics
from dlvm.ir.rewrite import prefixed
from dlvm.ops import Assume
from dlvm.opt.algebra.factors.choosing import LAWS_OF_FACTORS
from dlvm.opt.algebra.pieces.joined_products import LAW as WIDE
from dlvm.opt.algebra.rearranging import rearrange
from dlvm.opt.laws.simplification import simplify
from dlvm.opt.pipelines import meaning
from dlvm.opt.regions.inlining import keep_reachable

TRIED = ("symmetric", "diagonal", "orthogonal", "lower", "upper")
"""The properties that are tried on every square parameter."""
LICENCE = 'licensed by numerics="fast"'
MOST = 6
"""Square parameters that are asked about, the largest first: each costs a few optimisations."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A law that was applied: where, and what it saved where it was weighed."""

    name: str
    law: str
    line: str
    saved: str
    licence: str = ""
    """The option that licenses it, if it is not applied by default."""

    def __str__(self) -> str:
        at = f" at {self.line}" if self.line else ""
        said = "".join(f", {x}" for x in (self.licence, self.saved) if x)
        return f"{self.name}{at}{said}: {self.law}"


def applied_laws(module: Module) -> tuple[Applied, ...]:
    """The laws that are not exact, and all weighed ones, that the passes apply to a module."""
    laws = [r for r in (*rules(), WIDE) if r.law_class != EXACT or r.weighed]
    told = {r.apply: (r.name, r.law, LICENCE * (r.law_class == FAST)) for r in laws}
    told |= {law: (law.__name__, law.__doc__ or "", "") for law in LAWS_OF_FACTORS}
    found: list[Applied] = []

    def note(decision: Decision) -> bool:
        if (law := told.get(decision.law)) is not None:
            found.append(_applied(*law, decision))
        return True

    with overseen(note):
        passes.run(module, meaning(), verify=False)
    return tuple(dict.fromkeys(found))


def _applied(name: str, law: str, licence: str, decision: Decision) -> Applied:
    line = str(decision.ops[0].origin or "")
    return Applied(name, " ".join(law.split()), line, decision.told, licence)


def fast_laws(optimized: Module) -> tuple[str, ...]:
    """Each fast law that would apply to an optimised program: its name, the line, and what it says.

    The program is simplified and rearranged once more with fast laws licensed, and what they
    replace is noted.
    """
    fast = {rule.apply: rule for rule in rules() if rule.law_class == FAST}
    laws: dict[str, None] = {}

    def note(decision: Decision) -> bool:
        rule = fast.get(decision.law)
        if rule is not None:
            (op,) = decision.ops
            at = f" at {op.origin}" if op.origin else ""
            said = " ".join(rule.law.split())
            laws[f"{rule.name} would replace {op.name}{at}: {said}"] = None
        return True

    with numerics("fast"), overseen(note):
        passes.run(optimized, (keep_reachable, simplify, rearrange), verify=False)
    return tuple(laws)


def helpful_assumptions(module: Module) -> tuple[str, ...]:
    """For the largest square parameters of the first function, the assumptions that save work."""
    plain = _cost(module)
    found: list[str] = []
    for param in sorted(_square(module.main), key=lambda p: -typical(p.type.size))[:MOST]:
        for word in TRIED:
            saved = plain - _cost(_assuming(module, param, word))
            if saved.time * cost.WORTH > plain.time:
                found.append(f'dlvm.assume({param.name}, "{word}") would save {saved}')
    return tuple(found)


def _square(fn: Function) -> list[Param]:
    """The parameters that are square matrices of floats, or batches of such."""
    matrices = (p for p in fn.params if p.type.rank > 1 and p.dtype.is_float)
    return [p for p in matrices if p.shape[-1] == p.shape[-2]]


def _cost(module: Module) -> Work:
    """The work of the first function once it is optimised."""
    return Work.sum(map(work, passes.run(module, meaning(), verify=False).main.ops))


def _assuming(module: Module, param: Param, word: str) -> Module:
    """The module whose first function assumes something of a parameter."""
    main = module.main
    changed = prefixed(main, lambda: {param: Assume(param, word)})
    return module.map(lambda fn: changed if fn is main else fn)
