"""Folds over several axes: what lies on one line and what does not, columns and lanes."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.fold import FILLED
from dlvm.gen.loops import Local, Loop, statements

from .compiled import Compiled, interpret, kernel, loops
from .values import same_bits

AXES = [(0,), (0, 1), (1, 2), (0, 3), (0, 2, 3), (1, 2, 3), (0, 1, 2, 3)]


def sums(x, b, axes):
    """Whole numbers, so that every order gives the same sum."""
    return (
        x.sum(axes),
        (x + b).sum(axes),
        (x[:, :, ::-1] * b).sum(axes),
        x.transpose(1, 0, 3, 2).sum(axes),
        np.concatenate([x, x[:, :1]], 1).sum(axes),
        x - (x * b).sum(axes, keepdims=True),
    )


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
def test_sums_of_what_lies_anywhere(axes, open_sizes):
    dynamic = {"x": "A,B,C,D", "b": "D"} if open_sizes else {}
    staged = dlvm.function(lambda x, b: sums(x, b, axes), dynamic=dynamic, threads=2)
    for shape in ((3, 4, 5, 6), (5, 8, 16, 17), (1, 3, 0, 2), (4, 2, 3, 65), (7, 1, 1, 9)):
        x = (np.arange(np.prod(shape)) % 19 - 9).reshape(shape).astype(np.float32)
        b = (np.arange(shape[-1]) % 5 - 2).astype(np.float32)
        for found, expected in zip(staged(x, b), sums(x, b, axes), strict=True):
            np.testing.assert_array_equal(found, expected)


OUTER = """func @f(%x: f32[{m}], %y: f32[{n}]) -> f32 {{
  %0 = broadcast %x shape=({m},{n}) axes=(0) : f32[{m},{n}]
  %1 = broadcast %y shape=({m},{n}) axes=(1) : f32[{m},{n}]
  %2 = mul %0, %1 : f32[{m},{n}]
  %3 = sum %2 axes=(0,1) : f32
  return %3
}}"""


SIZES = [
    ("M", 16, True),
    (1, 9000, True),
    (90, 12, True),
    (700, 33, True),
    (5, 12, False),
    ("M", 0, False),
    (3, 4, False),
    (9000, 1, False),
    (30, 8, False),
    (700, "N", True),
    ("M", "N", True),
]


@pytest.mark.parametrize(("m", "n", "filled"), SIZES)
def test_a_piece_is_computed_row_by_row_and_folded_in_its_order(m, n, filled):
    """Where rows are known to be long: to the bits of the same products in memory."""
    op, _ = kernel(OUTER.format(m=m, n=n))
    arrays = [s for s in statements(loops(op).body) if isinstance(s, Local) and s.size == FILLED]
    assert bool(arrays) == filled
    flat, _ = kernel("func @f(%x: f32[M,N]) -> f32 {\n%0 = sum %x axes=(0,1) : f32\nreturn %0\n}")
    assert not any(s.size == FILLED for s in statements(loops(flat).body) if isinstance(s, Local))
    compiled, beside = Compiled(op), Compiled(flat)
    rng = np.random.default_rng(0)
    for rows, columns in ((0, 3), (1, 1), (3, 0), (700, 33)):
        sizes = (rows if m == "M" else m, columns if n == "N" else n)
        x, y = (rng.normal(size=size).astype(np.float32) for size in sizes)
        found = compiled(x, y)[0][0]
        assert same_bits(found, interpret(op, (x, y))[0][0])
        assert same_bits(found, beside(x[:, None] * y)[0][0])


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_known_and_open_sizes_give_the_same_bits(axes):
    for shape in ((50, 3, 2, 5), (5, 8, 16, 17), (3, 40, 2, 12)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        known = dlvm.function(lambda x: x.sum(axes))
        opened = dlvm.function(lambda x: x.sum(axes), dynamic={"x": "A,B,C,D"})
        assert same_bits(known(x), opened(x))


def test_columns_beside_one_another_are_folded_as_one_row():
    op, _ = kernel(
        "func @f(%x: f32[M,100,10]) -> f32[100,10] {\n"
        "%0 = sum %x axes=(0) : f32[100,10]\nreturn %0\n}",
        tree=(4096, 1),
    )
    (columns,) = (s for s in loops(op).body if isinstance(s, Loop))
    assert (columns.kind, columns.extent) == ("vector", 1000)
    x = np.random.default_rng(0).normal(size=(37, 100, 10)).astype(np.float32)
    assert same_bits(Compiled(op)(x)[0][0], interpret(op, (x,))[0][0])
    np.testing.assert_allclose(Compiled(op)(x)[0][0], x.sum(0), rtol=1e-4, atol=1e-5)
