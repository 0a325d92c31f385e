"""The transform ``split``: pieces of a loop, the last one cut or under a mask."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.split import Split
from dlvm.gen.schedule.transforms.vectorize import Vectorize

from .changed import ROWS, TURNED, changes_no_bit, first, plain


@pytest.mark.parametrize("tail", ["cut", "mask"])
@pytest.mark.parametrize("size", [1, 4, 7])
@pytest.mark.parametrize("sizes", [(0, 2, 3), (1, 1, 1), (3, 5, 7), (2, 3, 8)])
def test_a_loop_in_pieces(tail, size, sizes):
    for text in (TURNED, ROWS):
        changes_no_bit(text, [Split(first(plain(text)).var, size, tail)], sizes)


def test_the_turns_of_a_piece_may_be_vectors():
    loop = first(plain(ROWS.replace("axes=(1)", "axes=(1)")))
    inner = [s for s in loop.body if getattr(s, "kind", "") == "parallel"][-1]
    steps = [Split(inner.var, 6), Vectorize(f"{inner.var}.i")]
    changes_no_bit(ROWS, steps, (3, 17))


@pytest.mark.parametrize(
    ("size", "tail", "reason"),
    [(0, "cut", "a piece has 1 turn or more"), (4, "wrap", "the tail is one of cut, mask")],
)
def test_what_is_not_possible_is_refused(size, tail, reason):
    with pytest.raises(UserError, match=reason):
        apply(plain(TURNED), [Split(first(plain(TURNED)).var, size, tail)])
