"""Operands of products that are computed as they are read: one launch, and no array between."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm


def normal(*shape: int) -> Any:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def relu(x: Any, w: Any) -> Any:
    return dlvm.nn.relu(x) @ w


def cast(x: Any, w: Any) -> Any:
    return x.astype("f4") @ w


def rows(x: Any, i: Any, w: Any) -> Any:
    return x[i] @ w


def leaky(x: Any, w: Any) -> Any:
    return dlvm.where(x > 0, x, x * 0.1 + 1) @ w


def transposed(x: Any, w: Any) -> Any:
    return dlvm.nn.relu(x).T @ w


X, W = normal(200, 300), normal(300, 100)
ONE_LAUNCH: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "relu": (relu, (X, W)),
    "a cast": (cast, (X.astype(np.float64), W)),
    "picked rows": (rows, (normal(1000, 300), np.arange(200), W)),
    "a formula that reads x three times": (leaky, (X, W)),
    "a transposed formula": (transposed, (normal(300, 200), W)),
}


@pytest.mark.parametrize("name", ONE_LAUNCH)
def test_there_is_no_array_between(name: str):
    f, given = ONE_LAUNCH[name]
    compiled = dlvm.function(f).compile(*given)
    assert (compiled.report.launches, compiled.report.peak_bytes) == (1, 0)
    expected = dlvm.function(f, numerics="strict")(*given)
    np.testing.assert_array_equal(np.asarray(compiled(*given)), np.asarray(expected))
    np.testing.assert_allclose(np.asarray(compiled(*given)), f(*given), rtol=1e-4, atol=1e-3)


def test_a_sum_of_two_arrays_is_an_array():
    compiled = dlvm.function(lambda x, y, w: (x + y) @ w).compile(X, X, W)
    assert (compiled.report.launches, compiled.report.peak_bytes) == (2, X.nbytes)


def heads(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
    batch, steps, width = x.shape
    split = [(x @ w).reshape(batch, steps, 4, -1).transpose(0, 2, 1, 3) for w in (wq, wk, wv)]
    q, k, v = split
    scores = dlvm.nn.softmax(q @ k.swapaxes(-1, -2), axis=-1)
    return (scores @ v).transpose(0, 2, 1, 3).reshape(batch, steps, width) @ wo


def test_heads_are_split_and_joined_without_a_copy():
    compiled = dlvm.function(heads).compile(normal(2, 32, 64), *[normal(64, 64)] * 4)
    kernels = compiled.text("kernels").split("= kernel")
    moves = [k for k in kernels if "permute" in k and "matmul" not in k]
    assert moves == []
    assert compiled.report.launches == 7  # six products and a softmax


@pytest.mark.parametrize(("name", "launches"), [("relu", 1), ("tanh", 2), ("gelu", 2)])
def test_what_takes_long_is_not_computed_again_for_each_window(name: str, launches: int):
    f = {"relu": dlvm.nn.relu, "tanh": dlvm.tanh, "gelu": dlvm.nn.gelu}[name]
    given = normal(2, 20, 20, 8), normal(3, 3, 8, 16)
    compiled = dlvm.function(lambda x, w: dlvm.nn.conv(f(x), w, padding=0)).compile(*given)
    array = given[0].nbytes * (launches - 1)
    assert (compiled.report.launches, compiled.report.peak_bytes) == (launches, array)


def test_a_column_that_is_repeated_is_computed_once():
    column = lambda v, w: dlvm.broadcast_to(dlvm.exp(v)[:, None], (70, 30)) @ w  # noqa: E731
    f = dlvm.function(column, numerics="strict")
    assert f.compile(normal(70), normal(30, 40)).report.launches == 2
