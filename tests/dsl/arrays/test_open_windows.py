"""Windows of axes whose length is open: sizes such as ``min(2,N)`` and ``mod(N,3)``, everywhere."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from tests.road import differences

LENGTHS = (*range(8), 65)
Window = Callable[[Any, int], Any]
WINDOWS: dict[str, Window] = {
    "[:k]": lambda x, k: x[:k],
    "[-k:]": lambda x, k: x[-k:],
    "[k:]": lambda x, k: x[k:],
    "[:-k]": lambda x, k: x[:-k],
    "[k:k+3]": lambda x, k: x[k : k + 3],
    "[k:][:2]": lambda x, k: x[k:][:2],
    "[:k][::-2]": lambda x, k: x[:k][::-2],
    "[:k*n//3]": lambda x, k: x[: k * x.shape[0] // 3],
    "[-k:][:n//2]": lambda x, k: (lambda v: v[: v.shape[0] // 2])(x[-k:]),
    "[:k][:n%3]": lambda x, k: x[:k][: x.shape[0] % 3],
    "[:k]+[:k]": lambda x, k: np.concatenate([x[:k], x[1:], x[-k:]]),
}


def uses_of_a_line(v: Any) -> tuple[Any, ...]:
    """A line through every kind of kernel."""
    powers = np.exp(v)
    return (
        *(v.sum(), v.max(initial=-9.0), v.mean(), (v * v).prod()),
        *(powers / powers.sum(), v - v.sum()),
        *(v @ v, np.outer(v, v) @ v, np.outer(v, v).sum(), np.outer(v, v).sum(0)),
        *(np.cumsum(v), np.sort(v), np.argsort(v, kind="stable")),
    )


def uses_of_a_matrix(v: Any) -> tuple[Any, ...]:
    """A matrix through every kind of kernel, along both axes."""
    powers = np.exp(v)
    return (
        *(v.sum(), v.sum(0), v.sum(1), v.max(axis=1, initial=-9.0), v.reshape(-1)[:7].sum()),
        *(powers / powers.sum(0), powers / powers.sum(1, keepdims=True)),
        *(v @ v.T, v.T @ v, v.T * 2.0, v.T + np.ones((1, 1))),
        *(np.cumsum(v, 0), np.cumsum(v, 1), np.sort(v, 0), np.sort(v, 1)),
    )


def loss(v: Any) -> Any:
    """One number of a line, through a row kernel, a product, a scan and an order."""
    row = v * np.exp(v - v.sum() / 8.0)
    return (row @ v) + (np.cumsum(v) * v).sum() + (np.sort(v) ** 3).sum()


def normal(*shape: int) -> Any:
    return np.random.default_rng(shape).normal(size=shape)


def assert_equal(f: Callable[..., Any], opened: Callable[..., Any], *args: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy about means of nothing
        expected = f(*args)
    for found, right in zip(opened(*args), expected, strict=True):
        assert np.shape(found) == np.shape(right)
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("window", "k"), [(w, k) for w in WINDOWS for k in (range(6) if w == "[:k]" else (0, 1, 4))]
)
def test_a_window_of_a_line_is_used_like_any_line(window: str, k: int):
    f = lambda x: uses_of_a_line(WINDOWS[window](x, k))  # noqa: E731
    opened = dlvm.function(f, dynamic={"x": "N"})
    for n in LENGTHS:
        assert_equal(f, opened, normal(n))


@pytest.mark.parametrize("k", [3])
@pytest.mark.parametrize("window", WINDOWS)
def test_a_window_of_a_line_has_a_gradient(window: str, k: int):
    f = lambda x: loss(WINDOWS[window](x, k))  # noqa: E731
    slope = dlvm.function(dlvm.grad(f), dynamic={"x": "N"})
    for n in LENGTHS:
        x = 0.3 * normal(n)
        np.testing.assert_allclose(slope(x), differences(f, x), rtol=1e-5, atol=1e-6)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("k", [0, 1, 2, 5])
@pytest.mark.parametrize("axes", ["rows", "columns", "both", "square"])
def test_a_window_of_a_matrix_is_used_like_any_matrix(axes: str, k: int):
    windows: dict[str, Callable[[Any], Any]] = {
        "rows": lambda x: x[:k],
        "columns": lambda x: x[:, :k],
        "both": lambda x: x[-k:, : x.shape[1] % 3],
        "square": lambda x: x[:k, :k],
    }
    f = lambda x: uses_of_a_matrix(windows[axes](x))  # noqa: E731
    opened = dlvm.function(f, dynamic={"x": "N,N" if axes == "square" else "M,N"})
    for n in LENGTHS:
        for m in (n,) if axes == "square" else (0, 1, 3, 65):
            assert_equal(f, opened, normal(m, n))


@pytest.mark.parametrize("many", [1, 300, 4000, 4096, 5000, 10000])
def test_long_windows_are_folded_in_pieces(many: int):
    f = lambda x: (x[:many].sum(), x[-many:].max(initial=-9.0), x[:many] @ x[:many])  # noqa: E731
    opened = dlvm.function(f, dynamic={"x": "N"}, threads=2)
    for n in (0, 299, 4096, 4097, 20000):
        assert_equal(f, opened, normal(n))
