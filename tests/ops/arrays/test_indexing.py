"""Gather and scatter: wrapping, modes, duplicates, batches, and the error with its line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlvm.base.errors import IndexOutOfRange, UserError
from dlvm.ir import F32, I64, Param, TensorType
from dlvm.ops import Gather, ScatterAdd, ScatterSet
from tests.ops.running import run_op, same_bits

X = np.arange(12.0).reshape(3, 4)
DTYPES = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64]


def resolved(i: int, n: int, mode: str) -> int | None:
    """The row that an index means; None where it means none."""
    j = i + n if i < 0 else i
    if 0 <= j < n:
        return j
    return None if mode == "drop" or n == 0 else min(max(j, 0), n - 1)


@given(st.lists(st.integers(-9, 9), max_size=5), st.sampled_from(["clip", "drop"]))
def test_gather_and_scatter_by_hand(indices: list[int], mode: str):
    i = np.array(indices, np.int64)
    rows = [resolved(v, 3, mode) for v in indices]
    expected = np.array([np.zeros(4) if r is None else X[r] for r in rows]).reshape(-1, 4)
    same_bits(run_op(lambda x, i: Gather(x, i, 0, 0, mode), X, i), expected)
    updates = np.arange(1.0, 4 * len(rows) + 1).reshape(-1, 4)
    added, written = X.copy(), X.copy()
    for r, u in zip(rows, updates, strict=True):
        if r is not None:
            added[r] += u
            written[r] = u
    same_bits(run_op(lambda x, i, u: ScatterAdd(x, i, u, 0, 0, mode), X, i, updates), added)
    same_bits(run_op(lambda x, i, u: ScatterSet(x, i, u, 0, 0, mode), X, i, updates), written)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_integer_indexes(dtype):
    i = np.array([2, 0], dtype)
    same_bits(run_op(lambda x, i: Gather(x, i, 1), X, i), X[:, [2, 0]])


def test_a_huge_unsigned_index_does_not_wrap():
    i = np.array([2**64 - 1], np.uint64)
    with pytest.raises(IndexOutOfRange, match="index 18446744073709551615 is out of range"):
        run_op(lambda x, i: Gather(x, i, 0), X, i)
    same_bits(run_op(lambda x, i: Gather(x, i, 0, 0, "clip"), X, i), X[[2]])


@pytest.mark.parametrize("index", [3, -4, 127, -128])
@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_outside_is_an_error_that_names_index_and_size(index: int, dtype):
    i = np.array([0, index], dtype)
    message = f"index {index} is out of range for an axis of size 3"
    with pytest.raises(IndexOutOfRange, match=message):
        run_op(lambda x, i: Gather(x, i, 0), X, i)
    for op in (ScatterAdd, ScatterSet):
        with pytest.raises(IndexOutOfRange, match=message):
            run_op(lambda x, i, u, op=op: op(x, i, u, 0), X, i, np.zeros((2, 4)))


def test_negative_indices_wrap_once():
    same_bits(run_op(lambda x, i: Gather(x, i, 0), X, np.array([-1, -3])), X[[2, 0]])


def test_a_scalar_index_drops_the_axis():
    same_bits(run_op(lambda x, i: Gather(x, i, 1), X, np.array(2)), X[:, 2].copy())
    vector = np.arange(3.0)
    same_bits(run_op(lambda x, i: Gather(x, i, 0, 0, "drop"), vector, np.array(7)), np.float64(0))


def test_indices_of_any_rank_take_their_shape():
    i = np.array([[0, 1], [3, 3]])
    same_bits(run_op(lambda x, i: Gather(x, i, 1), X, i), X[:, i])


def test_batch_axes_are_walked_together():
    x = np.arange(24.0).reshape(2, 3, 4)
    i = np.array([[0, 2], [1, 1]])
    expected = np.stack([x[b][i[b]] for b in range(2)])
    same_bits(run_op(lambda x, i: Gather(x, i, 1, 1), x, i), expected)
    added = x.copy()
    for b in range(2):
        for k in range(2):
            added[b, i[b, k]] += 1
    ones = np.ones((2, 2, 4))
    same_bits(run_op(lambda x, i, u: ScatterAdd(x, i, u, 1, 1), x, i, ones), added)


def test_an_axis_of_nothing():
    x = np.zeros((0, 2))
    for mode in ("clip", "drop"):
        found = run_op(lambda x, i, m=mode: Gather(x, i, 0, 0, m), x, np.array([0, 5]))
        same_bits(found, np.zeros((2, 2)))
    with pytest.raises(IndexOutOfRange, match="axis of size 0"):
        run_op(lambda x, i: Gather(x, i, 0), x, np.array([0]))
    same_bits(run_op(lambda x, i: Gather(x, i, 0), x, np.zeros(0, np.int64)), np.zeros((0, 2)))


def test_the_last_write_wins_and_sums_are_in_order():
    x, i = np.zeros(2, np.float32), np.array([0, 0, 0])
    u = np.array([1e8, 1.0, -1e8], np.float32)
    assert run_op(lambda x, i, u: ScatterSet(x, i, u, 0), x, i, u).tolist() == [-1e8, 0]
    assert run_op(lambda x, i, u: ScatterAdd(x, i, u, 0), x, i, u).tolist() == [0, 0]


@pytest.mark.parametrize(
    "build",
    [
        lambda x, i: Gather(x, x, 0),
        lambda x, i: Gather(x, i, 2),
        lambda x, i: Gather(x, i, 0, 1),
        lambda x, i: Gather(x, i, 1, 2),
        lambda x, i: Gather(x, i, 0, 0, "wrap"),
        lambda x, i: ScatterAdd(x, i, x, 0),
        lambda x, i: ScatterSet(x, i, i, 0),
    ],
)
def test_what_does_not_fit_is_refused(build):
    with pytest.raises(UserError):
        build(Param(TensorType(F32, (3, 4)), "x"), Param(TensorType(I64, (2,)), "i"))
