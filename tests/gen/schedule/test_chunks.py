"""Chunks of long rows that are dealt to the warps of a block: proven, and no bit is changed."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import Loop, statements
from dlvm.gen.loops.verifier import verify
from dlvm.gen.schedule.blocks import LANES, GpuPlanner, blocks
from dlvm.gen.schedule.rows import kept
from dlvm.gen.schedule.text import parse_schedule, schedule_text
from dlvm.gen.schedule.transform import WHOLE, apply
from dlvm.gen.schedule.transforms.gpu.bind import Bind
from dlvm.gen.schedule.transforms.gpu.deal import Deal, dealt, warps_of
from dlvm.gen.schedule.transforms.gpu.lanes import Lanes
from tests.gen.compiled import kernel
from tests.gen.values import same_bits

from .transforms.changed import first, plain, run

TREE = 64, 32
"""Small chunks, of which a row of 150 elements has three."""
SOFTMAX = """func @f(%x: f32[R,N]) -> (f32[R,N], f32[R]) {
  %m = max %x axes=(1) : f32[R]
  %n = broadcast %m shape=(R,N) axes=(0) : f32[R,N]
  %d = sub %x, %n : f32[R,N]
  %e = exp %d : f32[R,N]
  %s = sum %e axes=(1) : f32[R]
  %b = broadcast %s shape=(R,N) axes=(0) : f32[R,N]
  %z = div %e, %b : f32[R,N]
  return %z, %s
}"""


def ready(loops):
    """With rows that are kept, whose chunks are dealt if they can be."""
    made = apply(loops, [*kept(loops)])
    return apply(made, [Deal(WHOLE)] if dealt(made.body) else [])


def rows(columns, count=5):
    return SOFTMAX.replace("N", str(columns)).replace("R", str(count))


@pytest.mark.parametrize(("columns", "count"), [(65, 5), (128, 2), (150, 5), (350, 2), (2049, 1)])
def test_the_loops_are_proven_and_change_no_bit(columns, count):
    op, _ = kernel(rows(columns, count), tree=TREE)
    x = np.random.default_rng(columns).standard_normal((count, columns)).astype("f4")
    before = plain(rows(columns, count), TREE)
    chunks = ready(before)
    scheduled = blocks(chunks, LANES)
    verify(chunks)
    verify(scheduled)
    expected = run(before, op, [x])
    assert all(map(same_bits, run(chunks, op, [x]), expected))
    assert all(map(same_bits, run(scheduled, op, [x]), expected))


@pytest.mark.parametrize(
    ("columns", "warps"), [(64, 1), (65, 2), (150, 3), (350, 4), (2048, 4), (2049, 4)]
)
def test_a_block_has_no_more_warps_than_there_is_work_for(columns, warps):
    made = ready(plain(rows(columns), TREE))
    assert warps_of(first(made).body) == warps


def test_a_row_of_one_chunk_that_is_long_is_folded_by_one_warp_and_written_by_all():
    made = ready(plain(rows(2049), (4096, 32)))
    chunks = [s for s in statements(made.body) if isinstance(s, Loop) and "%chunk" in s.var]
    assert [(s.extent, s.kind) for s in chunks] == [(1, "parallel")] * 2
    assert warps_of(first(made).body) == 4
    before = plain(rows(2048), (4096, 32))
    assert dealt(apply(before, [*kept(before)]).body) is None


def test_the_schedule_can_be_read_back():
    plainly = plain(rows(150), TREE)
    made = GpuPlanner().applied(plainly)
    text = schedule_text([made])
    assert {"stages", "bind", "lanes"} < {line.split()[0] for line in text.splitlines()}
    again = parse_schedule(text).applied(plainly)
    assert str(again).splitlines() == str(made).splitlines()
    assert again.buffers == made.buffers


@pytest.mark.parametrize(
    ("lanes", "reason"),
    [
        ((16, 4), "each of several warps has 32 lanes, not 16"),
        ((32, 64), "a block has 1 to 1024 lanes, not 2048"),
        ((32, 0), "a block has 1 to 1024 lanes, not 0"),
    ],
)
def test_what_is_not_possible_is_refused(lanes, reason):
    with pytest.raises(UserError, match=reason):
        apply(
            apply(plain(rows(150), TREE), [Deal(WHOLE)]),
            [Bind("%i1", "block"), Lanes("%i1", *lanes)],
        )
