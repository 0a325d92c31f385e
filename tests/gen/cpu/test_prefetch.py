"""The next row is asked for in the second pass over a row, and only there."""

from __future__ import annotations

import numpy as np

from tests.gen.compiled import Compiled, interpret, kernel
from tests.gen.values import same_bits

TWICE = """func @f(%x: f32[N,D]) -> f32[N] {
  %0 = max %x axes=(1) : f32[N]
  %1 = broadcast %0 shape=(N,D) axes=(0) : f32[N,D]
  %2 = sub %x, %1 : f32[N,D]
  %3 = sum %2 axes=(1) : f32[N]
  return %3
}"""
ONCE = """func @f(%x: f32[N,D]) -> f32[N] {
  %0 = sum %x axes=(1) : f32[N]
  return %0
}"""


def asked(text):
    """How often code asks for a line."""
    return sum("call void @llvm.prefetch" in line for line in text.splitlines())


def test_rows_that_are_read_twice():
    op, _ = kernel(TWICE)
    compiled = Compiled(op)
    assert asked(compiled.text) > 0 == asked(Compiled(kernel(ONCE)[0]).text)
    for n, d in ((0, 5), (1, 1), (3, 0), (7, 33), (40, 513)):
        x = np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)
        for threads in (1, 2):
            found = compiled(x, threads=threads)[0][0]
            assert same_bits(found, interpret(op, (x,))[0][0])
