"""Distributions against JAX's numbers, their own distribution functions, and exact derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError, random

KEY = random.key(7)
MANY = (3000,)
COVARIANCE = np.array([[2, 0.5], [0.5, 1]])


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        (lambda: random.laplace(KEY, (2,)), [-1.1654378716660514, 2.3988188263562535]),
        (lambda: random.cauchy(KEY, (2,)), [1.8759253820352535, -6.961667356611034]),
        (lambda: random.rademacher(KEY, (8,)), [-1, 1, 1, 1, 1, -1, -1, -1]),
        (
            lambda: random.truncated_normal(KEY, -1.0, np.array([0.5, 2.0])),
            [0.27515525234181254, -0.8566117260155717],
        ),
        (
            lambda: random.multivariate_normal(KEY, np.array([1.0, 2]), COVARIANCE, (1,))[0],
            [2.430450622834912, 0.7757700204934421],
        ),
        (lambda: random.orthogonal(KEY, 3, m=2)[0], [0.39084797737298693, -0.5714857595573569]),
        (lambda: random.choice(KEY, 9, (5,)), [8, 6, 8, 3, 2]),
        (lambda: random.choice(KEY, np.arange(12.0).reshape(3, 4), (2,), axis=1)[0], [1, 1]),
        (lambda: random.choice(KEY, 4, (6,), p=np.arange(1.0, 5)), [1, 3, 3, 3, 3, 1]),
    ],
)
def test_the_numbers_of_another_library(drawn: Any, expected: list[float]):
    """What jax.random 0.10.2 gave for the key 7, in f64."""
    np.testing.assert_allclose(drawn(), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "given", "law"),
    [
        ("laplace", (MANY,), ("laplace",)),
        ("cauchy", (MANY,), ("cauchy",)),
        ("truncated_normal", (-1.0, 2.0, MANY), ("truncnorm", -1, 2)),
        *(("gamma", (a, MANY), ("gamma", a)) for a in (0.3, 1.0, 200.0)),
        ("beta", (2.0, 0.5, MANY), ("beta", 2, 0.5)),
        ("t", (3.0, MANY), ("t", 3)),
        *(("poisson", (rate, MANY), ("poisson", rate)) for rate in (0.5, 9.5, 10.0, 300.0)),
    ],
)
def test_they_are_distributed_as_they_say(name: str, given: Any, law: Any):
    """By Kolmogorov and Smirnov; 1.95 is exceeded once in a thousand keys, and this is one key."""
    exact = getattr(pytest.importorskip("scipy.stats"), law[0])(*law[1:])
    found, counts = np.unique(getattr(random, name)(KEY, *given), return_counts=True)
    share = np.cumsum(counts) / MANY[0]
    assert np.abs(share - exact.cdf(found)).max() * MANY[0] ** 0.5 < 1.95


def test_vectors_and_shares_have_their_means_and_covariances():
    for method in ("cholesky", "eigh", "svd"):
        x = random.multivariate_normal(KEY, np.ones(2), COVARIANCE, MANY, method=method)
        np.testing.assert_allclose(x.mean(0), 1, atol=0.1)
        np.testing.assert_allclose(np.cov(x.T), COVARIANCE, atol=0.15)
    shares = random.dirichlet(KEY, np.array([0.01, 1, 3]), MANY)
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-12)
    np.testing.assert_allclose(shares.mean(0), np.array([0.01, 1, 3]) / 4.01, atol=0.02)
    q = random.orthogonal(KEY, 2, (4,), "f32", 3)
    assert q.shape == (4, 2, 3) and q.dtype == np.float32
    np.testing.assert_allclose(q @ q.mT, np.broadcast_to(np.eye(2), (4, 2, 2)), atol=1e-6)


def test_what_is_drawn_without_replacement_is_drawn_once():
    assert sorted(random.choice(KEY, np.arange(6), (2, 3), replace=False).ravel()) == [*range(6)]
    some = random.choice(KEY, 5, (2,), replace=False, p=np.array([0, 1.0, 0, 3, 0]))
    assert sorted(some.tolist()) == [1, 3]


def test_the_gradient_of_gamma_numbers_is_implicit_and_exact():
    special = pytest.importorskip("scipy.special")
    a, step = np.array([1.0, 1.5, 7.0, 100.0]), 1e-5
    found, slope = dlvm.jvp(lambda a: random.gamma(KEY, a), (a,), (np.ones(4),))
    change = special.gammainc(a + step, found) - special.gammainc(a - step, found)
    density = np.exp((a - 1) * np.log(found) - found - special.gammaln(a))
    np.testing.assert_allclose(slope, -change / (2 * step) / density, rtol=1e-7)
    mean = dlvm.grad(lambda a: random.gamma(KEY, a, MANY).mean())(0.3)  # that of a is 1
    assert abs(mean - 1) < 0.1


def test_staged_batched_and_wrong_parameters():
    rates = np.array([-1.0, np.nan, 0.5, 40.0])

    def draw(key: Any, rates: Any) -> Any:
        return random.gamma(key, rates), random.poisson(key, rates)

    keys = random.split(KEY, 2)
    batched = dlvm.function(dlvm.vmap(draw, in_axes=(0, None)))(keys, rates)
    for i in range(2):
        for x, y in zip(batched, draw(keys[i], rates), strict=True):
            np.testing.assert_allclose(x[i], y, rtol=1e-12)
    assert np.isnan(batched[0][:, :2]).all() and (batched[1][:, :2] == -1).all()
    assert random.gamma(KEY, np.float32(2)).dtype == np.float32
    assert random.beta(KEY, 2.0, 3.0, (2,), "f16").dtype == np.float16


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: random.choice(KEY, 3, (4,), replace=False), "4 of 3 elements can't be drawn"),
        (lambda: random.choice(KEY, 3, p=np.ones(2)), "one probability for each of 3 elements"),
        (lambda: random.choice(KEY, 2.5), "a whole number or an array with axes"),
        (lambda: random.multivariate_normal(KEY, np.ones(2), np.eye(3)), "two axes of the length"),
        (lambda: random.multivariate_normal(KEY, np.ones(1), np.eye(1), method="qr"), "a method"),
        (lambda: random.poisson(KEY, 2.0, dtype="f32"), "elements are integers, found f32"),
        (lambda: random.gamma(KEY, 2.0, dtype="i32"), "elements are floats, found i32"),
    ],
)
def test_what_is_wrong_is_said(wrong: Any, said: str):
    with pytest.raises(UserError, match=said):
        wrong()
