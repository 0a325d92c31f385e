"""The transform ``fuse``: loops inside one another as one, with the same bits."""

from __future__ import annotations

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.schedule.transform import apply
from dlvm.gen.schedule.transforms.fuse import Fuse

from .changed import TURNED, changes_no_bit, first, plain


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("sizes", [(0, 2, 3), (1, 1, 1), (3, 5, 7), (4, 1, 6)])
def test_loops_become_one(levels, sizes):
    loop = first(plain(TURNED))
    made = apply(plain(TURNED), [Fuse(loop.var, levels)])
    assert first(made).var == f"{loop.var}.f"
    changes_no_bit(TURNED, [Fuse(loop.var, levels)], sizes)


def test_positions_that_were_split_for_nothing_are_one_again():
    text = TURNED.replace("perm=(2,1,0) : f32[C,B,A]", "perm=(0,1,2) : f32[A,B,C]")
    text = text.replace("f32[C,B,A]", "f32[A,B,C]")
    loop = first(plain(text))
    made = str(apply(plain(text), [Fuse(loop.var, 3)]))
    assert f"load %b0[{loop.var}.f]" in made and "floordiv" not in made


@pytest.mark.parametrize("levels", [0, 4])
def test_as_many_loops_as_there_are(levels):
    with pytest.raises(UserError, match="loops stand right inside one another"):
        apply(plain(TURNED), [Fuse(first(plain(TURNED)).var, levels)])
