"""Rows of open length: short and long ones, alone and in groups, to the bits of known lengths."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.loops import Loop, statements
from dlvm.ir.dims import evaluate

from .compiled import kernel, loops
from .values import same_bits

LENGTHS = (0, 1, 31, 33, 65, 4095, 4096, 4097, 8200)
ROWS = (0, 1, 15, 16, 17, 33)
FOLDS = {
    "sum": lambda x: x.sum(-1),
    "variance": lambda x: x.var(-1),
    "largest and sum": lambda x: ((x * x).sum(-1), x.sum(-1) * 2),
    "centred": lambda x: x - x.mean(-1, keepdims=True),
    "pairs": lambda x: (x[:, None] * x[None, :8]).sum(-1),
    "softmax": dlvm.nn.softmax,
    "all": lambda x: x.sum(),
}
PIECES = {
    "rows": lambda x: x.mean((0, 2)),
    "variances": lambda x: x.var((0, 2)),
    "beside": lambda x: x.sum((1, 2)),
    "cut": lambda x: x[:, 1:, 1:].sum((0, 2)),
    "centred": lambda x: x / (1 + (x * x).sum((0, 2), keepdims=True)),
}


def agree(f, dynamic, shapes):
    staged = dlvm.function(f, dynamic=dynamic, threads=2)
    for shape in shapes:
        x = np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)
        found, known = (dlvm.tree.leaves(g(x)) for g in (staged, dlvm.function(f)))
        for a, b in zip(found, known, strict=True):
            assert same_bits(a, b), shape


@pytest.mark.parametrize("name", FOLDS)
def test_rows_of_any_length_have_the_bits_of_known_ones(name):
    agree(FOLDS[name], {"x": "N,M"}, [(17, n) for n in LENGTHS])
    agree(FOLDS[name], {"x": "N,M"}, [(rows, 65) for rows in ROWS])


@pytest.mark.parametrize("name", PIECES)
def test_pieces_of_any_length_have_the_bits_of_known_ones(name):
    """A piece is 1,024 elements at most: 3 x 341 is one less."""
    rows = [(3, 2, n) for n in (1, 2, 33, 341, 342, 700, 1400)]
    agree(PIECES[name], {"x": "B,H,W"}, [*rows, (1, 3, 1024), (1, 3, 1025), (0, 3, 5), (3, 4, 0)])


def test_short_rows_are_folded_without_chunks():
    op, _ = kernel("func @f(%x: f32[N,M]) -> f32[N] {\n%0 = sum %x axes=(1) : f32[N]\nreturn %0\n}")
    short, long = loops(op).body[-2:]
    assert isinstance(short, Loop) and isinstance(long, Loop)
    assert "chunk" not in str(names(short)) and "chunk" in str(names(long))
    for length, of in ((0, (1, 0)), (4096, (1, 0)), (4097, (0, 1))):
        assert tuple(turns(s, length) for s in (short, long)) == of


def names(loop):
    return [s.var for s in statements(loop.body) if isinstance(s, Loop)]


def turns(loop, length):
    return evaluate(loop.extent, {"M": length})
