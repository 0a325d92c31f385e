"""Where a law of the class ``FAST`` would help a program that is compiled without such laws."""

from __future__ import annotations

from dlvm import passes
from dlvm.ir import Module, rules
from dlvm.ir.decisions import Decision, overseen
from dlvm.ir.numerics import FAST, numerics
from dlvm.opt.regions.inlining import keep_reachable

from .simplification import simplify


def fast_laws(optimized: Module) -> tuple[str, ...]:
    """Each fast law that would apply to an optimised program: its name, the line, and what it says.

    The program is simplified once more with fast laws licensed, and what they replace is noted.
    """
    fast = {rule.apply: rule for rule in rules() if rule.law_class == FAST}
    found: dict[str, None] = {}

    def note(decision: Decision) -> bool:
        rule = fast.get(decision.law)
        if rule is not None:
            (op,) = decision.ops
            at = f" at {op.origin}" if op.origin else ""
            said = " ".join(rule.law.split())
            found[f"{rule.name} would replace {op.name}{at}: {said}"] = None
        return True

    with numerics("fast"), overseen(note):
        passes.run(optimized, (keep_reachable, simplify), verify=False)
    return tuple(found)
