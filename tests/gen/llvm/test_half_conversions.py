"""Conversions of f16 on processors that have none, beside NumPy's, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.gen.build import build
from dlvm.gen.llvm import half_conversions as halves
from dlvm.target import Target

HOST = Target.host()
OLD = replace(HOST, cpu="nehalem", features="", vector_bits=128)
pytestmark = pytest.mark.skipif(not HOST.triple.startswith("x86_64"), reason="an old x86-64")


def converted(x, dtype, given):
    """What code for an old processor makes of an array."""
    code = build(dlvm.trace(lambda x: x.astype(dtype), dlvm.spec(given)), OLD)
    assert any(name in code.texts["asm"] for name in halves.OWN)
    return code.run([x])[0]


def test_every_half_widens():
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = x.astype(np.float32).view(np.uint32)
    quiet = np.where(np.isnan(x), wide | 0x400000, wide)
    np.testing.assert_array_equal(converted(x, "float32", "f16[N]").view(np.uint32), quiet)


def test_floats_round_to_the_nearest_half_ties_to_even():
    rng = np.random.default_rng(0)
    halfway = (np.arange(1 << 17) << 12) + 0x32000000
    near = [halfway + d for d in (0, 1, -1)] + [rng.integers(0, 1 << 32, 1 << 18)]
    ends = np.array([0x477FEFFF, 0x477FF000, 0x47800000, 0x7F7FFFFF, 0x7F800000, 1, 0x33000000])
    bits = np.concatenate([*near, ends]).astype(np.uint32)
    x = np.concatenate([bits, bits | 0x80000000]).view(np.float32)
    found = converted(x, "float16", "f32[N]")
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    number = ~np.isnan(x)
    np.testing.assert_array_equal(found[number].view(np.uint16), expected[number].view(np.uint16))
