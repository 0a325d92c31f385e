"""The compiled remainder of floats: exact for every quotient, in lanes that end at other times."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.build import build
from dlvm.ir import F32, F64, DType
from tests.gen.compiled import TARGETS


def remainders(x, y, target):
    """What code for a target makes of two arrays."""
    row = f"f{8 * x.itemsize}[N]"
    return build(dlvm.trace(np.fmod, dlvm.spec(row), dlvm.spec(row)), target).run([x, y])[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("dtype", "low", "high"), [(F32, -149, 128), (F64, -1074, 1023)], ids=str)
def test_it_is_exact(dtype: DType, low: int, high: int, target: str):
    rng = np.random.default_rng(1)
    n = 4001
    with np.errstate(all="ignore"):
        x, y = (
            (
                rng.choice([-1, 1], n) * rng.uniform(1, 2, n) * 2.0 ** rng.integers(low, high, n)
            ).astype(dtype.numpy)
            for _ in range(2)
        )
        x[:8] = np.inf, np.nan, 0, -0.0, 1, 2, np.finfo(x.dtype).max, np.finfo(x.dtype).max
        y[:8] = 1, 1, 2, 3, np.inf, 0, np.finfo(x.dtype).smallest_subnormal, 3
        expected = np.fmod(x, y)
    found = remainders(x, y, TARGETS[target])
    assert found.dtype == expected.dtype
    assert np.array_equal(found, expected, equal_nan=True)
    known = ~np.isnan(found)
    assert np.array_equal(np.signbit(found)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_it_is_exact_where_the_products_nearly_overflow(dtype: DType, target: str):
    rng = np.random.default_rng(2)
    top = np.finfo(dtype.numpy).max
    x = (top * (1 - rng.uniform(0, 1e-6, 4001))).astype(dtype.numpy)
    y = (top * rng.uniform(0, 1, 4001) * 2.0 ** -rng.integers(0, 100, 4001)).astype(dtype.numpy)
    np.testing.assert_array_equal(remainders(x, y, TARGETS[target]), np.fmod(x, y))
