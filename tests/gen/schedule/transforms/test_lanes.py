"""The transforms ``bind`` and ``lanes``: blocks of a GPU, and what the lanes of a block share."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import Barrier, Local, Loop, statements
from dlvm.gen.schedule.blocks import blocks
from dlvm.gen.schedule.text import parse_schedule, schedule_text
from dlvm.gen.schedule.transform import WHOLE, apply
from dlvm.gen.schedule.transforms.gpu.bind import Bind
from dlvm.gen.schedule.transforms.gpu.lanes import Lanes

from .changed import COLUMNS, ROWS, SUM, TURNED, changes_no_bit, first, plain


@pytest.mark.parametrize("width", [3, 4, 8, 32])
@pytest.mark.parametrize("sizes", [(0, 2), (1, 1), (3, 5), (2, 33), (4, 70)])
def test_lanes_share_a_row_and_change_no_bit(width, sizes):
    row = first(plain(ROWS)).var
    changes_no_bit(ROWS, [Bind(row, "block"), Lanes(row, width)], sizes)
    changes_no_bit(SUM, [Lanes(WHOLE, width)], sizes)


@pytest.mark.parametrize("text", [TURNED, ROWS, COLUMNS, SUM])
@pytest.mark.parametrize("sizes", [(0, 2, 3), (1, 1, 1), (3, 5, 7), (2, 40, 3)])
def test_planned_blocks_change_no_bit(text, sizes):
    made = blocks(plain(text), 16)
    (steps,) = parse_schedule(schedule_text([made])).steps.values()
    changes_no_bit(text, steps, sizes)


def test_arrays_that_lanes_touch_are_shared_and_others_are_not():
    row = first(plain(ROWS)).var
    made = apply(plain(ROWS), [Bind(row, "block"), Lanes(row, 8)])
    arrays = [s for s in statements(made.body) if isinstance(s, Local)]
    assert {(s.size, s.shared) for s in arrays} == {(8, True), (1, False)}


def test_lanes_that_touch_their_own_elements_do_not_wait():
    """There is no barrier where each group of elements is taken in."""
    row = first(plain(ROWS)).var
    made = apply(plain(ROWS), [Bind(row, "block"), Lanes(row, 8)])
    groups = [s for s in statements(made.body) if isinstance(s, Loop) and "group" in s.var]
    assert groups and not any(isinstance(t, Barrier) for s in groups for t in statements(s.body))


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([Lanes("%i1", 8)], "the turns of the loop are parallel, not blocks"),
        ([Bind("%i1", "warp")], "a loop is bound to one of block, lane, not warp"),
        ([Bind("%i1", "lane")], "a block has a known number of lanes, 1024 at most"),
        ([Bind("%i1", "block"), Bind("%i1", "block")], "the turns of the loop are block"),
        ([Bind("%i1", "block"), Lanes("%i1", 0)], "a block has 1 to 1024 lanes, not 0"),
    ],
)
def test_what_is_not_possible_is_refused(steps, reason):
    assert first(plain(ROWS)).var == "%i1"
    with pytest.raises(UserError, match=reason):
        apply(plain(ROWS), steps)
