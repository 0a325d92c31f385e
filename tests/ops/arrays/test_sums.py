"""Sums over axes, of types that wrap and of narrow ones, and repetition along new axes."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.base.errors import ShapeError
from dlvm.ir import BF16, F16, F32, NUMBERS, DType, Param, TensorType
from dlvm.ops import Broadcast, Sum
from tests.ops.running import run_op, same_bits


@pytest.mark.parametrize("dtype", [t for t in NUMBERS if t.kind in "iu"], ids=str)
def test_sums_of_integers_wrap(dtype: DType):
    x = np.full(3, dtype.highest, dtype.numpy)
    total = (3 * int(dtype.highest)) % 2**dtype.bits
    expected = total - 2**dtype.bits if total > int(dtype.highest) else total
    same_bits(run_op(lambda v: Sum(v, (0,)), x), np.array(expected, dtype.numpy))


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_sums_of_halves_are_wide(dtype: DType):
    x = np.ones(4096, dtype.numpy)
    assert float(run_op(lambda v: Sum(v, (0,)), x)) == 4096


def test_broadcast_repeats_along_new_axes_only():
    array = np.arange(24.0).reshape(2, 3, 4)
    found = run_op(lambda v: Broadcast(v, (2, 5, 3, 0 + 4, 2), (0, 2, 3)), array)
    assert all((found[:, i, :, :, j] == array).all() for i in range(5) for j in range(2))
    x = Param(TensorType(F32, (1,)), "x")
    with pytest.raises(ShapeError, match=r"axis 0 of .* must be 1"):
        Broadcast(x, (3,), (0,))
