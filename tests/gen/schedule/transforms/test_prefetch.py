"""The transform ``prefetch``: no bit depends on it, and what it refuses with which reason."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import Loop
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.planner import planned
from dlvm.gen.schedule.text import parse_schedule, schedule_text
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.prefetch import Prefetch
from dlvm.gen.schedule.transforms.share import Share
from tests.gen.compiled import kernel

from .changed import COLUMNS, ROWS, TURNED, changes_no_bit, first, plain

TWICE = """func @f(%x: f32[A,B]) -> f32[A] {
  %m = max %x axes=(1) : f32[A]
  %b = broadcast %m shape=(A,B) axes=(0) : f32[A,B]
  %d = sub %x, %b : f32[A,B]
  %s = sum %d axes=(1) : f32[A]
  return %s
}"""
ONCE = """func @f(%x: f32[A,B]) -> f32[A] {
  %s = sum %x axes=(1) : f32[A]
  return %s
}"""


@pytest.mark.parametrize(
    "text", [ROWS, TWICE, TWICE.replace("f32", "f64"), TWICE.replace("f32", "bf16")]
)
@pytest.mark.parametrize("sizes", [(0, 5), (1, 1), (3, 0), (7, 33), (2, 131)])
def test_rows_that_are_read_twice_are_asked_for(text, sizes):
    loop = first(plain(text))
    steps = [Share(loop.var, 1), Prefetch(loop.var)]
    assert first(apply(plain(text), steps)).ahead
    changes_no_bit(text, steps, sizes)


def test_a_row_that_is_no_second_sweep_is_refused():
    for text in (ONCE, TURNED):
        loop = first(plain(text))
        with pytest.raises(UserError, match=f"prefetch {loop.var}: no turn reads a row of an op"):
            apply(plain(text), [Share(loop.var, 1), Prefetch(loop.var)])


def test_turns_of_one_thread_are_refused():
    loop = first(plain(ROWS))
    with pytest.raises(UserError, match=f"prefetch {loop.var}: threads do not share its turns"):
        apply(plain(ROWS), [Prefetch(loop.var)])


@pytest.mark.parametrize(("text", "asks"), [(TWICE, True), (COLUMNS, True), (ONCE, False)])
def test_the_planner_asks_where_something_is_read_twice(text, asks):
    made = planned(lower(kernel(text)[0], "k"), work=1)
    found = schedule_text([made])
    assert ("  prefetch %" in found) == asks
    assert (" ahead {" in str(made)) == asks
    again = parse_schedule(found).applied(lower(kernel(text)[0], "k"))
    assert str(again) == str(made)
    without = "\n".join(line for line in found.splitlines() if "prefetch" not in line)
    asked = parse_schedule(without).applied(lower(kernel(text)[0], "k"))
    assert not any(s.ahead for s in asked.body if isinstance(s, Loop))
