"""Kernels to try a transform on, and whether it changes a bit of what they give."""

from __future__ import annotations

import numpy as np

from dlvm.gen.loops.interpreter import Counts, run_kernel
from dlvm.gen.loops.statements import Loop
from dlvm.gen.loops.status import WORDS
from dlvm.gen.loops.verifier import verify
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.transform import apply
from dlvm.ir.sizes.dims import evaluate
from tests.gen.compiled import arguments, kernel, written
from tests.gen.values import same_bits

TURNED = """func @f(%x: f32[A,B,C]) -> f32[C,B,A] {
  %t = permute %x perm=(2,1,0) : f32[C,B,A]
  %z = exp %t : f32[C,B,A]
  return %z
}"""
ROWS = """func @f(%x: f32[A,B]) -> (f32[A,B], f32[A]) {
  %e = exp %x : f32[A,B]
  %s = sum %e axes=(1) : f32[A]
  %b = broadcast %s shape=(A,B) axes=(0) : f32[A,B]
  %z = div %e, %b : f32[A,B]
  return %z, %s
}"""
COLUMNS = """func @f(%x: f32[A,B]) -> (f32[A,B], f32[B]) {
  %e = exp %x : f32[A,B]
  %s = sum %e axes=(0) : f32[B]
  %b = broadcast %s shape=(A,B) axes=(1) : f32[A,B]
  %z = div %e, %b : f32[A,B]
  return %z, %s
}"""
SUM = """func @f(%x: f64[A,B]) -> f64 {
  %y = mul %x, %x : f64[A,B]
  %s = sum %y axes=(0,1) : f64
  return %s
}"""


TREE = 32, 8
"""Small chunks of eight lanes."""


def plain(text, tree=TREE):
    """The plain loops of a kernel."""
    return lower(kernel(text, tree=tree)[0], "k")


def first(loops):
    """The first of the outermost loops."""
    return next(s for s in loops.body if isinstance(s, Loop))


def run(loops, op, arrays):
    """What a kernel gives, by the interpreter."""
    buffers, found = arguments(loops, op, arrays)
    run_kernel(loops, buffers, found, np.zeros(WORDS, np.int64), Counts())
    return written(loops, buffers)


def changes_no_bit(text, steps, sizes, tree=TREE):
    """Verify a kernel after some steps, and hold its results against those of the plain loops."""
    op, _ = kernel(text, tree=tree)
    dims, rng = dict(zip("ABC", sizes, strict=False)), np.random.default_rng(0)
    arrays = [
        rng.normal(size=[evaluate(d, dims) for d in p.type.shape]).astype(p.type.dtype.numpy)
        for p in op.body.params
    ]
    loops = plain(text, tree)
    expected = run(loops, op, arrays)
    made = apply(loops, steps)
    verify(made)
    assert all(map(same_bits, run(made, op, arrays), expected))
