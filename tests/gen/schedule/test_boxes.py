"""What is joined, padded or partly replaced is computed box by box, of one piece each."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.loops.statements import Let, Loop, Word, statements
from tests.gen.compiled import Compiled, interpret, kernel, loops
from tests.gen.values import same_bits


def of_parts(a, b):
    """Pieces in pieces, along both axes, of which some are computed and one is spread."""
    both = np.concatenate([a[::-1] * 2, b], 0)
    wide = np.pad(both, ((1, 2), (0, 3)))
    return np.concatenate([wide, np.roll(wide, 1, 1)[1:], wide[:1] + wide[:, :1].sum()], 0)


def of_windows(a, b):
    out = np.concatenate([a, a], -1) + 1
    out[: b.shape[0]] = np.concatenate([b, b], -1)[: a.shape[0]]
    return np.stack([out, -out], -1)


def of_rows(a, b):
    """All of it lies in a row, at one distance or another."""
    moved = a[1:] - a[:-1]
    return np.tile(a, (2, 1)), np.concatenate([moved, b, moved], 0), np.stack([a, a * 3], 1)


@pytest.mark.parametrize("program", [of_parts, of_windows, of_rows])
@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("kind", [np.float32, np.int8])
def test_boxes_cover_the_whole(program, open_sizes, kind):
    dynamic = {"a": "M,N", "b": "K,N"} if open_sizes else {}
    staged = dlvm.function(program, dynamic=dynamic, threads=2)
    for m, k, n in ((3, 2, 1), (2, 1, 2), (40, 3, 3), (7, 5, 70), (1, 1, 64), (300, 200, 5)):
        a = (np.arange(m * n) % 37 - 7).reshape(m, n).astype(kind)
        b = (np.arange(k * n) % 11 - 3).reshape(k, n).astype(kind)
        for found, expected in zip(
            dlvm.tree.leaves(staged(a, b)), np_leaves(program, a, b), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


def np_leaves(program, *arrays):
    found = program(*(x.copy() for x in arrays))
    return found if isinstance(found, tuple) else (found,)


JOINED = """func @f(%x: f32[{m},{n}], %y: f32[{k},{n}]) -> f32[{m}+{k},{n}] {{
  %0 = neg %x : f32[{m},{n}]
  %1 = concat [%0, %y] axis=0 : f32[{m}+{k},{n}]
  return %1
}}"""


def selects(lowered):
    words = (s.scalar for s in statements(lowered.body) if isinstance(s, Let))
    return [w for w in words if isinstance(w, Word) and w.word == "select"]


@pytest.mark.parametrize(("m", "k", "n"), [("M", "K", "N"), ("6", "3", "2"), ("6", "3", "N")])
def test_nothing_asks_in_a_box_where_it_is(m, k, n):
    """And rows that lie beside one another are one loop."""
    text = JOINED.format(m=m, k=k, n=n)
    if m != "M":
        text = text.replace("6+3", "9")
    op, _ = kernel(text)
    lowered = loops(op)
    assert not selects(lowered)
    assert [isinstance(s, Loop) for s in lowered.body].count(True) == 2
    assert all(not isinstance(t, Loop) for s in lowered.body for t in getattr(s, "body", ()))
    sizes = [int(s) if s.isdigit() else 5 for s in (m, k, n)]
    x, y = (
        np.full((rows, sizes[2]), v, np.float32) for rows, v in zip(sizes, (1, 2), strict=False)
    )
    (found,), _ = Compiled(op)(x, y)
    assert same_bits(found, np.concatenate([-x, y], 0))
    assert same_bits(found, interpret(op, (x, y))[0][0])


def test_many_pieces_are_asked_for_as_before():
    """Code would grow with them."""
    pieces = [np.full((2, 3), i, np.float32) for i in range(20)]
    join = dlvm.function(lambda xs: np.concatenate(xs, 1))
    np.testing.assert_array_equal(join(pieces), np.concatenate(pieces, 1))
