"""What NumPy users reach for daily and what is a composition: NumPy's numbers, types and shapes."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ShapeError, TraceError, UserError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(4, 5))
V, W = RNG.normal(size=6), RNG.normal(size=3)
KNOTS = np.array([-1.0, 0.0, 0.0, 0.5, 2.0])
N = np.array([3, -1, 0, 3, 7])
AT = np.array([-2.0, -1.0, -0.5, 0.0, 0.25, 2.0, 3.0, np.nan])
A, B = np.ones((2, 2)), np.zeros((2, 3))

CALLS = [
    lambda: (np.interp, AT, KNOTS, V[:5]),
    lambda: (np.interp, 0.3, KNOTS, N),
    lambda: (lambda x, k, f: np.interp(x, xp=k, fp=f), AT, KNOTS, V[:5]),
    lambda: (lambda x, k, f: np.interp(x, k, f, left=-9.0, right=9.0), AT, KNOTS, V[:5]),
    lambda: (np.interp, AT[:-1], KNOTS[:1], V[:1]),
    lambda: (np.trapezoid, X),
    lambda: (lambda y: np.trapezoid(y, dx=0.5, axis=0), X),
    lambda: (lambda y, x: np.trapezoid(y, x, axis=0), X, V[:4]),
    lambda: (np.trapezoid, X, np.cumsum(X, 1)),
    lambda: (np.trapezoid, N),
    lambda: (np.trapezoid, X[:, :1]),
    lambda: (np.gradient, X),
    lambda: (np.gradient, N),
    lambda: (np.gradient, V[:2], 0.5),
    lambda: (lambda f: np.gradient(f, 0.5, 2.0), X),
    lambda: (lambda f: np.gradient(f, 2.0, axis=1), X.astype(np.float32)),
    *(
        lambda f=f, a=a, v=v, mode=mode: (lambda x, y: f(x, y, mode), a, v)
        for f in (np.convolve, np.correlate)
        for a, v in ((V, W), (W, V), (V, W[:2]), (W[:2], V), (V, V), (N, W), (W[:1], W[:1]))
        for mode in ("full", "same", "valid")
    ),
    lambda: (np.convolve, N, N),
    lambda: (np.convolve, N > 0, N > 2),
    lambda: (np.convolve, np.arange(50.0), np.arange(40.0)),
    lambda: (np.correlate, np.arange(40), np.arange(50)),
    lambda: (lambda x: np.polyval([1.0, -2.0, 3.0], x), X),
    lambda: (np.polyval, W, 2.0),
    lambda: (np.polyval, N, N),
    lambda: (np.sinc, np.array([-1.5, 0.0, 1.0, 1e-9])),
    lambda: (lambda x: np.select([x > 1, x > 0], [x, -x], 7), X),
    lambda: (lambda x: np.select([x > 1], [x]), N),
    lambda: (np.allclose, X, X + 1e-10),
    lambda: (np.allclose, X, X + 1e-3),
    lambda: (np.array_equal, X, X),
    lambda: (np.array_equal, X, X[0]),
    lambda: (np.array_equal, AT, AT),
    lambda: (lambda x: np.array_equal(x, x, equal_nan=True), AT),
    lambda: (np.isin, N, np.array([3, 0])),
    lambda: (lambda x: np.isin(x, [3, 0], invert=True), N),
    lambda: (lambda a, b: np.block([[a, b], [b, a]]), A, B),
    lambda: (lambda a: np.block([a[0], 2.0]), A),
    lambda: (lambda a: np.block(a), A),
    lambda: (lambda x: np.delete(x, 1, axis=0), X),
    lambda: (lambda x: np.delete(x, [0, -1], axis=1), X),
    lambda: (lambda x: np.delete(x, slice(0, 4)), X),
    lambda: (np.vdot, X, X[::-1]),
    lambda: (np.cross, X[:, :3], X[:, 1:4]),
    lambda: (np.subtract.outer, X, W),
    lambda: (lambda x: np.ndim(x) + np.size(x) + np.size(x, 0) + x, X),
    lambda: (lambda x: x[(0, 1), (1, 2)], X),
]


def alike(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6 if expected.itemsize < 8 else 1e-12)


@pytest.mark.parametrize("make", CALLS)
def test_numpys_function_staged_gives_what_it_gives_unstaged(make, monkeypatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    call, *args = make()
    with np.errstate(all="ignore"):
        expected = call(*args)
    found = dlvm.function(call)(*args)
    if not isinstance(expected, tuple | list):
        found, expected = [found], [expected]
    for x, y in zip(found, expected, strict=True):
        alike(x, np.asarray(y))


def test_machine_code_agrees():
    @dlvm.function
    def f(x, k, v, w):
        return np.interp(x, k, v[:5]), np.convolve(v, w), np.gradient(v), np.select([v > 0], [v])

    for found, expected in zip(f(AT, KNOTS, V, W), f.python(AT, KNOTS, V, W), strict=True):
        alike(found, expected)


def test_open_sizes():
    @dlvm.function(dynamic={"x": "B", "k": "N", "f": "N"})
    def f(x, k, f):
        return np.interp(x, k, f), np.gradient(f), np.trapezoid(f), np.convolve(x, W)

    for n, b in ((2, 3), (5, 8)):
        args = AT[:b], KNOTS[-n:], V[:n]
        for found, expected in zip(f(*args), f.python(*args), strict=True):
            alike(found, np.asarray(expected))
    with pytest.raises(ShapeError, match="not known which is longer"):
        dlvm.function(np.convolve, dynamic={"a": "A", "v": "B"}).compile(V, W)


def test_slopes():
    """``sinc`` is flat at 0; what lies between samples has the slope of its piece."""
    slope = dlvm.grad(lambda x: np.sinc(x).sum())(np.array([0.0, 0.5]))
    np.testing.assert_allclose(slope, [0, -1 / (np.pi * 0.25)], rtol=1e-12)
    slope = dlvm.grad(lambda x: np.interp(x, [0.0, 1.0, 3.0], [0.0, 2.0, 3.0]).sum())
    np.testing.assert_allclose(slope(np.array([-1.0, 0.5, 2.0, 4.0])), [0, 2, 0.5, 0])


MISTAKES = [
    (lambda x: np.interp(x, x[:2], x), ShapeError, "two vectors of one size.*vmap"),
    (lambda x: np.convolve(x, x, "around"), UserError, "mode='around': expected one of 'full'"),
    (lambda x: np.convolve(x[None], x), ShapeError, "expected two vectors, found.*vmap"),
    (lambda x: np.convolve(x, x[:0]), ShapeError, "a vector is empty"),
    (lambda x: np.gradient(x, x), ShapeError, r"one distance.*dlvm\.diff"),
    (lambda x: np.where(x > 0), TraceError, "keep the mask"),
    (lambda x: np.flatnonzero(x), TraceError, "keep the mask"),
    (lambda x: np.setdiff1d(x, x), TraceError, r"dlvm\.isin"),
]


@pytest.mark.parametrize("call, kind, words", MISTAKES)
def test_mistakes_are_said_in_words(call, kind, words):
    with pytest.raises(kind, match=f"(?s){words}"):
        dlvm.function(call)(V)


def test_products_of_halves_that_slide_are_summed_in_f32():
    x = np.array([60000, -60000, 100, 2, 3], np.float16)
    y = np.array([6, 50, 40, 300, 300], np.float16)
    expected = np.convolve(x.astype(np.float32), y.astype(np.float32), "valid")
    staged = dlvm.function(lambda a, b: dlvm.convolve(a, b, "valid"))
    for found in (dlvm.convolve(x, y, "valid"), staged(x, y)):
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, expected.astype(np.float16))
