"""Sweeps do no work twice: what was refused stays refused, what holds nothing is passed by."""

from __future__ import annotations

import dlvm
from dlvm.ir import parse, rewrite
from dlvm.ir.rewrite import RULES, settle, transform
from dlvm.ops import Exp, Neg, Scan

NESTED = """dlvm 1
func @f(%x: f32[4,3], %y: f32[3]) -> f32[3] {
  %0 = exp %y : f32[3]
  %1 = scan [%0], [%x], [] length=4 : f32[3]
    body(%a: f32[3], %b: f32[3]) -> f32[3] {
      %0 = neg %b : f32[3]
      %1 = add %a, %0 : f32[3]
      return %1
    }
  return %1
}
"""


def test_a_function_knows_the_classes_that_it_holds_at_any_depth():
    fn = parse(NESTED).verify().main
    assert {kind.name for kind in fn.kinds} == {"exp", "scan", "neg", "add"}
    (region,) = fn.ops[1].regions.values()
    assert {kind.name for kind in region.kinds} == {"neg", "add"}


def test_only_the_classes_asked_for_are_visited():
    fn = parse(NESTED).main
    seen = []
    assert transform(fn, lambda op, env: seen.append(op), on=Scan) is fn
    assert seen == [fn.ops[1]]
    assert transform(fn, lambda op, env: seen.append(op), on=dlvm.ops.Tanh) is fn
    assert len(seen) == 1


def counted():
    asked = []

    def laws(op):
        asked.append(op)
        return ()

    return asked, laws


def test_what_was_refused_is_not_asked_again_by_the_same_sweep():
    fn = parse(NESTED).main
    asked, laws = counted()
    assert settle(fn, laws) is settle(fn, laws) is fn
    assert asked == list(fn.ops)
    others, another = counted()
    settle(fn, another)
    assert others == list(fn.ops)


def test_a_new_law_is_tried_on_what_was_refused_before():
    module = parse(NESTED).optimize(["simplify"])
    assert module.optimize(["simplify"]).main is module.main

    @rewrite(Exp, example=Exp)
    def strange(op: Exp):
        """exp x = -x, for this test."""
        return Neg(op.x)

    try:
        (first, *_) = module.optimize(["simplify"]).main.ops
        assert isinstance(first, Neg)
    finally:
        RULES[Exp].pop()
