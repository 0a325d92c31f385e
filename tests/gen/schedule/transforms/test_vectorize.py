"""The transform ``vectorize``: which loops it takes, and what it refuses with which reason."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import Loop, statements
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.vectorize import Vectorize
from tests.gen.compiled import kernel

ROWS = """func @f(%x: f32[N,M]) -> f32[N,M] {
  %y = exp %x : f32[N,M]
  %s = sum %y axes=(1) : f32[N]
  %b = broadcast %s shape=(N,M) axes=(0) : f32[N,M]
  %z = div %y, %b : f32[N,M]
  return %z
}"""


def plain():
    return lower(kernel(ROWS)[0], "k")


def loops(made, kind):
    return [s for s in statements(made.body) if isinstance(s, Loop) and s.kind == kind]


def loops_in(outer):
    return [s for s in statements(outer.body) if isinstance(s, Loop) and s.kind == "parallel"]


def test_the_turns_of_a_loop_become_lanes():
    inner = loops(plain(), "parallel")[-1]
    made = apply(plain(), [Vectorize(inner.var, 4, 8)])
    (found,) = loops(made, "vector")
    assert (found.var, found.width, found.strip) == (inner.var, 4, 8)


@pytest.mark.parametrize(
    ("kind", "width", "reason"),
    [
        ("serial", 0, "the turns of the loop are serial, not parallel"),
        ("parallel", 1024, "a vector has at most 512 lanes"),
        ("parallel", -1, "a vector has at most 512 lanes"),
    ],
)
def test_a_step_that_is_not_possible_is_refused(kind, width, reason):
    loop = loops(plain(), kind)[-1]
    with pytest.raises(UserError, match=f"vectorize {loop.var}.*: {reason}") as error:
        apply(plain(), [Vectorize(loop.var, width)])
    assert "help: take the step out" in str(error.value)


def test_no_loop_around_vectors_becomes_vectors():
    outer = next(s for s in loops(plain(), "parallel") if loops_in(s))
    inner = loops_in(outer)[-1]
    with pytest.raises(UserError, match=f"the loop {inner.var} in it has vectors already"):
        apply(plain(), [Vectorize(inner.var), Vectorize(outer.var)])


def test_a_search_takes_one_turn_at_a_time():
    text = """func @f(%a: f32[N], %v: f32[M]) -> i64[M] {
  %i = searchsorted %a, %v : i64[M]
  return %i
}"""
    made = lower(kernel(text, "ordering")[0], "k")
    (loop,) = loops(made, "parallel")
    with pytest.raises(UserError, match="takes one turn at a time"):
        apply(made, [Vectorize(loop.var)])


def test_a_loop_inside_must_turn_as_often_in_every_lane():
    text = """func @f(%x: f64[2,1,1]) -> (f64[2,1,1], f64[2,1], f64[2,1,1]) {
  %u, %s, %v = svd %x left=true : f64[2,1,1], f64[2,1], f64[2,1,1]
  return %u, %s, %v
}"""
    made = lower(kernel(text, "factorisation")[0], "k")
    outer = loops(made, "parallel")[0]
    with pytest.raises(UserError, match="lanes need different numbers of turns of the loop %q"):
        apply(made, [Vectorize(outer.var)])
