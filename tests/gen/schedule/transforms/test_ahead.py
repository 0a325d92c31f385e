"""The transform ``ahead``: loads before they are needed, with the same bits."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import Buffer, Let, Load, Loop, Store, statements
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.gpu.ahead import Ahead, loads_of

from .changed import TURNED, changes_no_bit, first, plain

FOLDED = """func @f(%x: f32[A,B]) -> f32[B] {
  %s = sum %x axes=(0) : f32[B]
  return %s
}"""
PRODUCT = """func @f(%x: f64[A,B], %y: f64[A,B]) -> f64[B] {
  %z = mul %x, %y : f64[A,B]
  %s = sum %z axes=(0) : f64[B]
  return %s
}"""


TREE = 32, 1
"""Chunks that are folded element by element, as the columns of a GPU are."""


def folding(text):
    """The loops of a kernel, and the first that folds what it reads."""
    loops = plain(text, TREE)
    found = (s for s in statements(loops.body) if isinstance(s, Loop) and loads_of(s.body))
    return loops, next(s for s in found if s.kind == "serial")


@pytest.mark.parametrize("text", [FOLDED, PRODUCT], ids=["one", "two"])
@pytest.mark.parametrize("rows", [20, 21, 24, 25, 31])
@pytest.mark.parametrize("factor", [1, 2, 4])
def test_no_bit_changes(text, rows, factor):
    known = text.replace("A", str(rows)).replace("B", "7")
    changes_no_bit(known, [Ahead(folding(known)[1].var, factor)], (), TREE)


def test_as_many_loads_are_on_their_way_as_the_factor():
    loops, loop = folding(FOLDED.replace("A", "32").replace("B", "7"))
    made = apply(loops, [Ahead(loop.var, 8)])
    (turns,) = (
        s for s in statements(made.body) if isinstance(s, Loop) and s.var == f"{loop.var}.u"
    )
    loads = loads_from_buffers(turns)
    assert len(loads) == 8
    stored = {s.scalar for s in turns.body if isinstance(s, Store) and "ahead" in s.memory.name}
    assert stored == loads  # the next turn folds them


def loads_from_buffers(loop):
    scalars = {s.scalar for s in loop.body if isinstance(s, Let)}
    return {x for x in scalars if isinstance(x, Load) and isinstance(x.memory, Buffer)}


@pytest.mark.parametrize(
    ("rows", "factor", "reason"),
    [
        ("32", 0, "known number of turns"),
        ("32", 33, "known number of turns in order, 33 or more"),
        ("A", 4, "known number of turns"),
    ],
)
def test_what_is_not_possible_is_refused(rows, factor, reason):
    loops, loop = folding(FOLDED.replace("A", rows))
    with pytest.raises(UserError, match=reason):
        apply(loops, [Ahead(loop.var, factor)])


def test_turns_that_are_no_fold_are_refused():
    loops = plain(TURNED)
    with pytest.raises(UserError, match="known number of turns in order"):
        apply(loops, [Ahead(first(loops).var, 2)])
    loops, loop = folding(FOLDED.replace("A", "96"))
    outer = next(s for s in statements(loops.body) if isinstance(s, Loop) and s.kind == "serial")
    assert outer is not loop
    with pytest.raises(UserError, match="more than fold"):
        apply(loops, [Ahead(outer.var, 2)])
