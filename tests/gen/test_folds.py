"""Folds over several axes: what lies on one line and what does not, columns and lanes."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
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


OUTER = """func @f(%x: f32[M], %y: f32[N]) -> f32 {
  %0 = broadcast %x shape=(M,N) axes=(0) : f32[M,N]
  %1 = broadcast %y shape=(M,N) axes=(1) : f32[M,N]
  %2 = mul %0, %1 : f32[M,N]
  %3 = sum %2 axes=(0,1) : f32
  return %3
}"""


def test_a_chunk_is_read_row_by_row_and_folded_in_its_order():
    """To the bits of the same products in memory."""
    op, _ = kernel(OUTER)
    flat, _ = kernel("func @f(%x: f32[M,N]) -> f32 {\n%0 = sum %x axes=(0,1) : f32\nreturn %0\n}")
    assert any(s.size == 4096 for s in statements(loops(op).body) if isinstance(s, Local))
    assert not any(s.size == 4096 for s in statements(loops(flat).body) if isinstance(s, Local))
    compiled, beside = Compiled(op), Compiled(flat)
    rng = np.random.default_rng(0)
    for m, n in ((0, 3), (3, 0), (1, 1), (3, 4), (1, 9000), (9000, 1), (700, 33), (33, 700)):
        x, y = (rng.normal(size=size).astype(np.float32) for size in (m, n))
        found = compiled(x, y)[0][0]
        assert same_bits(found, interpret(op, (x, y))[0][0])
        assert same_bits(found, beside(x[:, None] * y)[0][0])


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
