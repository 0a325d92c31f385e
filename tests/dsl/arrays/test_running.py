"""Cumulative functions under NumPy's names: staged, plain and through NumPy itself."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

RNG = np.random.default_rng(8)
X = RNG.normal(size=(4, 3))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u2", "?", "i8"])
def test_sums_have_the_values_and_types_of_numpys(dtype):
    x = RNG.integers(0, 5, (4, 3)).astype(dtype)

    def f(x):
        return (
            np.cumsum(x),
            np.cumsum(x, axis=-1),
            x.cumsum(0),
            np.cumulative_sum(x, axis=1, include_initial=True),
            np.cumsum(x, 1, np.float32),
        )

    for staged, plain in zip(dlvm.function(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(staged, plain)
        assert staged.dtype == plain.dtype


def test_the_initial_value_and_the_reverse():
    found = dlvm.cumulative_sum(np.arange(1.0, 4), include_initial=True, reverse=True)
    np.testing.assert_array_equal(found, [6, 5, 3, 0])
    found = dlvm.cumulative_max(np.array([1, 3, 2], np.int8), exclusive=True)
    np.testing.assert_array_equal(found, np.array([-128, 1, 3], np.int8))
    assert dlvm.cumulative_sum(np.zeros((0, 2)), axis=0, include_initial=True).shape == (1, 2)


def test_one_compile_serves_every_length():
    f = dlvm.function(lambda x: np.cumsum(x, axis=0), dynamic={"x": "N,M"})
    for shape in ((4, 3), (0, 2), (1, 1), (101, 17)):
        x = RNG.normal(size=shape)
        np.testing.assert_array_equal(f(x), np.cumsum(x, axis=0))
    assert len(f.explain().compiles) == 1


def test_discounted_sums():
    rewards = RNG.normal(size=(5, 2))
    expected = [sum(0.9 ** (j - i) * rewards[j] for j in range(i, 5)) for i in range(5)]
    found = dlvm.function(lambda r: dlvm.linear_recurrence(0.9, r, axis=0, reverse=True))(rewards)
    np.testing.assert_allclose(found, expected)


def test_gradients_and_batches():
    def f(x):
        return (dlvm.cumulative_logsumexp(x) * np.cumsum(x) * dlvm.cumulative_max(x)).sum()

    g = dlvm.vmap(dlvm.grad(f))(X)
    for row, found in zip(X, g, strict=True):
        for i in range(3):
            h = np.eye(3)[i] * 1e-6
            np.testing.assert_allclose(found[i], (f(row + h) - f(row - h)) / 2e-6, rtol=1e-6)


def test_no_axis_is_named():
    with pytest.raises(UserError, match=r"has 2 axes(.|\n)*pass axis="):
        dlvm.cumulative_sum(X)
    with pytest.raises(UserError, match="axis 2 is out of range"):
        dlvm.cumulative_sum(X, axis=2)
    assert dlvm.cumulative_max(X, axis=0, dtype="f4").dtype == np.float32
