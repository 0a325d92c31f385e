"""The transform ``share``: which loops threads may share, and what it refuses."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import Loop
from dlvm.gen.loops.verifier import verify
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.share import Share
from dlvm.ir.sizes.dims import symbol
from tests.gen.compiled import kernel

TURNED = """func @f(%x: f32[A,B,C]) -> f32[C,B,A] {
  %t = permute %x perm=(2,1,0) : f32[C,B,A]
  %z = exp %t : f32[C,B,A]
  %s = sum %z axes=(1) : f32[C,A]
  %b = broadcast %s shape=(C,B,A) axes=(0,2) : f32[C,B,A]
  %y = div %z, %b : f32[C,B,A]
  return %y
}"""


def plain():
    return lower(kernel(TURNED)[0], "k")


def outermost(made):
    return next(s for s in made.body if isinstance(s, Loop))


def test_threads_share_the_turns_of_loops_as_one_range():
    loop = outermost(plain())
    made = apply(plain(), [Share(loop.var, symbol("C") + 1, 2)])
    verify(made)
    found = outermost(made)
    assert (found.grain, found.levels) == (symbol("C") + 1, 2)


@pytest.mark.parametrize(
    ("grain", "levels", "reason"),
    [
        (0, 1, "a thread takes 1 turn or more, not 0"),
        (1, 9, "not all turns of the 9 loops are independent"),
        (1, 0, "not all turns of the 0 loops are independent"),
        (symbol("%i2"), 1, "the grain is computed outside of the loop %i2"),
    ],
)
def test_a_step_that_is_not_possible_is_refused(grain, levels, reason):
    loop = outermost(plain())
    with pytest.raises(UserError, match=f"share {loop.var}.*: {reason}"):
        apply(plain(), [Share(loop.var, grain, levels)])


def test_serial_turns_are_not_shared():
    text = """func @f(%x: f32[N]) -> f32[N] {
  %y = cumulative_sum %x axis=0 : f32[N]
  return %y
}"""
    made = lower(kernel(text, "running")[0], "k")
    with pytest.raises(UserError, match="not all turns of the 1 loops are independent"):
        apply(made, [Share(outermost(made).var, 1)])
