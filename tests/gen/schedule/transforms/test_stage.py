"""The transform ``stage``: what is read is copied to an array first, with the same bits."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import Buffer, Load, Local, accesses, statements
from dlvm.gen.loops.verifier import verify
from dlvm.gen.schedule.tiling import tiles
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.interchange import Interchange
from dlvm.gen.schedule.transforms.split import Split
from dlvm.gen.schedule.transforms.stage import Stage

from .changed import ROWS, changes_no_bit, first, plain

ACROSS = """func @f(%x: f32[A,B], %y: f32[B,A]) -> f32[B,A] {
  %t = permute %x perm=(1,0) : f32[B,A]
  %z = add %t, %y : f32[B,A]
  return %z
}"""
STEPS = [
    Split("%i1", 8),
    Split("%i2", 4),
    Interchange("%i1.i"),
    Stage("%i2.o", "b0"),
]


@pytest.mark.parametrize("sizes", [(0, 3), (1, 1), (4, 8), (5, 9), (13, 31), (40, 7)], ids=str)
def test_tiles_change_no_bit(sizes: tuple[int, int]):
    changes_no_bit(ACROSS, STEPS, sizes)


def test_a_tile_is_read_where_its_operand_was():
    made = apply(plain(ACROSS), STEPS)
    verify(made)
    (array,) = (s for s in statements(made.body) if isinstance(s, Local))
    assert array.size == 8 * 4
    loads = [x for x in accesses(made.body) if isinstance(x, Load) and x.memory == array]
    whole = [x for x in accesses(made.body) if isinstance(x, Load) and x.memory.name == "b0"]
    assert (len(loads), len(whole)) == (1, 1)


@pytest.mark.parametrize("sizes", [(0, 6), (1, 6), (5, 6)], ids=str)
def test_rows_change_no_bit(sizes: tuple[int, int]):
    known = ROWS.replace("B", "6")
    changes_no_bit(known, [Stage(first(plain(known)).var, "b0", 6)], sizes)


def test_a_row_is_read_once():
    known = ROWS.replace("B", "6")
    made = apply(plain(known), [Stage(first(plain(known)).var, "b0", 6)])
    loads = [x for x in accesses(made.body) if isinstance(x, Load)]
    assert sum(isinstance(x.memory, Buffer) and x.memory.name == "b0" for x in loads) == 1


@pytest.mark.parametrize(
    "steps, words",
    [
        ([Stage("%i1", "b2")], "b2 is written there"),
        ([Stage("%i1", "b7")], "nothing of b7 is read there"),
        ([Stage("%i1", "b0")], "nothing of b0 is read across"),
        ([Stage("%i1", "b1", 1 << 30)], "is empty or too large"),
        ([Stage("%i1", "b0", -1)], "is empty or too large"),
        ([*STEPS[:3], Stage("%i1.o", "b0", 8), Stage("%i1.o", "b0")], "nothing of b0|read across"),
    ],
    ids=str,
)
def test_what_cannot_be_copied_is_refused(steps: list[Stage], words: str):
    with pytest.raises(UserError, match=words):
        apply(plain(ACROSS), steps)


def test_rows_that_a_step_makes_too_short_are_refused_by_the_verifier():
    from dlvm.gen.schedule.text import Schedule

    known = ROWS.replace("B", "6")
    loops = plain(known)
    with pytest.raises(UserError, match="stage"):
        Schedule({"k": (Stage(first(loops).var, "b0", 5),)}).applied(loops)


@pytest.mark.parametrize("a, b, count", [(64, 64, 0), (300, 200, 5), (200, 300, 4), (8, 9000, 5)])
def test_large_operands_that_lie_across_are_tiled(a: int, b: int, count: int):
    known = ACROSS.replace("A", str(a)).replace("B", str(b))
    steps = [*tiles(plain(known))]
    assert len(steps) == count
    verify(apply(plain(known), steps))
