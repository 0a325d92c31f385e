"""Rows that are shorter than a vector, and are read and written in one memory: no masks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gen.compiled import Compiled, interpret, kernel
from tests.gen.values import same_bits

ADDED = """func @f(%x: f32[M,9,D], %y: f32[M,7,D]) -> f32[M,9,D] {
  %0 = slice %x starts=(0, 1, 0) sizes=(M, 7, D) steps=(1, 1, 1) : f32[M,7,D]
  %1 = add %0, %y : f32[M,7,D]
  %2 = update %x, %1 starts=(0, 1, 0) steps=(1, 1, 1) : f32[M,9,D]
  return %2
}"""
REPLACED = """func @f(%x: f32[M,9,D], %y: f32[M,7,D]) -> f32[M,9,D] {
  %0 = neg %y : f32[M,7,D]
  %1 = update %x, %0 starts=(0, 1, 0) steps=(1, 1, 1) : f32[M,9,D]
  return %1
}"""


def masked(text: str) -> int:
    """How often code loads or stores under a mask."""
    return sum("call" in line and "@llvm.masked." in line for line in text.splitlines())


@pytest.mark.parametrize("size", [*range(1, 20), 31, 33, 47])
def test_what_is_added_in_place_is_added_to_every_element_once(size: int):
    rng = np.random.default_rng(size)
    for text in (ADDED, REPLACED):
        op = kernel(text.replace("D", str(size)), "scatter")[0]
        x, y = (rng.standard_normal((3, n, size)).astype(np.float32) for n in (9, 7))
        assert same_bits(Compiled(op)(x, y)[0][0], interpret(op, (x, y))[0][0])


@pytest.mark.parametrize("size", [3, 6])
def test_rows_that_are_read_and_written_take_no_masks(size: int):
    """A masked access that reaches into the next row waits for the store to the last row."""
    added, replaced = (
        Compiled(kernel(t.replace("D", str(size)), "scatter")[0]) for t in (ADDED, REPLACED)
    )
    assert masked(added.text) == 0 < masked(replaced.text)
