"""The transforms ``cut``, ``simplify`` and ``distribute``: boxes in which guards are decided."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import Let, Load, Loop, Word, statements
from dlvm.gen.schedule.transform import WHOLE, apply
from dlvm.gen.schedule.transforms.cut import Cut
from dlvm.gen.schedule.transforms.distribute import Distribute
from dlvm.gen.schedule.transforms.simplify import Simplify
from dlvm.ir.sizes.dims import symbol

from .changed import ROWS, TURNED, changes_no_bit, first, plain

JOINED = """func @f(%x: f32[A,B], %y: f32[A,C]) -> f32[A,B+C] {
  %z = concat [%x, %y] axis=1 : f32[A,B+C]
  %w = exp %z : f32[A,B+C]
  return %w
}"""
PADDED = """func @f(%x: f32[A,B]) -> f32[A+3,B+2] {
  %z = pad %x low=(1,0) high=(2,2) : f32[A+3,B+2]
  %w = neg %z : f32[A+3,B+2]
  return %w
}"""
SIZES = [(0, 2, 3), (1, 1, 1), (3, 5, 7), (4, 0, 6)]


def selects(made):
    lets = (s.scalar for s in statements(made.body) if isinstance(s, Let))
    return [x for x in lets if isinstance(x, Word) and x.word == "select"]


def guarded(made):
    lets = (s.scalar for s in statements(made.body) if isinstance(s, Let))
    return [x for x in lets if isinstance(x, Load) and x.where]


@pytest.mark.parametrize("sizes", SIZES)
def test_a_loop_is_cut_where_its_pieces_meet(sizes):
    outer = first(plain(JOINED))
    inner = next(s for s in outer.body if isinstance(s, Loop))
    steps = [Cut(inner.var, symbol("B")), Simplify(WHOLE)]
    made = apply(plain(JOINED), steps)
    assert selects(plain(JOINED)) and not selects(made) and not guarded(made)
    assert len([s for s in first(made).body if isinstance(s, Loop)]) == 2
    changes_no_bit(JOINED, steps, sizes)
    changes_no_bit(JOINED, [*steps, Distribute(outer.var)], sizes)


@pytest.mark.parametrize("sizes", SIZES)
def test_what_surrounds_a_padded_tensor_reads_nothing(sizes):
    loop = first(plain(PADDED)).var
    steps = [Cut(loop, 1), Simplify(WHOLE)]
    made = apply(plain(PADDED), steps)
    top, _ = (s for s in made.body if isinstance(s, Loop))
    assert not any(isinstance(s, Let) and isinstance(s.scalar, Load) for s in statements(top.body))
    changes_no_bit(PADDED, steps, sizes)


def test_copies_have_names_of_their_own():
    loop = first(plain(ROWS))
    made = apply(plain(ROWS), [Cut(loop.var, 0)])
    names = [s.var for s in statements(made.body) if isinstance(s, Loop)]
    assert len(names) == len(set(names))
    changes_no_bit(ROWS, [Cut(loop.var, 0)], (3, 5))


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (symbol("A"), "it is not known that A lies in 0..C"),
        (-1, "it is not known that -1 lies in 0..C"),
        (symbol("%i2"), "it is not known"),
    ],
)
def test_a_cut_that_may_lie_outside_is_refused(at, reason):
    with pytest.raises(UserError, match=reason):
        apply(plain(TURNED), [Cut(first(plain(TURNED)).var, at)])


def test_a_loop_that_holds_more_than_loops_is_not_distributed():
    with pytest.raises(UserError, match="it holds more than loops and scalars"):
        apply(plain(ROWS), [Distribute(first(plain(ROWS)).var)])
