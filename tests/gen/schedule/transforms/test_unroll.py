"""The transform ``unroll``: several turns in one, with the same bits."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.unroll import MOST_STATEMENTS, Unroll

from .changed import ROWS, SUM, TURNED, changes_no_bit, first, plain

KNOWN = TURNED.replace("A", "6").replace("B", "5").replace("C", "8")
FOLDED = ROWS.replace("A", "4").replace("B", "9")


@pytest.mark.parametrize("factor", [1, 2, 4, 8])
def test_several_turns_become_one(factor):
    loop = first(plain(KNOWN))
    made = apply(plain(KNOWN), [Unroll(loop.var, factor)])
    assert first(made).var != loop.var
    changes_no_bit(KNOWN, [Unroll(loop.var, factor)], ())


@pytest.mark.parametrize("factor", [3, 7, 9])
def test_what_is_left_has_a_loop_of_its_own(factor):
    loop = first(plain(KNOWN))
    made = apply(plain(KNOWN), [Unroll(loop.var, factor)])
    assert made.body[-1].var == f"{loop.var}.r"
    changes_no_bit(KNOWN, [Unroll(loop.var, factor)], ())


@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_an_open_number_of_turns(size):
    loop = first(plain(TURNED))
    changes_no_bit(TURNED, [Unroll(loop.var, 3)], (4, 5, size))


@pytest.mark.parametrize("factor", [2, 4])
def test_rows_that_are_folded(factor):
    changes_no_bit(FOLDED, [Unroll(first(plain(FOLDED)).var, factor)], ())


@pytest.mark.parametrize(
    ("text", "factor", "reason"),
    [
        (KNOWN, 0, "1 turn or more, not 0"),
        (KNOWN.replace("8", str(2 * MOST_STATEMENTS)), 2 * MOST_STATEMENTS, "are allowed"),
    ],
)
def test_what_is_not_possible_is_refused(text, factor, reason):
    with pytest.raises(UserError, match=reason):
        apply(plain(text), [Unroll(first(plain(text)).var, factor)])


def test_a_sum_is_folded_in_its_order():
    text = SUM.replace("A", "4").replace("B", "16")
    serial = next(s for s in _loops(plain(text).body) if s.kind == "serial")
    changes_no_bit(text, [Unroll(serial.var, 2)], ())


def _loops(body):
    for s in body:
        if hasattr(s, "body"):
            yield s
            yield from _loops(s.body)
