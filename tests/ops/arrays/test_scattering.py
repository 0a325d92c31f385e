"""Ways to write at indices, against loops by hand; cotangents of equal indices and of zeros."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dlvm
from dlvm.base.errors import DTypeError
from dlvm.ir import BF16, BOOL, F16, F32, I64, Param, TensorType
from dlvm.ops import Exchange, ScatterMax, ScatterMin, ScatterMul, ScatterSet
from tests.ops.running import run_op, same_bits

LAWS = {
    ScatterSet: lambda old, new: new,
    ScatterMul: lambda old, new: old * new,
    ScatterMax: np.maximum,
    ScatterMin: np.minimum,
}
WAYS = list(LAWS)
NAMES = [cls.name for cls in WAYS]


@pytest.mark.parametrize("cls", WAYS, ids=NAMES)
@given(st.lists(st.integers(-7, 7), max_size=6), st.sampled_from(["clip", "drop"]))
def test_each_update_is_combined_in_order(cls, indices: list[int], mode: str):
    x, n = np.array([1.5, -2.0, np.nan]), 3
    updates = np.arange(1.0, len(indices) + 1) * np.where(np.arange(len(indices)) % 2, -1, 1)
    expected = x.copy()
    for i, u in zip(indices, updates, strict=True):
        at = i + n if i < 0 else i
        if mode == "clip" or 0 <= at < n:
            at = min(max(at, 0), n - 1)
            expected[at] = LAWS[cls](expected[at], u)
    i = np.array(indices, np.int64)
    same_bits(run_op(lambda x, i, u: cls(x, i, u, 0, 0, mode), x, i, updates), expected)


@pytest.mark.parametrize("reverse", [False, True])
@given(st.lists(st.integers(-7, 7), max_size=6), st.sampled_from(["clip", "drop"]))
def test_an_exchange_finds_what_was_there(reverse: bool, indices: list[int], mode: str):
    x, n = np.arange(3.0), 3
    updates = 10.0 + np.arange(len(indices))
    expected, found = x.copy(), np.zeros(len(indices))
    order = range(len(indices))
    for k in reversed(order) if reverse else order:
        at = indices[k] + n if indices[k] < 0 else indices[k]
        if mode == "clip" or 0 <= at < n:
            at = min(max(at, 0), n - 1)
            found[k], expected[at] = expected[at], updates[k]
    i = np.array(indices, np.int64)
    args = (0, 0, mode, reverse)
    out = run_op(lambda x, i, u: Exchange(x, i, u, *args).results, x, i, updates)
    same_bits(out[0], expected)
    same_bits(out[1], found)


def test_an_exchange_undoes_itself_backwards():
    x, i, u = np.arange(8.0).reshape(2, 4), np.array([[1, 1, 3], [0, 2, 0]]), np.ones((2, 3))
    moved = run_op(lambda x, i, u: Exchange(x, i, u, 1, 1).results, x, i, u)
    back = run_op(lambda x, i, u: Exchange(x, i, u, 1, 1, "error", True).results, moved[0], i,
                  moved[1])  # fmt: skip
    same_bits(back[0], x)
    same_bits(back[1], u)


@pytest.mark.parametrize("dtype", [F16, BF16, F32], ids=str)
def test_halves_round_after_each_factor(dtype):
    x, u = np.ones(1, dtype.numpy), np.full(20, 1.01, dtype.numpy)
    expected = x[0]
    for factor in u:
        expected = (expected * factor).astype(dtype.numpy)
    found = run_op(lambda x, i, u: ScatterMul(x, i, u, 0), x, np.zeros(20, np.int64), u)
    assert found[0] == expected


@pytest.mark.parametrize("cls", WAYS[1:], ids=NAMES[1:])
def test_bools_are_no_numbers(cls):
    x = Param(TensorType(BOOL, (3,)), "x")
    with pytest.raises(DTypeError, match=cls.name):
        cls(x, Param(TensorType(I64, (3,)), "i"), x, 0)


def test_the_product_of_others_is_the_cotangent_also_beside_zeros():
    """Against the product written out: x[p] times the updates there, to second order."""
    i = np.array([0, 0, 1, 1, 1, 2])

    def scattered(x, u):
        return (dlvm.at(x, i).mul(u) * np.array([1.0, 2.0, 3.0])).sum()

    def written_out(x, u):
        return x[0] * u[0] * u[1] + 2.0 * x[1] * u[2] * u[3] * u[4] + 3.0 * x[2] * u[5]

    for u in ([2.0, 3, 4, 5, 6, 7], [0.0, 3, 0, 5, 0, 7], [0.0, 0, 0, 5, 6, 0], [0.0] * 6):
        args = (np.array([1.5, 0.0, -2.0]), np.array(u))
        for wrt in (0, 1):
            found = dlvm.grad(scattered, wrt=wrt)(*args)
            np.testing.assert_allclose(found, dlvm.grad(written_out, wrt=wrt)(*args))
        found = dlvm.hessian(scattered, wrt=1)(*args)
        np.testing.assert_allclose(found, dlvm.hessian(written_out, wrt=1)(*args))


@pytest.mark.parametrize("way", ["max", "min"])
def test_those_who_tie_share_evenly(way: str):
    x, i, u = np.array([5.0, 1.0]), np.array([0, 0, 0, 1]), np.array([5.0, 5, 5, 1])
    dx, du = dlvm.grad(lambda x, u: getattr(dlvm.at(x, i), way)(u).sum(), wrt=(0, 1))(x, u)
    assert np.array_equal(dx, [0.25, 0.5]) and np.array_equal(du, [0.25, 0.25, 0.25, 0.5])
