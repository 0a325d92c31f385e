"""Counts of numbers and of bins are NumPy's, staged and plain, for edge cases too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm

RNG = np.random.default_rng(0)
V, W, WHOLE = RNG.normal(size=30), RNG.uniform(size=30), RNG.integers(0, 9, 50)
SPECIAL = np.array([-np.inf, np.nan, -1.0, -0.5, 0.0, 2.0, 2.0, np.inf, 3.0])

HISTOGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{f"{n} bins": (lambda m, x, n=n: m.histogram(x, n), (V,)) for n in (1, 5, 10)},
    "a range": (lambda m, x: m.histogram(x, 7, range=(-1, 1)), (V,)),
    "a density": (lambda m, x: m.histogram(x, 7, density=True), (V,)),
    "borders": (lambda m, x: m.histogram(x, [-1, -0.5, 0, 2]), (V,)),
    "special values": (lambda m, x: m.histogram(x, [-1, -0.5, 0, 2]), (SPECIAL,)),
    "weights": (lambda m, x, w: m.histogram(x, 4, weights=w), (V, W)),
    "whole numbers": (lambda m, x: m.histogram(x, 4), (WHOLE,)),
    "equal elements": (lambda m, x: m.histogram(x, 4), (np.ones(5),)),
    "nothing": (lambda m, x: m.histogram(x, 4), (np.ones(0),)),
    "a matrix": (lambda m, x: m.histogram(x, 4), (V.reshape(5, 6),)),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_are_numpys(name: str):
    f, args = HISTOGRAMS[name]
    for found in (dlvm.function(lambda *xs: f(np, *xs))(*args), f(dlvm, *args)):
        for want, got in zip(f(np, *args), found, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("x", [WHOLE, WHOLE[:1], WHOLE.astype("u1"), WHOLE.astype("i4")])
@pytest.mark.parametrize("weights", [None, W])
def test_counts_are_numpys(x: Any, weights: Any):
    if weights is not None:
        weights = np.resize(weights, x.shape)
    want = np.bincount(x, weights, minlength=12)
    count = dlvm.function(lambda x, w: dlvm.bincount(x, w, length=12))
    for found in (count(x, weights), dlvm.bincount(x, weights, length=12)):
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want)


def test_numbers_beyond_the_length_and_below_0_are_left_out():
    found = dlvm.bincount(np.array([-1, 0, 2, 7, 3]), length=3)
    np.testing.assert_array_equal(found, [1, 0, 1])


def test_the_remedy_for_a_count_without_a_length():
    with pytest.raises(dlvm.TraceError, match=r"dlvm.bincount\(x, length=9\)"):
        dlvm.function(lambda x: np.bincount(x, minlength=9))(WHOLE)


def test_derivatives_with_respect_to_weights():
    dlvm.testing.gradcheck(lambda w: (dlvm.histogram(V, 4, (-9, 9), weights=w)[0] ** 2).sum(), W)
    dlvm.testing.gradcheck(lambda w: (dlvm.bincount(WHOLE[:30], w, length=9) ** 2).sum(), W)
