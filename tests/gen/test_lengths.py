"""Rows of open length: short and long ones, alone and in groups, to the bits of known lengths."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dlvm
from dlvm.gen.loops.statements import Loop, statements
from dlvm.ir.sizes.dims import evaluate

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
    "types": lambda x: ((x * 9).astype(np.int32).sum(-1), (x > 2).any(-1), x.astype("f8").sum(-1)),
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
        with warnings.catch_warnings(action="ignore"):  # what a mean of nothing is
            beside = dlvm.tree.leaves(f(x))  # by NumPy
        for a, b, c in zip(found, known, beside, strict=True):
            assert same_bits(a, b), shape
            np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-4)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", FOLDS)
def test_rows_of_any_length_have_the_bits_of_known_ones(name):
    agree(FOLDS[name], {"x": "N,M"}, [(17, n) for n in LENGTHS])
    agree(FOLDS[name], {"x": "N,M"}, [(rows, 65) for rows in ROWS])


@pytest.mark.parametrize("name", PIECES)
def test_pieces_of_any_length_have_the_bits_of_known_ones(name):
    """A piece is 1,024 elements at most: 3 x 341 is one less."""
    rows = [(3, 2, n) for n in (1, 2, 33, 341, 342, 700, 1400)]
    agree(PIECES[name], {"x": "B,H,W"}, [*rows, (1, 3, 1024), (1, 3, 1025), (0, 3, 5), (3, 4, 0)])


@pytest.mark.parametrize("n", [1, 33, 65, 4096, 4097])
def test_what_is_not_a_number_or_has_no_end_comes_through(n):
    def f(x):
        return x.max(-1), x.argmax(-1), x.sum(-1), x.min(-1)

    x = np.random.default_rng(n).normal(size=(37, n)).astype(np.float32)
    x[3, n // 2], x[20, n - 1], x[36, 0] = np.nan, np.inf, -np.inf
    staged = dlvm.function(f, dynamic={"x": "N,M"})
    for found, expected in zip(staged(x), f(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


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
