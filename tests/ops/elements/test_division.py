"""Rounded quotients and remainders: NumPy's numbers, Python's on every pair of bytes, edges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dlvm.ir import NUMBERS, DType
from dlvm.ops import FloorDiv, Fmod, Remainder
from tests.ops.running import run_op, same_bits

FLOATS = [t for t in NUMBERS if t.is_float]
EDGES = (0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 7.0, 6e4, 6e-8, math.inf, -math.inf, math.nan)
PAIRS = tuple(np.array([(a, b) for a in EDGES for b in EDGES]).T)
LAWS = {FloorDiv: np.floor_divide, Remainder: np.remainder, Fmod: np.fmod}
WORDS = {
    FloorDiv: lambda a, b: a // b if b else 0,
    Remainder: lambda a, b: a % b if b else 0,
    Fmod: lambda a, b: int(math.copysign(abs(a) % abs(b), a)) if b else 0,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", LAWS)
def test_floats_are_divided_as_numpy_divides(op, dtype: DType):
    with np.errstate(all="ignore"):
        x, y = (side.astype(dtype.numpy) for side in PAIRS)
        same_bits(run_op(op, x, y), LAWS[op](x, y))


@pytest.mark.parametrize("op", WORDS)
def test_every_pair_of_bytes(op):
    x, y = (a.astype(np.int8) for a in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    pairs = zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)
    expected = np.array([WORDS[op](a, b) for a, b in pairs]).astype(np.int8)
    same_bits(run_op(op, x, y), expected.reshape(x.shape))


def test_a_remainder_is_exact_whatever_the_quotient():
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(1, 2, 400) * 2.0 ** rng.integers(-1070, 1020, 400) for _ in range(2))
    found = run_op(Fmod, x, -y)
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    expected = [float(Fraction(a) - (Fraction(a) // Fraction(b)) * Fraction(b)) for a, b in pairs]
    same_bits(found, np.array(expected))
