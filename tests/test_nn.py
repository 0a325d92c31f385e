"""Activations and probabilities against closed forms in high precision, slopes too, far out."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import dlvm
from dlvm import nn

FAR = np.array(
    [-1e4, -800.0, -100.0, -40.0, -20.0, -6.5, -3.5, -0.9, -0.1, 1e-3, 0.3, 1.5, 2.5, 7.0]
)
FAR = np.concatenate([FAR, [36.0, 90.0, 710.0, 1e4]])
C = mp.sqrt(2 / mp.pi)
FORMULAS = {
    "relu": lambda x: max(x, 0),
    "relu6": lambda x: min(max(x, 0), 6),
    "leaky_relu": lambda x: x if x >= 0 else x / 100,
    "elu": lambda x: x if x >= 0 else mp.expm1(x),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "log_sigmoid": lambda x: -mp.log1p(mp.exp(-x)),
    "softplus": lambda x: mp.log1p(mp.exp(x)),
    "silu": lambda x: x / (1 + mp.exp(-x)),
    "softsign": lambda x: x / (1 + abs(x)),
    "gelu": lambda x: x / (1 + mp.exp(-2 * C * (x + mp.mpf("0.044715") * x**3))),
    "hard_tanh": lambda x: min(max(x, -1), 1),
    "hard_sigmoid": lambda x: min(max(x + 3, 0), 6) / 6,
    "hard_silu": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "exact gelu": lambda x: x * mp.ncdf(x),
}


def function_of(name):
    return (lambda x: nn.gelu(x, approximate=False)) if name == "exact gelu" else getattr(nn, name)


def exact(formula, x):
    with mp.workdps(60):
        return np.array([float(formula(mp.mpf(float(v)))) for v in x])


def slope(formula, x, n=1):
    with mp.workdps(60):
        return np.array(
            [float(mp.diff(formula, mp.mpf(float(v)), n, h=mp.mpf("1e-15"))) for v in x]
        )


@pytest.fixture
def interpreted(monkeypatch):
    """Formulas are at stake, not machine code."""
    monkeypatch.setenv("DLVM_INTERPRET", "1")


@pytest.mark.parametrize("name", FORMULAS)
def test_values_and_slopes_far_out(name, interpreted):
    f, formula = function_of(name), FORMULAS[name]
    np.testing.assert_allclose(f(FAR), exact(formula, FAR), rtol=2e-13, atol=1e-300)
    g = dlvm.grad(lambda x: f(x).sum())
    np.testing.assert_allclose(g(FAR), slope(formula, FAR), rtol=1e-12, atol=1e-15)
    second = dlvm.grad(lambda x: g(x).sum())(FAR)
    np.testing.assert_allclose(second, slope(formula, FAR, 2), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_compiled_values_and_finite_slopes_in_every_type(dtype):
    @dlvm.function
    def all_of_them(x):
        functions = [function_of(name) for name in FORMULAS]
        return [(f(x), dlvm.grad(lambda v, f=f: f(v).sum())(x)) for f in functions]

    x = np.concatenate([FAR, [6e4, -6e4, np.nan]]).astype(dtype)
    digits = {"float16": 4e-3, "float32": 4e-6, "float64": 2e-13}[dtype]
    for name, (value, g) in zip(FORMULAS, all_of_them(x), strict=True):
        assert value.dtype == g.dtype == x.dtype
        assert np.isnan(value[-1])
        expected = exact(FORMULAS[name], x[:-1]).astype(dtype)
        np.testing.assert_allclose(value[:-1], expected, rtol=digits, atol=1e-7)
        slopes = slope(FORMULAS[name], x[:-1]).astype(dtype)
        np.testing.assert_allclose(
            g[:-1], slopes, rtol=4 * digits, atol=1e-3 if digits > 1e-3 else 1e-6
        )


def test_the_kinks_have_the_slopes_of_their_left_or_flat_side(interpreted):
    for f, x, expected in ((nn.relu, 0.0, 0), (nn.relu6, 6.0, 0), (nn.hard_tanh, 1.0, 0)):
        assert dlvm.grad(lambda v, f=f: f(v))(x) == expected
    assert dlvm.grad(nn.leaky_relu)(0.0) == 1 and dlvm.grad(nn.elu)(0.0) == 1
    assert np.isclose(nn.selu(np.array([1.0])), 1.0507009873554805)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_scores_lose_no_digits(dtype):
    rows = np.array([[0, 1, 2], [1e4, 1e4 + 1, 1e4 + 2], [-1e5, -1e5 + 1, -1e5 + 2]], dtype)
    eps = np.finfo(dtype).eps
    expected = np.exp([0.0, 1, 2]) / np.exp([0.0, 1, 2]).sum()
    for f, e in ((nn.softmax, expected), (nn.log_softmax, np.log(expected))):
        found = dlvm.function(f)(rows)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.tile(e, (3, 1)), rtol=8 * eps)
    losses = dlvm.function(nn.cross_entropy)(rows, np.array([2, 2, 2]))
    np.testing.assert_allclose(losses, np.full(3, -np.log(expected[2])), rtol=8 * eps)
    g = dlvm.grad(lambda x: nn.cross_entropy(x, np.array([2, 2, 2])).sum())(rows)
    np.testing.assert_allclose(g, np.tile(expected - [0, 0, 1], (3, 1)), rtol=2e-6, atol=8 * eps)


def test_some_scores_may_be_minus_infinity(interpreted):
    x = np.array([0.0, -np.inf, 1.0])
    assert nn.softmax(x)[1] == 0
    assert nn.log_softmax(x)[1] == -np.inf
    g = dlvm.grad(lambda x: (nn.softmax(x) * np.array([1.0, 2, 3])).sum())(x)
    assert np.isfinite(g).all() and g[1] == 0


def test_second_derivatives_of_probabilities(interpreted):
    x, w = np.array([0.3, -1.0, 0.7]), np.array([1.0, -2.0, 0.5])
    p = nn.softmax(x)
    jacobian = np.diag(p) - np.outer(p, p)
    np.testing.assert_allclose(dlvm.jacobian(nn.softmax)(x), jacobian, rtol=1e-13, atol=1e-16)
    found = dlvm.hessian(lambda x: (nn.log_softmax(x) * w).sum())(x)
    np.testing.assert_allclose(found, -w.sum() * jacobian, rtol=1e-12, atol=1e-15)


def test_one_hot():
    labels = np.array([[0, 2], [1, 3]])
    found = dlvm.function(lambda i: nn.one_hot(i, 3))(labels)
    assert found.dtype == np.float64
    assert np.array_equal(found, (labels[..., None] == np.arange(3)).astype("f8"))
    assert nn.one_hot(labels, 3, np.int8, axis=0).shape == (3, 2, 2)
