"""Statistical models, values and gradients: beside formulas of NumPy that share nothing with them.

Gradients are closed forms, such as ``tr((a a' - inv(K)) dK) / 2`` of a Gaussian likelihood, and the
Kalman filter is compared with the joint density of all measurements.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import dlvm

EXAMPLES = Path(__file__).parents[2] / "examples"
WAYS = {"staged": dlvm.function, "unstaged": lambda f: f}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def close(found, expected):
    """To 1e-9 beside the largest element."""
    size = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * size)


def density(k: np.ndarray, y: np.ndarray, *changes: np.ndarray):
    """Log density of y of the covariance k, and its slope along each change of k."""
    inverse = np.linalg.inv(k)
    a = inverse @ y
    value = -0.5 * (y @ a + np.linalg.slogdet(k)[1] + len(y) * np.log(2 * np.pi))
    return value, np.array([0.5 * np.sum((np.outer(a, a) - inverse) * dk) for dk in changes])


def test_the_likelihood_of_a_gaussian_process(example, way):
    made = example("gaussian_process")
    x, y = made.drawn(200)
    at = np.log([1.3, 0.8, 0.3])
    square = (x[:, None] - x) ** 2
    smooth = 1.3**2 * np.exp(-square / (2 * 0.8**2))
    eye = np.eye(200)
    expected = density(
        smooth + 0.3**2 * eye, y, 2 * smooth, smooth * square / 0.8**2, 2 * 0.3**2 * eye
    )
    value, slope = way(dlvm.value_and_grad(made.log_likelihood))(at, x, y)
    close(value, expected[0])
    close(slope, expected[1])


def test_the_prediction_of_a_gaussian_process(example):
    made = example("gaussian_process")
    x, y = made.drawn(40)
    z = np.linspace(0, 10, 7)
    k, across, alone = (np.exp(-((p[:, None] - q) ** 2) / 2) for p, q in ((x, x), (x, z), (z, z)))
    k = k + 0.1**2 * np.eye(40)
    mean, deviation = made.predicted(np.log([1, 1, 0.1]), x, y, z)
    close(mean, across.T @ np.linalg.solve(k, y))
    close(deviation**2, np.diag(alone - across.T @ np.linalg.solve(k, across)))


def joint(made, push: float, noise: float, steps: int):
    """The covariance of all measurements, and its slopes by the logarithms of both deviations."""
    powers = [np.linalg.matrix_power(made.F, t) for t in range(steps + 1)]
    begin = np.array([(made.H @ powers[t + 1])[0] for t in range(steps)])
    kicks = np.zeros((steps, steps))
    for t in range(steps):
        for k in range(t + 1):
            kicks[t, k] = (made.H @ powers[t - k] @ made.PUSH)[0]
    moved, missed = push**2 * kicks @ kicks.T, noise**2 * np.eye(steps)
    return begin @ made.START @ begin.T + moved + missed, 2 * moved, 2 * missed


def test_the_likelihood_of_a_kalman_filter(example, way):
    made = example("kalman")
    _, ys = made.simulated(60)
    k, *changes = joint(made, 0.7, 0.4, 60)
    expected = density(k, ys[:, 0], *changes)
    value, slope = way(dlvm.value_and_grad(made.log_likelihood))(np.log([0.7, 0.4]), ys)
    close(value, expected[0])
    close(slope, expected[1])


def test_ridge_regression(example, way):
    made = example("regression")
    x, true, y = made.drawn(60, 8)
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    fit = vt.T @ (s / (s**2 + 0.7) * (u.T @ y))
    z = vt.T @ ((vt @ (fit - true)) / (s**2 + 0.7))

    def loss(x, y, penalty):
        return 0.5 * ((made.ridge(x, y, penalty) - true) ** 2).sum()

    close(way(made.ridge)(x, y, 0.7), fit)
    slopes = way(dlvm.grad(loss, wrt=("x", "y", "penalty")))(x, y, 0.7)
    expected = np.outer(y - x @ fit, z) - np.outer(x @ z, fit), x @ z, -z @ fit
    for found, known in zip(slopes, expected, strict=True):
        close(found, known)


def test_the_error_of_points_left_out(example, way):
    made = example("regression")
    x, _, y = made.drawn(60, 8)
    a = 0.3
    errors = []
    for i in range(60):
        kept = np.arange(60) != i
        fit = np.linalg.solve(x[kept].T @ x[kept] + a * np.eye(8), x[kept].T @ y[kept])
        errors.append(y[i] - x[i] @ fit)
    u, s, _ = np.linalg.svd(x, full_matrices=False)
    turned = -a * (u * (s**2 / (s**2 + a) ** 2)) @ u.T  # of the hat matrix, by log a
    rest = 1 - np.diag((u * (s**2 / (s**2 + a))) @ u.T)
    slope = np.mean(2 * np.array(errors) * (-turned @ y + errors * np.diag(turned)) / rest)
    value, found = way(dlvm.value_and_grad(made.left_out))(np.log(a), x, y)
    close(value, np.mean(np.square(errors)))
    close(found, slope)


def test_generalised_least_squares(example, way):
    made = example("regression")
    x, y = np.random.default_rng(1).standard_normal((2, 50, 5))
    y = y[:, 0]
    m, g = made.correlated(50), np.arange(1.0, 6)
    low = np.linalg.cholesky(m)
    fit = np.linalg.lstsq(np.linalg.solve(low, x), np.linalg.solve(low, y))[0]
    inverse = np.linalg.inv(m)
    z = np.linalg.solve(x.T @ inverse @ x, g)
    rest, along = inverse @ (y - x @ fit), inverse @ x @ z

    def loss(x, m, y):  # the covariance is symmetric, and so is the slope that means something
        return g @ made.generalised(x, 0.5 * (m + m.T), y)

    close(way(made.generalised)(x, m, y), fit)
    slopes = way(dlvm.grad(loss, wrt=("x", "m", "y")))(x, m, y)
    turned = np.outer(along, rest)
    expected = np.outer(rest, z) - np.outer(along, fit), -0.5 * (turned + turned.T), along
    for found, known in zip(slopes, expected, strict=True):
        close(found, known)


def principal(x, kept):
    """The directions of the largest variance, and the variances along them."""
    centred = x - x.mean(0)
    w, v = dlvm.linalg.eigh(centred.T @ centred / len(x))
    return w[-kept:], v[:, -kept:]


def test_principal_components(way):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 8)) * np.geomspace(3, 0.3, 8) + rng.standard_normal(8)
    centred = x - x.mean(0)
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    onto = vt[:3].T @ vt[:3]

    def lost(x):
        v = principal(x, 3)[1]
        centred = x - x.mean(0)
        return ((centred - centred @ v @ v.T) ** 2).sum()

    w, v = way(lambda x: principal(x, 3))(x)
    close(w[::-1], s[:3] ** 2 / 50)
    close(v @ v.T, onto)
    close(way(dlvm.grad(lambda x: principal(x, 3)[0].sum()))(x), 2 * centred @ onto / 50)
    value, slope = way(dlvm.value_and_grad(lost))(x)
    close(value, (s[3:] ** 2).sum())
    close(slope, 2 * centred @ (np.eye(8) - onto))


def test_newton_with_a_hessian_solve(way):
    """The minimum of a logistic regression, and how it moves with the penalty."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 5))
    y = (x @ rng.standard_normal(5) + rng.standard_normal(80) > 0).astype(float)

    def cost(w, penalty):
        z = x @ w
        return (dlvm.logaddexp(0.0, z) - y * z).sum() + 0.5 * penalty * (w @ w)

    def newton(penalty):
        def step(_, w):
            slope, curvature = dlvm.grad(cost)(w, penalty), dlvm.hessian(cost)(w, penalty)
            return w - dlvm.linalg.solve(curvature, slope)

        return dlvm.fori_loop(0, 9, step, np.zeros(5))

    w = np.zeros(5)
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ w))
        curvature = (x.T * (p * (1 - p))) @ x + 0.5 * np.eye(5)
        w = w - np.linalg.solve(curvature, x.T @ (p - y) + 0.5 * w)
    close(way(newton)(0.5), w)
    close(
        way(dlvm.grad(lambda a: (newton(a) ** 2).sum()))(0.5),
        -2 * w @ np.linalg.solve(curvature, w),
    )
    close(way(dlvm.jacobian(newton))(0.5), -np.linalg.solve(curvature, w))
