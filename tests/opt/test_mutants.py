"""Laws hold near to their examples, and mistakes in laws are noticed by their proofs."""

from __future__ import annotations

import pytest

from dlvm.ir import Rule, rules

from .harmless import REASONS
from .mutants import drawn, judge, mutants
from .near import holds_nearby, holds_of_halves

SOME = 40
"""Mutants that the suite looks at; ``make mutants`` looks at all."""


@pytest.mark.parametrize("rule", list(rules()), ids=lambda r: r.name)
def test_a_law_holds_wherever_it_applies(rule: Rule):
    holds_nearby(rule)
    holds_of_halves(rule)


def test_a_mistake_in_a_law_is_noticed_or_harmless():
    for mutant in drawn(mutants(), 0)[:SOME]:
        verdict = judge(mutant)
        assert verdict.noticed or verdict.harmless, f"{mutant.key} survived"


def test_almost_every_law_is_mutated():
    functions = {m.function for m in mutants()}
    assert sum(rule.apply in functions for rule in rules()) >= 60


def test_harmless_mistakes_are_of_functions_that_there_are():
    assert set(REASONS) <= {m.function.__qualname__ for m in mutants()}


WRONG = {
    "common_factor": "return _factored(op) * -1",
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
