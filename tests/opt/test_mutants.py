"""Laws hold near to their examples, and mistakes in laws are noticed by their proofs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from dlvm.ir import Rule, Value, rules
from dlvm.ops import Matmul, Mul, Sum, transposed

from .harmless import REASONS
from .mutants import drawn, judge, keeps_forms, mutants
from .near import holds_nearby, holds_of_halves, in_batches, near
from .test_rules import Broken, the

SOME = 40
"""Mutants of which a run of the suite looks at a third; ``make mutants`` looks at all."""


@pytest.mark.parametrize("rule", list(rules()), ids=lambda r: r.name)
def test_a_law_holds_wherever_it_applies(rule: Rule, in_depth: bool):
    """Every law near to its examples, and a third of them in batches too."""
    holds_nearby(rule)
    holds_of_halves(rule)
    if in_depth:
        holds_nearby(rule, batches=True)


def test_most_operations_near_to_a_law_are_tried_in_batches_as_well():
    assert len(in_batches()) > len(near()) // 2


def test_a_law_about_matrices_that_is_applied_to_batches_is_caught():
    """The sum over the first two axes is that of all elements only where there are two."""
    rule = the("sum_against_product")

    def over_two_axes(op: Sum) -> Value | None:
        if op.axes != (0, 1) or not isinstance(op.x, Mul) or not isinstance(op.x.y, Matmul):
            return None
        a, (b, c) = op.x.x, op.x.y.operands
        return Sum(Mul(Matmul(a, transposed(c)), b), op.axes)

    wrong = replace(rule, apply=over_two_axes)
    holds_nearby(wrong)
    with pytest.raises(Broken):
        holds_nearby(wrong, batches=True)


def test_a_mistake_in_a_law_is_noticed_or_harmless(drawn_third: slice):
    for mutant in drawn(mutants(), 0)[:SOME][drawn_third]:
        verdict = judge(mutant)
        assert verdict.noticed or verdict.harmless, f"{mutant.key} survived"


def test_almost_every_law_is_mutated():
    functions = {m.function for m in mutants()}
    assert sum(rule.apply in functions for rule in rules()) >= 60


def test_a_harmless_mistake_is_one_that_is_made():
    made: dict[str, list[str]] = defaultdict(list)
    for mutant in mutants():
        name, after = mutant.key
        made[name].append(after)
    listed = [(f, t) for f, of in REASONS.items() for texts in of.values() for t in texts]
    assert not [(f, t) for f, t in listed if not any(t in after for after in made[f])]


WRONG = {
    "common_factor": "return Matmul(a, type(op)(b, d)) * -1",
    "slice_of_everything": "return op.x if op.sizes == op.x.shape else None",
    "transpose_of_product": "return Matmul(x, y)",
    "product_of_vectors": "for v in (op.x, op.x))",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_law_is_caught(name: str):
    found = [m for m in mutants() if m.function.__name__ == name and WRONG[name] in m.key[1]]
    for mutant in found:
        assert judge(mutant).noticed
    assert found


FORMS = {
    ("_take_apart", "case Assume(x):"): True,
    ("subtract_itself_of_floats", "return zeros(op.type) * -1 if op.x is op.y else None"): True,
    ("common_factor", "return Matmul(a, type(op)(b, d)) * -1"): False,
    ("_sum_of_mean", "case Mul(Sum() as total, part) if not _is_part(part, _count(total)):"): False,
    ("bitcast_to_itself", "return op.x if op.dtype_to == op.x.dtype else None"): False,
}
"""Mistakes, and whether forms show that they are harmless: one is wrong, one refuses an example
of its law, and of the last no operation shows what it changes."""


@pytest.mark.parametrize("function, after", FORMS)
def test_forms_show_what_is_harmless(function: str, after: str):
    (mutant,) = (m for m in mutants() if m.key[0] == function and after in m.key[1])
    assert keeps_forms(mutant) == FORMS[function, after]
