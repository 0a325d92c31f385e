"""Means are subtracted once under ``fast``, and both sides of a product stay centred."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

ROWS = (0, 1, 2, 61, 1000)


def variances(x: Any) -> Any:
    """The sum of the variances of all columns."""
    centred = x - x.mean(0)
    return ((centred * centred).mean(0)).sum()


def twice(x: Any) -> Any:
    """Columns that are centred, and centred again."""
    once = x - x.mean(0)
    return once - once.mean(0, keepdims=True)


def whole(x: Any) -> Any:
    """A matrix less its mean, in rows that are centred."""
    once = x - x.mean()
    return (3.0 * once - once / 2.0).sum()


def other_axis(x: Any) -> Any:
    """Rows that are centred, and then the columns."""
    once = x - x.mean(1)[:, None]
    return once - once.mean(0)


def sums(f: Callable[..., Any], x: Any) -> int:
    """How many sums the optimised program has, where digits may be lost."""
    text = dlvm.function(f, numerics="fast").compile(x).text("optimized")
    return text.split("\n}")[0].count("= sum")


def test_what_is_centred_is_not_centred_again():
    x = np.ones((61, 3))
    assert sums(twice, x) == 1
    assert sums(twice, dlvm.spec("f32[n,3]")) == 1
    assert sums(dlvm.grad(variances), x) == 1
    assert sums(other_axis, x) == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("f", [twice, whole, other_axis])
def test_what_is_centred_once_is_what_numpy_computes(f: Any, rows: int, dtype: Any):
    x = np.random.default_rng(0).standard_normal((rows, 5)).astype(dtype)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.asarray(f(x.astype(np.float64)))
    found = np.asarray(dlvm.function(f, numerics="fast")(x), np.float64)
    if rows == 0:  # the mean of nothing is NaN, which nothing is left to show
        expected = np.nan_to_num(expected)
        found = np.nan_to_num(found)
    size = max(1, x.size) if f is whole else 1
    np.testing.assert_allclose(found, expected, atol=20 * size * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("rows", ROWS[1:])
def test_the_derivative_of_a_variance_is_a_multiple_of_what_is_centred(rows: int):
    x = np.random.default_rng(0).standard_normal((rows, 5)) + 1e3
    found = np.asarray(dlvm.grad(variances)(x))
    np.testing.assert_allclose(found, 2 * (x - x.mean(0)) / rows, atol=1e-12)


def test_a_second_mean_takes_away_the_rounding_of_the_first():
    x = (np.random.default_rng(0).standard_normal((61, 3)) + 1e3).astype(np.float32)
    exact = np.asarray(twice(x.astype(np.float64)))
    errors = {
        mode: np.abs(np.asarray(dlvm.function(twice, numerics=mode)(x)) - exact).max()
        for mode in ("default", "fast")
    }
    assert errors["default"] < 1e-6 < errors["fast"]


def test_zero_times_infinity_is_added():
    x = np.array([1.0, np.inf, np.nan])
    found = dlvm.function(lambda x: x + dlvm.zeros(3) * x)(x)
    np.testing.assert_array_equal(np.asarray(found), [1.0, np.nan, np.nan])


def test_both_sides_of_a_product_stay_centred():
    """One centred side is enough on paper only: half of the digits would be lost."""
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((512, 8)) + 1e4, rng.standard_normal(8)

    def times_covariance(x: Any, v: Any) -> Any:
        centred = x - x.mean(0)
        return (centred @ v) @ centred

    exact = times_covariance(x.astype(np.longdouble), v.astype(np.longdouble))
    found = np.asarray(dlvm.function(times_covariance)(x, v))
    np.testing.assert_allclose(found, exact.astype(float), rtol=1e-11)
