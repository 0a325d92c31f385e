"""Elements at short distances: read as whole vectors, nothing but them is looked at."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.ir import BF16, F32, NUMBERS
from dlvm.target import Target

SIZES = (0, 1, 2, 3, 7, 16, 17, 31, 33, 64, 65, 131, 257)
TYPES = [t for t in NUMBERS if t != BF16]


def doubled(x, step):
    return x[:, ::step].astype(np.float64) * 2, x[:, ::step] != 1


@pytest.mark.drawn(3)
@pytest.mark.parametrize("step", [-1, 2, 3, 4, 5, -2])
@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
def test_each_element_is_the_one_at_its_distance(step, open_sizes):
    rng = np.random.default_rng(step + 9)
    staged = dlvm.function(lambda x: doubled(x, step), dynamic={"x": "M,N"} if open_sizes else {})
    sizes = SIZES if open_sizes else SIZES[1::3]  # each known one is a program
    for dtype in TYPES:
        for n in sizes if dtype is F32 else (33, 65):
            x = rng.integers(0, 3, (3, n)).astype(dtype.numpy)
            for found, expected in zip(staged(x), doubled(x, step), strict=True):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif("+avx512bw" not in Target.host().features, reason="others pick fewer")
@pytest.mark.parametrize(("step", "gathers"), [(-1, False), (2, False), (4, False), (5, True)])
def test_short_distances_are_no_gathers(step, gathers):
    x = np.ones((9, 65), np.float32)
    for dynamic in ({}, {"x": "M,N"}):
        staged = dlvm.function(lambda x: x[:, ::step] * 2, dynamic=dynamic, threads=1)
        assert ("masked.gather" in staged.compile(x).text("llvm")) == gathers


def test_a_row_read_backwards_and_by_twos_in_one_kernel():
    x = np.random.default_rng(0).normal(size=(5, 70)).astype(np.float32)
    staged = dlvm.function(lambda x: x[:, ::-2] * x[:, 1::2] - x[:, 34::-1])
    np.testing.assert_array_equal(staged(x), x[:, ::-2] * x[:, 1::2] - x[:, 34::-1])


def test_what_is_not_a_number_stays_with_its_element():
    """Those between are read and dropped: none of them may leak."""
    x = np.full((4, 129), np.nan, np.float32)
    x[:, ::3] = np.arange(43)
    for dynamic in ({}, {"x": "M,N"}):
        staged = dlvm.function(lambda x: x[:, ::3].sum(1), dynamic=dynamic)
        np.testing.assert_array_equal(staged(x), np.full(4, 43 * 42 / 2, np.float32))
