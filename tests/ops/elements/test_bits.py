"""Integers as bits: Python's numbers of any size, cut to the width."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.ir import NUMBERS, DType
from dlvm.ops import And, IntegerPower, Not, Or, ShiftLeft, ShiftRight, Xor
from tests.ops.elements.test_elementwise import edges_of, wrapped
from tests.ops.running import run_op, same_bits

INTEGERS = [t for t in NUMBERS if t.is_integer]


def shifted_left(x: int, n: int, bits: int) -> int:
    return x << n if 0 <= n < bits else 0


def shifted_right(x: int, n: int, bits: int) -> int:
    return x >> n if 0 <= n < bits else (-1 if x < 0 else 0)


def power(x: int, n: int, bits: int) -> int:
    if n >= 0:
        return pow(x, n, 2**bits)
    return (x if n % 2 else 1) if abs(x) == 1 else 0


FORMULAS = {
    And: lambda x, y, bits: x & y,
    Or: lambda x, y, bits: x | y,
    Xor: lambda x, y, bits: x ^ y,
    ShiftLeft: shifted_left,
    ShiftRight: shifted_right,
    IntegerPower: power,
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", FORMULAS)
def test_of_two_integers(op, dtype: DType):
    some = sorted({*edges_of(dtype), 3, 5, dtype.bits - 1, dtype.bits, dtype.bits + 1})
    pairs = [(a, b) for a in some for b in some]
    x, y = (np.array(side, dtype.numpy) for side in zip(*pairs, strict=True))
    expected = [wrapped(FORMULAS[op](a, b, dtype.bits), dtype) for a, b in pairs]
    same_bits(run_op(op, x, y), np.array(expected, dtype.numpy))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_every_bit_flips(dtype: DType):
    x = np.array(edges_of(dtype), dtype.numpy)
    same_bits(run_op(Not, x), np.array([wrapped(~v, dtype) for v in edges_of(dtype)], dtype.numpy))


def test_truths():
    x, y = np.array([False, False, True, True]), np.array([False, True, False, True])
    assert run_op(Xor, x, y).tolist() == [False, True, True, False]
    assert run_op(Not, x).tolist() == [True, True, False, False]
