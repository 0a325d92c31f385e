"""Sorting, searching and quantiles under NumPy's names: staged, plain, in place, differentiated."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

RNG = np.random.default_rng(9)
X = RNG.normal(size=(4, 5, 3))
Q = np.array([[0.0, 0.3], [0.5, 1.0]])


def same(f, *args):
    for staged, plain in zip(dlvm.function(f)(*args), f(*args), strict=True):
        np.testing.assert_allclose(staged, plain, rtol=1e-14)
        assert staged.dtype == np.asarray(plain).dtype


def test_sorts():
    x = np.where(X > 1, np.nan, np.round(X))

    def f(x):
        kinds = np.sort(x, kind="stable"), np.argsort(x, axis=0, kind="stable")
        return *kinds, np.sort(x, axis=1), np.sort(x, axis=None), x.argsort(1, kind="stable")

    same(f, x)
    same(f, RNG.integers(0, 4, (3, 4, 2)).astype(np.uint8))


def test_sorting_in_place_is_seen_by_aliases():
    def f(x):
        y = x.copy()
        row = y[1]
        y.sort(axis=1)
        row[0] = 7.0
        y[2].sort()
        return y, row

    same(f, X[0])
    with pytest.raises(UserError, match="copy"):
        dlvm.function(lambda x: x.sort())(X)


def test_descending_and_top_k():
    x = np.array([3, 1, 3, 2, 1], np.int32)
    np.testing.assert_array_equal(dlvm.argsort(x, descending=True), [0, 2, 3, 1, 4])
    values, places = dlvm.function(lambda x: dlvm.top_k(x, 3))(x)
    np.testing.assert_array_equal(values, [3, 3, 2])
    np.testing.assert_array_equal(places, [0, 2, 3])
    values, places = dlvm.top_k(X, 2, axis=1)
    np.testing.assert_array_equal(values, np.sort(X, axis=1)[:, :-3:-1])
    np.testing.assert_array_equal(np.take_along_axis(X, places, 1), values)
    with pytest.raises(UserError, match="no 6 largest"):
        dlvm.top_k(x, 6)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[10, 4, 2.5, 1], [1, 2.5, 4], [4, 4, 1], [2, 2], [3], []])
def test_bins_rise_or_fall(bins: list[float], right: bool):
    x, borders = np.array([0.5, 7, 3, 1, 4, 2.5, 10, np.nan, np.inf, -np.inf]), np.array(bins)

    def f(x, borders):
        return np.digitize(x, borders, right)

    np.testing.assert_array_equal(dlvm.function(f)(x, borders), f(x, borders))
    np.testing.assert_array_equal(dlvm.digitize(x, borders, right), f(x, borders))
    known = dlvm.function(lambda x: dlvm.digitize(x, borders, right))
    np.testing.assert_array_equal(known(x), f(x, borders))


def test_each_row_of_bins_rises_or_falls():
    rows = np.array([[10.0, 4, 1], [1, 4, 10]])
    found = dlvm.vmap(lambda b: dlvm.digitize(5.0, b))(rows)
    np.testing.assert_array_equal(found, [np.digitize(5.0, b) for b in rows])


def test_searching():
    a, v = np.sort(X[0, :, 0]), X[1]
    shuffled = RNG.permutation(5)

    def f(a, v, order):
        sides = np.searchsorted(a, v), np.searchsorted(a, v, side="right")
        return *sides, np.searchsorted(a[np.argsort(order)], v, sorter=order), np.digitize(v, a)

    expected = np.searchsorted(a, v)
    found = dlvm.function(f)(a, v, shuffled)
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], np.searchsorted(a, v, side="right"))
    np.testing.assert_array_equal(found[2], expected)
    np.testing.assert_array_equal(found[3], np.digitize(v, a))
    rows = np.sort(X[:, :, 0])
    both = dlvm.vmap(dlvm.searchsorted)(rows, X[:, 0])
    np.testing.assert_array_equal(
        both, [np.searchsorted(a, v) for a, v in zip(rows, X[:, 0], strict=True)]
    )
    one = dlvm.vmap(lambda v: dlvm.searchsorted(a, v))(X[:, 0])
    np.testing.assert_array_equal(one, np.searchsorted(a, X[:, 0]))


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(method):
    x = X.copy()
    x[1, 2, 0] = np.nan

    def f(x):
        return (
            np.quantile(x, 0.3, axis=1, method=method),
            np.quantile(x, Q, axis=(0, 2), method=method, keepdims=True),
            np.percentile(x, [10, 50], method=method),
            np.quantile(x, 0.25, axis=0, keepdims=True, method=method),
        )

    same(f, x)
    same(f, RNG.integers(0, 9, (2, 4, 3)))
    same(lambda x: (np.quantile(x, 0.3, axis=1, method=method),), X.astype(np.float32))


def test_medians():
    same(lambda x: (np.median(x), np.median(x, axis=1), np.median(x, (0, 1), keepdims=True)), X)
    assert dlvm.median(np.array([1.0, 2.0, np.inf])) == 2
    assert dlvm.median(np.array([1.0, np.inf, np.inf])) == np.inf
    assert np.isnan(dlvm.median(np.zeros((0,))))


def test_one_compile_serves_every_length():
    f = dlvm.function(lambda x: (np.sort(x), np.median(x)), dynamic={"x": "N"})
    for n in (1, 2, 17, 1000):
        x = RNG.normal(size=n)
        values, middle = f(x)
        np.testing.assert_array_equal(values, np.sort(x))
        np.testing.assert_allclose(middle, np.median(x), rtol=1e-15)
    assert len(f.explain().compiles) == 1
    assert np.isnan(f(np.zeros(0))[1])


def test_the_gradient_goes_where_the_elements_came_from():
    x, w = X[0], RNG.normal(size=(5, 3))
    g = dlvm.grad(lambda x: (np.sort(x, axis=0) * w).sum())(x)
    expected = np.empty_like(w)
    np.put_along_axis(expected, np.argsort(x, axis=0), w, 0)
    np.testing.assert_allclose(g, expected)
    middle = dlvm.grad(lambda x: np.median(x))(x.ravel())
    assert (middle != 0).sum() == 1 and middle.sum() == 1


def test_a_gradient_sorts_once():
    traced = dlvm.trace(dlvm.value_and_grad(lambda x: (np.sort(x) * np.sort(x)).sum()), X[0])
    assert sum(op.name == "sort" for op in traced.optimize().main.walk()) == 1


def test_what_has_no_shape_says_so():
    with pytest.raises(UserError, match=r"unique: the shape of the result depends(.|\n)*sort"):
        dlvm.function(lambda x: np.unique(x))(X)
