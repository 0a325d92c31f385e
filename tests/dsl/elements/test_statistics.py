"""Reductions and statistics: NumPy's numbers and types, staged and on plain arrays."""

from __future__ import annotations

import functools
import warnings

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, 4, 2))
HOLES = np.where(RNG.random((3, 4, 2)) < 0.3, np.nan, X)
HOLES[:, 1, 0] = np.nan
MASK = RNG.random((3, 4, 2)) < 0.6
DTYPES = ["bool", "int8", "uint8", "int32", "uint64", "float16", "float32", "float64"]


@pytest.fixture(autouse=True)
def by_the_interpreter(request, monkeypatch):
    """What is traced is at stake here, not machine code, but where a test says so."""
    if "compiled" not in request.fixturenames:
        monkeypatch.setenv("DLVM_INTERPRET", "1")


@pytest.fixture
def compiled():
    """A test in machine code."""


def numpy_says(call, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(call(*args, **kwargs))


def same(name, *args, **kwargs):
    """Unstaged, staged by our name and staged by NumPy's: all are what NumPy gives."""
    numpys, ours = getattr(np, name), getattr(dlvm, name)
    expected = numpy_says(numpys, *args, **kwargs)
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    rest = args[len(arrays) :]
    for call in (ours, numpys):
        staged = dlvm.function(lambda *a, call=call: call(*a, *rest, **kwargs))
        close(staged(*arrays), expected)
    close(ours(*args, **kwargs), expected)


def close(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    tolerance = {2: 2e-3, 4: 1e-6}.get(expected.dtype.itemsize, 1e-13)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_halves_do_not_overflow_between_the_operations_of_one_function():
    x, y = np.array([3e4], np.float16), np.array([-300, 300], np.float16)
    assert dlvm.round(x, 1) == x and dlvm.std(y) == 300
    norm = dlvm.linalg.vector_norm(y)
    assert norm == np.float16(300 * 2**0.5) and norm.dtype == np.float16
    found = dlvm.function(lambda x, y: (dlvm.round(x, 1), dlvm.std(y)))(x, y)
    assert found[0] == x and found[1] == 300


@pytest.mark.parametrize("axis", [None, 1, (0, -1)], ids=str)
@pytest.mark.parametrize("name", ["min", "max", "any", "all", "var", "std", "ptp", "prod"])
def test_over_axes(name, axis):
    same(name, X, axis=axis)
    same(name, X, axis=axis, keepdims=True)


@pytest.mark.parametrize("name", ["argmin", "argmax", "count_nonzero"])
def test_over_one_axis(name):
    x = np.round(X)
    same(name, x)
    same(name, x, axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_every_type(dtype):
    x = np.array([[3, 1, 0], [2, 2, 5]]).astype(dtype)
    for name in ("sum", "prod", "mean", "var", "std", "max", "min", "any", "all"):
        same(name, x)
        same(name, x, axis=1)
    for name in ("argmax", "argmin", "count_nonzero"):
        same(name, x)


def test_half_precision_is_summed_in_single():
    x = np.full(4096, 100, np.float16)
    assert dlvm.function(dlvm.mean)(x) == 100
    assert dlvm.var(np.full(70000, 3.0, ml_dtypes.bfloat16)) == 0
    assert dlvm.mean(np.full(70000, 3.0, ml_dtypes.bfloat16)).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std"])
def test_an_element_type_may_be_asked_for(name):
    same(name, X.astype(np.float32), dtype=np.float64)
    same(name, np.arange(5, dtype=np.int8), dtype=np.float32)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "any", "all"])
def test_a_mask_leaves_elements_out(name):
    same(name, X, axis=1, where=MASK)
    same(name, X, axis=1, where=MASK[:, :1])
    same(name, X, where=MASK)


def test_extremes_and_sums_may_have_a_start(compiled):
    same("max", X, axis=0, initial=0.5, where=MASK)
    same("min", X, axis=0, initial=0.5, where=MASK)
    same("sum", X, axis=0, initial=3.0)
    same("prod", X, axis=0, initial=3.0)
    with pytest.raises(UserError, match="argmax takes no where="):
        dlvm.argmax(X, where=MASK)


def test_degrees_of_freedom(compiled):
    same("var", X, axis=1, ddof=1)
    same("std", X, axis=(0, 1), ddof=1.5)
    same("var", X, axis=1, correction=1)
    same("var", X, axis=1, ddof=1, where=MASK[:, :1])
    same("var", X[:1], axis=0, ddof=1)


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min"])
def test_without_nan(name, axis):
    same(f"nan{name}", HOLES, axis=axis)
    same(f"nan{name}", np.arange(6).reshape(2, 3), axis=axis)
    known = np.where(np.isnan(HOLES), 0, HOLES)
    if name in ("max", "min"):
        same(f"nanarg{name}", known, axis=axis)


def test_weighted_averages():
    w = RNG.uniform(0.5, 1, size=(3, 4, 2))
    same("average", X)
    same("average", X, axis=1, weights=None)
    for weights, axis in ((w, None), (w, 1), (w[0, :, 0], 1)):
        expected = np.average(X, axis, weights)
        np.testing.assert_allclose(dlvm.average(X, axis, weights), expected, rtol=1e-13)
        total = dlvm.average(X, axis, weights, returned=True)[1]
        np.testing.assert_allclose(total, np.average(X, axis, weights, returned=True)[1])


def test_covariances():
    a, b = X[:, :, 0], X[:, :, 1]
    for name in ("cov", "corrcoef"):
        same(name, a)
        same(name, a[0])
        same(name, a, rowvar=False)
        expected = getattr(np, name)(a, b)
        np.testing.assert_allclose(getattr(dlvm, name)(a, b), expected, rtol=1e-12)
    same("cov", a, bias=True)
    same("cov", a, ddof=2)


def test_symbolic_sizes(compiled):
    f = dlvm.function(lambda x: (dlvm.var(x, ddof=1), dlvm.std(x, 1), x.mean(0)), dynamic=True)
    for n in (2, 5, 17):
        x = RNG.normal(size=(n, 3))
        for found, expected in zip(f(x), (x.var(ddof=1), x.std(1), x.mean(0)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert len(f.explain().compiles) == 1


@pytest.mark.parametrize("name", ["var", "std", "min", "max", "ptp", "nanmean", "nanvar"])
def test_derivatives(name):
    dlvm_name = functools.partial(getattr(dlvm, name), axis=1)
    w = RNG.normal(size=(3, 2))

    def loss(x):
        return (dlvm_name(x) * w).sum()

    g = dlvm.grad(loss)(X)
    v, h = RNG.normal(size=X.shape), 1e-6
    slope = (loss(X + h * v) - loss(X - h * v)) / (2 * h)
    np.testing.assert_allclose((g * v).sum(), slope, rtol=1e-6)


def test_what_is_left_out_has_no_derivative(compiled):
    g = dlvm.grad(lambda x: dlvm.nansum(x * x))(HOLES)
    np.testing.assert_allclose(g, np.where(np.isnan(HOLES), 0, 2 * HOLES))


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_the_derivatives_of_a_product_divide_by_nothing(zeros):
    x = np.array([2.0, -3.0, 5.0, 0.5, 7.0])
    x[:zeros] = 0
    n = range(len(x))
    others = [np.prod(np.delete(x, i)) for i in n]
    np.testing.assert_allclose(dlvm.grad(dlvm.prod)(x), others, rtol=1e-14)
    pairs = [[np.prod(np.delete(x, [i, j])) if i != j else 0 for j in n] for i in n]
    np.testing.assert_allclose(dlvm.hessian(dlvm.prod)(x), pairs, rtol=1e-14)


def test_the_derivative_of_a_product_over_some_axes(compiled):
    x = np.round(X)
    g = dlvm.grad(lambda x: (x.prod((0, 2)) * np.arange(4.0)).sum())(x)
    for at in np.ndindex(x.shape):
        rest = x[:, at[1]].copy()
        rest[at[0], at[2]] = 1
        assert g[at] == rest.prod() * at[1]
