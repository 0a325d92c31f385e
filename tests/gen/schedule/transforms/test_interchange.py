"""The transform ``interchange``: two loops in the other order, with the same bits."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.loops.statements import Loop
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.interchange import Interchange
from dlvm.gen.schedule.transforms.split import Split
from dlvm.gen.schedule.transforms.vectorize import Vectorize

from .changed import COLUMNS, ROWS, TURNED, changes_no_bit, first, plain


def chain(text):
    """The names of loops right inside one another."""
    found = [first(plain(text))]
    while isinstance(found[-1].body[-1], Loop):
        found.append(found[-1].body[-1])
    return [s.var for s in found]


@pytest.mark.parametrize("sizes", [(0, 2, 3), (1, 1, 1), (3, 5, 7), (4, 1, 6)])
def test_two_loops_change_places(sizes):
    a, b, _ = chain(TURNED)
    made = apply(plain(TURNED), [Interchange(a)])
    assert first(made).var == b
    changes_no_bit(TURNED, [Interchange(a)], sizes)
    changes_no_bit(TURNED, [Interchange(b), Interchange(a), Vectorize(a)], sizes)


@pytest.mark.parametrize("sizes", [(0, 2, 3), (1, 1, 1), (9, 5, 17), (8, 2, 16)])
def test_two_splits_and_an_interchange_are_tiles(sizes):
    _, b, c = chain(TURNED)
    steps = [Split(b, 4), Split(c, 8), Interchange(f"{b}.i"), Vectorize(f"{c}.i")]
    made = apply(plain(TURNED), steps)
    names = [s.var for s in _nested(first(made))]
    assert names[1:] == [f"{b}.o", f"{c}.o", f"{b}.i", f"{c}.i"]
    changes_no_bit(TURNED, steps, sizes)


def _nested(loop):
    while True:
        yield loop
        if not isinstance(loop.body[-1], Loop):
            return
        loop = loop.body[-1]


@pytest.mark.parametrize("text", [ROWS, COLUMNS])
def test_loops_beside_others_stay(text):
    with pytest.raises(UserError, match=r"holds more than one loop|turns of the loops are"):
        apply(plain(text), [Interchange(first(plain(text)).var)])


def test_a_loop_whose_length_depends_on_the_other_stays_inside():
    *_, last = chain(TURNED)
    with pytest.raises(UserError, match="depends on the turn"):
        apply(plain(TURNED), [Split(last, 4), Interchange(f"{last}.o")])
