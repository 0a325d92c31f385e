"""What is done in place, counted in copied elements, and what must not be."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.build import build
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.memory import plan
from dlvm.gen.program.steps import Copy, Program
from dlvm.gen.program.text import program_text
from dlvm.ir import Module, parse
from tests.gen.control_cases import SCATTER, SOMETIMES, SWAP, whole
from tests.gen.program.test_control import assert_same, run_steps


def module(text: str) -> Module:
    return parse("dlvm 1\n" + text).verify()


def program(text: str) -> Program:
    return coalesce(to_program(module(text)))


def copies(p: Program) -> list[str]:
    lines = program_text(p, plan(p)).splitlines()
    found = [line.strip() for line in lines if line.strip().startswith("copy")]
    assert len(found) == sum(isinstance(s, Copy) for s in p.walk())
    return found


@pytest.mark.parametrize("trips", [0, 1, 10, 100])
def test_updates_of_a_carried_array_cost_its_length_once(trips: int):
    n = 1000
    arrays = whole(n), np.arange(trips) * 7 % n, whole(trips)
    outcome = run_steps(module(SCATTER), *arrays)
    assert_same(outcome.results, module(SCATTER).run("f", *arrays))
    assert outcome.copied == n


def test_an_update_in_one_branch_of_a_condition_is_in_place():
    arrays = whole(1000), np.arange(50), np.arange(50) % 2 == 0
    outcome = run_steps(module(SOMETIMES), *arrays)
    assert_same(outcome.results, module(SOMETIMES).run("f", *arrays))
    assert outcome.copied == 1000


def test_a_rotation_of_carried_values_copies_through_one_room_only():
    p = program(SWAP)
    inside = [c for c in copies(p) if "%t" in c]
    assert len(inside) == 2
    assert len(copies(p)) == 3 + 4


def test_a_target_that_is_read_later_is_copied_first():
    text = """
    func @f(%x: f32[8], %i: i64, %u: f32) -> (f32[8], f32[8]) {
      %0 = add %x, %x : f32[8]
      %1 = scatter_add %0, %i, %u axis=0 : f32[8]
      %2 = add %0, %1 : f32[8]
      return %1, %2
    }
    """
    assert len(copies(program(text))) == 1
    arrays = whole(8), np.int64(-2), np.float32(5)
    assert_same(run_steps(module(text), *arrays).results, module(text).run("f", *arrays))


def test_a_target_that_dies_is_not_copied():
    text = """
    func @f(%x: f32[8], %i: i64, %u: f32) -> f32[8] {
      %0 = add %x, %x : f32[8]
      %1 = scatter_add %0, %i, %u axis=0 : f32[8]
      return %1
    }
    """
    assert copies(program(text)) == []


def test_a_target_that_is_also_the_update_is_copied():
    text = """
    func @f(%x: f32[8], %i: i64[8]) -> f32[8] {
      %0 = add %x, %x : f32[8]
      %1 = scatter_set %0, %i, %0 axis=0 : f32[8]
      return %1
    }
    """
    assert len(copies(program(text))) == 1
    arrays = whole(8), np.arange(8)[::-1].copy()
    assert_same(run_steps(module(text), *arrays).results, module(text).run("f", *arrays))


def test_a_captured_array_that_a_loop_updates_is_copied_each_trip():
    text = """
    func @f(%x: f32[8], %is: i64[3]) -> f32[3,8] {
      %one = constant value=1.0 : f32
      %0 = scan [], [%is], [%x, %one] length=3 : f32[3,8]
        body(%i: i64, %x: f32[8], %one: f32) -> f32[8] {
          %1 = scatter_add %x, %i, %one axis=0 : f32[8]
          return %1
        }
      return %0
    }
    """
    arrays = whole(8), np.array([1, 1, 4])
    outcome = run_steps(module(text), *arrays)
    assert_same(outcome.results, module(text).run("f", *arrays))
    assert outcome.copied == 3 * 8


def test_slices_of_a_stacked_result_are_written_where_they_belong():
    text = """
    func @f(%xs: f32[5,3]) -> f32[5,3] {
      %0 = scan [], [%xs], [] length=5 : f32[5,3]
        body(%x: f32[3]) -> f32[3] {
          %1 = add %x, %x : f32[3]
          return %1
        }
      return %0
    }
    """
    assert copies(program(text)) == []


def test_a_stacked_result_of_an_inner_loop_lies_within_that_of_the_outer():
    text = """
    func @f(%xs: f32[5,3]) -> f32[5,3] {
      %0 = scan [], [%xs], [] length=5 : f32[5,3]
        body(%row: f32[3]) -> f32[3] {
          %1 = scan [], [%row], [] length=3 : f32[3]
            body(%x: f32) -> f32 {
              %2 = add %x, %x : f32
              return %2
            }
          return %1
        }
      return %0
    }
    """
    p = program(text)
    assert copies(p) == [] and plan(p).bytes == 0
    assert_same(run_steps(module(text), whole(5, 3)).results, module(text).run("f", whole(5, 3)))


STEP = """
func @f(%w: f32[4] donated, %x: f32[4], %b: f32[4] donated) -> (f32, f32[4], f32[4]) {
  %0 = mul %w, %x : f32[4]
  %1 = sum %0 axes=(0) : f32
  %2 = sub %w, %x : f32[4]
  %3 = add %b, %2 : f32[4]
  return %1, %2, %3
}
"""


def test_donated_arguments_are_matched_in_order_by_type():
    assert module(STEP).main.donations() == {1: 0, 2: 2}


def test_a_donated_argument_becomes_the_result_without_a_copy():
    p = program(STEP)
    assert copies(p) == []
    assert [v.storage.name for v in p.results] == ["result0", "w", "b"]


def test_donated_arguments_may_change_places():
    text = """
    func @f(%a: f32[4] donated, %b: f32[4] donated) -> (f32[4], f32[4]) {
      return %b, %a
    }
    """
    a, b = whole(4), whole(4) + 9
    assert_same(run_steps(module(text), a, b).results, (b, a))


def test_a_donated_argument_is_whole_until_nothing_can_fail():
    text = """
    func @f(%a: f32[4] donated, %p: bool) -> f32[4] {
      %0 = add %a, %a : f32[4]
      CHECK
      return %0
    }
    """
    assert len(copies(program(text.replace("CHECK", 'assert %p message="no"')))) == 1
    assert len(copies(program(text.replace("CHECK", "")))) == 0


CARRY = """
func @f(%x: f32[3,3], %y: f32[3,3]) -> f32[3,3] {
  %0 = scan [%x], [], [%y] length=4 : f32[3,3]
    body(%c: f32[3,3], %y: f32[3,3]) -> f32[3,3] {
      %1 = kernel [%c, %y] family="loops" : f32[3,3]
        body(%c: f32[3,3], %y: f32[3,3]) -> f32[3,3] {
          BODY
        }
      return %1
    }
  return %0
}
"""
SAME_PLACE = """
          %a = mul %c, %y : f32[3,3]
          %b = add %a, %c : f32[3,3]
          return %b
"""
OTHER_PLACE = """
          %a = permute %c perm=(1, 0) : f32[3,3]
          %b = add %a, %c : f32[3,3]
          return %b
"""
TWO_NESTS = """
          %s = sum %c axes=(1) : f32[3]
          %a = broadcast %s shape=(3,3) axes=(0) : f32[3,3]
          %b = add %a, %c : f32[3,3]
          return %b
"""


@pytest.mark.parametrize(
    ("body", "trip"),
    [(SAME_PLACE, 0), (OTHER_PLACE, 9), (TWO_NESTS, 9)],
    ids=["same", "other", "two"],
)
def test_a_kernel_overwrites_what_it_reads_only_at_the_place_it_writes(body: str, trip: int):
    text = CARRY.replace("BODY", body)
    outcome = run_steps(module(text), whole(3, 3), whole(3, 3))
    assert_same(outcome.results, module(text).run("f", whole(3, 3), whole(3, 3)))
    assert outcome.copied == 9 + 4 * trip


def test_memory_that_two_buffers_share_is_not_promised_to_be_apart():
    found = module(
        """func @step(%x: f32[9] donated, %y: f32[9]) -> f32[9] {
  %0 = add %x, %y : f32[9]
  return %0
}
"""
    )
    assert (
        "@k0(ptr %b0, ptr noalias %b1, ptr %b2, ptr %status, ptr %context)"
        in build(found).texts["llvm"]
    )


def test_a_second_product_adds_to_the_first_one_in_its_place():
    a, b, c, d = (np.random.default_rng(i).standard_normal((70, 70)) for i in range(4))
    f = dlvm.function(lambda a, b, c, d: a @ b + c @ d)
    compiled = f.compile(a, b, c, d)
    assert (compiled.report.launches, compiled.report.peak_bytes) == (2, 0)
    np.testing.assert_allclose(compiled(a, b, c, d), a @ b + c @ d)


def test_what_is_read_later_is_not_overwritten_by_a_result():
    def f(a, b, c, d):
        first = a @ b
        return first + c @ d, dlvm.sort(first, axis=0)

    a, b, c, d = (np.random.default_rng(i).standard_normal((70, 70)) for i in range(4))
    for x, y in zip(dlvm.function(f)(a, b, c, d), f(a, b, c, d), strict=True):
        np.testing.assert_allclose(x, y)
