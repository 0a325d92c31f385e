"""A guilty pass is asked before each of its local decisions, and the one that does it is named."""

from __future__ import annotations

from typing import Any

import pytest

from dlvm.ad import expand
from dlvm.ir import Module, Value, parse
from dlvm.ir.core import Op
from dlvm.ir.decisions import Decision, overseen
from dlvm.ops import (
    Add,
    Cond,
    Exp,
    Matmul,
    Max,
    Mul,
    Permute,
    Print,
    Scan,
    Slice,
    Sub,
    Sum,
    While,
)
from dlvm.opt.kernels import fusion, move_to_reader
from dlvm.opt.kernels.fusion import fuse
from dlvm.opt.recompute import ordering
from dlvm.opt.recompute.ordering import order
from dlvm.opt.regions import dropping
from dlvm.opt.regions.dropping import drop
from dlvm.passes import PASSES, Pass
from dlvm.testing.drawing.dice import Seeded
from dlvm.testing.drawing.random_programs import random_program
from dlvm.trust.answers import Question, differ
from dlvm.trust.blame import bisect, decisions
from dlvm.trust.failure import Failure, Law

FUSED = parse("""dlvm 1
func @f(%x: f64[4,5], %y: f64[4,5]) -> (f64[4,5], f64[4]) {
  %0 = exp %x : f64[4,5]
  %1 = sub %0, %y : f64[4,5]
  %2 = mul %1, %x : f64[4,5]
  %3 = sum %2 axes=(1) : f64[4]
  return %2, %3
}
""")
DEAD = parse("""dlvm 1
func @f(%x: f64[4]) -> f64[4] {
  %0 = exp %x : f64[4]
  %1 = neg %0 : f64[4]
  %2 = sin %x : f64[4]
  print %2 label="at"
  %3 = mul %1, %0 : f64[4]
  return %1
}
""")


def named(module: Module, step: Pass) -> Failure:
    """What is blamed in a pass."""
    found = bisect(module, pipeline=(step,))
    assert found is not None and found.stage == step.name
    return found


def test_fuse_names_the_operations_that_it_put_together(monkeypatch: pytest.MonkeyPatch):
    right = fusion.KernelBody.operand

    def swapped(self: Any, op: Op, i: int) -> Value:
        """Wrong only for what stands in one kernel with what it reads."""
        beside = any(isinstance(v, Exp) and v in self.values for v in op.operands)
        return right(self, op, 1 - i if isinstance(op, Sub) and beside else i)

    monkeypatch.setattr(fusion.KernelBody, "operand", swapped)
    found = named(FUSED, fuse)
    assert found.kind == "answer"
    assert found.law is not None and found.law.name == "partition"
    assert found.before.splitlines() == [
        "%0 = exp %x : f64[4,5]",
        "%1 = sub %0, %y : f64[4,5]",
    ]
    assert (found.after, found.note) == ("one kernel", "decision 1 of 3")
    assert found.origin is not None and found.origin.line == 4


def test_and_the_one_of_several_looks_at_the_groups(monkeypatch: pytest.MonkeyPatch):
    def lost(self: Any, chosen: list[Op], reader: Any) -> None:
        self.home(chosen[0]).members.clear()

    module = parse("""dlvm 1
func @f(%x: f64[4,4], %w: f64[4,4]) -> f64[4,4] {
  %0 = tanh %x : f64[4,4]
  %1 = mul %0, %0 : f64[4,4]
  %2 = neg %1 : f64[4,4]
  %3 = matmul %0, %w : f64[4,4]
  %4 = mul %3, %2 : f64[4,4]
  return %4
}
""")
    assert any(d.law is move_to_reader.rehome for d in decisions(fuse, module, None))
    monkeypatch.setattr(move_to_reader.Uses, "move", lost)
    found = named(module, fuse)
    assert found.law == Law.of(move_to_reader.rehome)
    assert "%2 = neg %1" in found.before


def test_drop_names_what_it_removed(monkeypatch: pytest.MonkeyPatch):
    right = dropping.Needed.keep
    blind = lambda self, op: None if isinstance(op, Print) else right(self, op)  # noqa: E731
    monkeypatch.setattr(dropping.Needed, "keep", blind)
    found = named(DEAD, drop)
    assert found.kind == "answer"
    assert found.law is not None and found.law.name == "drop"
    assert found.before == 'print %2 label="at"'
    assert (found.after, found.note) == ("nothing", "decision 2 of 3")


def test_drop_names_an_operation_that_is_still_read(monkeypatch: pytest.MonkeyPatch):
    right = dropping.Needed.keep
    blind = lambda self, op: None if isinstance(op, Exp) else right(self, op)  # noqa: E731
    monkeypatch.setattr(dropping.Needed, "keep", blind)
    found = named(DEAD, drop)
    assert found.kind == "refused"
    assert found.before == "%0 = exp %x : f64[4]"


def test_order_names_what_it_moved(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ordering, "acts", lambda op: False)
    monkeypatch.setattr(Print, "can_raise", False)
    module = parse("""dlvm 1
func @f(%x: f64[400]) -> f64 {
  %0 = sum %x axes=(0) : f64
  print %0 label="first"
  %1 = exp %x : f64[400]
  print %1 label="second"
  %2 = sin %x : f64[400]
  %3 = cos %x : f64[400]
  %4 = sum %2 axes=(0) : f64
  %5 = sum %3 axes=(0) : f64
  %6 = add %4, %5 : f64
  return %6
}
""")
    found = named(module, order)
    assert found.kind == "answer"
    assert found.law is not None and found.law.name == "order"
    assert found.before.splitlines()[0] == 'print %0 label="first"'
    assert found.after == "the first goes below the second"


NESTING = (Scan, While, Cond, Print, Add, Sub, Mul, Exp, Sum, Max, Permute, Slice, Matmul)
"""Loops and branches with effects, and enough of each family of kernels around them."""


@pytest.mark.parametrize("name", sorted(PASSES))
def test_a_pass_that_is_stopped_anywhere_leaves_a_program_that_means_the_same(name: str):
    for seed in range(4):
        program = random_program(Seeded(seed), NESTING, max_ops=10, symbolic=bool(seed % 2))
        module = expand(program.module)
        question = Question(module, program.arrays)
        count = len(decisions(PASSES[name], module, None))
        for limit in {0, 1, count // 3, count // 2, count - 1} - {-1}:
            other = question.then(stopped(PASSES[name], module, limit))
            other.module.verify()
            assert differ(question, other.answer, other) is None, (seed, limit)


def stopped(step: Pass, module: Module, limit: int) -> Module:
    """What a pass makes with its first decisions."""
    left = [limit]

    def may(decision: Decision) -> bool:
        left[0] -= 1
        return left[0] >= 0

    with overseen(may):
        return step.run(module)


def test_what_is_asked_for_is_what_happens():
    """With nobody in the way a pass that is listened to makes what it makes alone."""
    for module in (FUSED, DEAD):
        for step in (drop, fuse, order):
            assert stopped(step, module, 1 << 30) == step.run(module)
    assert not [op for op in stopped(fuse, FUSED, 0).main.ops if len(op.operands) > 2]
    assert stopped(drop, DEAD, 0) == DEAD
    assert Mul in {type(op) for op in stopped(drop, DEAD, 0).main.ops}
