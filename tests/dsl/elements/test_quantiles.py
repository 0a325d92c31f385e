"""Quantiles by every method of NumPy's: at the ends, at ties, between, and of one element."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from tests.names.table import METHODS

SHARES = np.array([0.0, 1e-9, 0.1, 0.2, 0.25, 0.375, 0.5, 0.6, 0.75, 0.9, 1.0])
DRAWN = np.random.default_rng(3)
ROWS = {
    "one": np.array([[2.5]]),
    "two": np.array([[1.0, -1.0]]),
    "ties": np.array([[1.0, 0.0, 1.0, 1.0, 3.0], [2.0, 2.0, 2.0, 2.0, 2.0]]),
    "even": DRAWN.normal(size=(3, 8)),
    "odd": DRAWN.normal(size=(3, 7)),
    "a NaN": np.array([[1.0, np.nan, 2.0], [3.0, 2.0, 1.0]]),
    "single precision": DRAWN.normal(size=(2, 9)).astype("f4"),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("method", METHODS)
def test_values_are_numpys(method):
    staged = dlvm.function(lambda x, q: np.quantile(x, q, axis=1, method=method))
    for what, rows in ROWS.items():
        wanted = np.quantile(rows, SHARES, axis=1, method=method)
        near = {"rtol": 1e-5 if rows.dtype == np.float32 else 1e-12, "atol": 1e-7, "err_msg": what}
        np.testing.assert_allclose(
            dlvm.quantile(rows, SHARES, axis=1, method=method), wanted, **near
        )
        np.testing.assert_allclose(staged(rows, SHARES), wanted, **near)


@pytest.mark.parametrize("method", METHODS)
def test_an_open_number_of_elements_has_the_same_quantiles(method):
    f = dlvm.function(lambda x: dlvm.percentile(x, [0, 30, 50, 100], method=method), dynamic=True)
    for count in (1, 2, 5, 8):
        x = np.random.default_rng(count).normal(size=count)
        wanted = np.percentile(x, [0, 30, 50, 100], method=method)
        np.testing.assert_allclose(f(x), wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("staged", (False, True))
def test_neighbours_without_a_finite_difference_have_values_between_them(staged):
    def median(x):
        return dlvm.median(x, axis=1), dlvm.quantile(x, [0.25, 0.75], axis=1)

    huge = 1.7e308
    rows = np.array([[1, np.inf], [-np.inf, 1], [np.inf, np.inf], [-huge, huge]])
    middle, quarters = (dlvm.function(median) if staged else median)(rows)
    assert middle.tolist() == [np.inf, -np.inf, np.inf, 0.0]
    assert quarters[:, :3].tolist() == [[np.inf, -np.inf, np.inf]] * 2
    np.testing.assert_allclose(quarters[:, 3], [-huge / 2, huge / 2], rtol=1e-12)
    assert np.isnan(dlvm.median(np.array([-np.inf, np.inf])))
