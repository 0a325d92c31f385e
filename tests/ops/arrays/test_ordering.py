"""Sorting and searching against NumPy: every type, NaN last, equals in their order."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm import ops
from dlvm.base.errors import UserError
from dlvm.ir import BOOL, DTYPES, F64, Param, TensorType
from tests.gen.values import numbers
from tests.ops.running import run_op, same_bits

NUMBERS = [d for d in DTYPES.values() if d.kind != "t"]
SHAPES = [(0,), (1,), (2, 0), (0, 3), (3, 5), (2, 3, 67)]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_ascending_is_numpys_stable_sort(dtype):
    for shape in SHAPES:
        x = numbers(dtype, shape, np.random.default_rng(1))
        values, order = run_op(lambda v: ops.Sort(v).results, x)
        key = x.astype(np.float32) if dtype.name == "bf16" else x
        expected = np.argsort(key, axis=-1, kind="stable")
        same_bits(order, expected)
        same_bits(values, np.take_along_axis(x, expected, -1))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_descending_keeps_nan_last_and_equals_in_their_order(dtype):
    x = numbers(dtype, (90,), np.random.default_rng(2))
    values, order = run_op(lambda v: ops.Sort(v, True).results, x)
    keys = [(bool(v != v), -float(v) if v == v and dtype.bits < 64 else 0) for v in x]
    if dtype.bits == 64 and dtype.is_integer:
        keys = [-int(v) for v in x]
    elif dtype.bits == 64:
        keys = [(bool(v != v), -float(v) if v == v else 0) for v in x]
    expected = sorted(range(90), key=lambda i: keys[i])  # Python's sort is stable
    same_bits(order, np.array(expected))
    same_bits(values, x[expected])


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("right", (False, True))
def test_searching_is_numpys(dtype, right):
    side = "right" if right else "left"
    for n in (0, 1, 7, 67):
        rng = np.random.default_rng(3)
        a, v = numbers(dtype, (n,), rng), numbers(dtype, (5, 20), rng)
        wide = (lambda x: x.astype(np.float32)) if dtype.name == "bf16" else (lambda x: x)
        a = a[np.argsort(wide(a), kind="stable")]
        found = run_op(lambda x, y: ops.SearchSorted(x, y, right), a, v)
        np.testing.assert_array_equal(found, np.searchsorted(wide(a), wide(v), side))


def test_each_row_is_searched_for_its_own():
    rng = np.random.default_rng(4)
    a, v = np.sort(rng.normal(size=(3, 8))), rng.normal(size=(3, 4, 2))
    found = run_op(ops.SearchSorted, a, v)
    for i in range(3):
        np.testing.assert_array_equal(found[i], np.searchsorted(a[i], v[i]))


def test_wrong_operands():
    x, s, b = (Param(t, "x") for t in (TensorType(F64, (3,)), TensorType(F64), TensorType(BOOL)))
    for build in (
        lambda: ops.Sort(s),
        lambda: ops.SearchSorted(s, x),
        lambda: ops.SearchSorted(x, b),
        lambda: ops.SearchSorted(Param(TensorType(F64, (2, 3)), "a"), x),
    ):
        with pytest.raises(UserError):
            build()
