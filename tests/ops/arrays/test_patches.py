"""Sliding windows against NumPy's strided views, and their elements back at their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.ir import F64, Param, TensorType
from dlvm.ir.sizes import dims
from dlvm.ops import Patches, Sum, Unpatch
from dlvm.ops.arrays.patches import positions
from tests.ops.running import run_op

RNG = np.random.default_rng(3)
CASES = [
    ((7,), (0,), (3,), (1,), (1,)),
    ((9, 2), (0,), (3,), (2,), (2,)),
    ((2, 6, 7), (1, 2), (2, 3), (1, 3), (2, 1)),
    ((4, 5), (0, 1), (4, 5), (1, 1), (1, 1)),
    ((4, 5), (1,), (1,), (3,), (1,)),
    ((4,), (0,), (0,), (1,), (1,)),
    ((2,), (0,), (3,), (1,), (1,)),
    ((2,), (0,), (3,), (2,), (1,)),
    ((4, 3), (), (), (), ()),
]


def strided(x: Any, axes: Any, sizes: Any, steps: Any, dilations: Any) -> Any:
    """The windows as a view with strides."""
    shape, strides = list(x.shape), list(x.strides)
    for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        shape[axis] = positions(x.shape[axis], size, step, dilation)
        strides[axis] *= step
    taps = [x.strides[a] * d for a, d in zip(axes, dilations, strict=True)]
    return np.lib.stride_tricks.as_strided(x, (*shape, *sizes), (*strides, *taps))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_windows_are_a_view_with_strides(case: Any):
    shape, *numbers = case
    x = RNG.normal(size=shape)
    np.testing.assert_array_equal(run_op(lambda v: Patches(v, *numbers), x), strided(x, *numbers))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_sum_of_what_is_put_back_is_the_transpose(case: Any):
    """``<Patches x, y> = <x, sum of Unpatch y>``, in whole numbers."""
    shape, axes, sizes, steps, dilations = case
    x = RNG.integers(-9, 9, shape)
    windows = strided(x, axes, sizes, steps, dilations)
    y = RNG.integers(-9, 9, windows.shape)
    extents, taps = tuple(shape[a] for a in axes), tuple(range(len(shape), windows.ndim))
    back = run_op(lambda v: Sum(Unpatch(v, axes, extents, steps, dilations), taps), y)
    assert (windows * y).sum() == (x * back).sum()


def test_positions_of_open_sizes():
    n = dims.symbol("N")
    x = Param(TensorType(F64, (n + 4, 5)), "x")
    assert Patches(x, (0,), (3,), (1,), (2,)).shape == (n, 5, 3)
    assert Patches(x, (0,), (n + 4,), (1,), (1,)).shape == (1, 5, n + 4)


@pytest.mark.parametrize("dilation", (1, 2, 3))
def test_windows_of_open_width_are_as_many_as_those_of_the_same_known_width(dilation: int):
    n = dims.symbol("B")
    for width in (n, dims.minimum(2, n), n + 1):
        count = positions(3 * n + 4, width, 1, dilation)
        for b in range(4):
            expected = positions(3 * b + 4, dims.evaluate(width, {"B": b}), 1, dilation)
            assert dims.evaluate(count, {"B": b}) == expected


def test_dilated_windows_of_as_many_elements_as_another_axis_may_have_none():
    def windows(x: Any, y: Any) -> Any:
        return dlvm.sliding_window_view(x, y[:2].shape[0], dilation=2)

    staged = dlvm.function(windows, dynamic={"x": "2*B", "y": "B"})
    for b in range(4):
        x, y = RNG.normal(size=2 * b), np.ones(b)
        found = np.asarray(staged(x, y))
        np.testing.assert_array_equal(found, windows(x, y))


@pytest.mark.parametrize(
    "numbers",
    [
        ((0,), (6,), (1,), (1,)),
        ((0,), (2,), (0,), (1,)),
        ((0,), (2,), (1,), (0,)),
        ((1, 0), (2, 2), (1, 1), (1, 1)),
        ((2,), (2,), (1,), (1,)),
        ((0,), (2, 2), (1,), (1,)),
        ((0,), (-1,), (1,), (1,)),
    ],
)
def test_what_fits_no_axis_is_refused(numbers: Any):
    x = Param(TensorType(F64, (4, 5)), "x")
    with pytest.raises(dlvm.ShapeError, match="patches"):
        Patches(x, *numbers)
    with pytest.raises(dlvm.ShapeError, match="unpatch"):
        Unpatch(x, (0,), (4,), (1,), (2,))
