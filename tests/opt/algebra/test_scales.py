"""Scales and shifts behind products with known weights: the weights are scaled, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


ROWS = drawn(20, 12)
IMAGES = drawn(2, 12, 9, 9)
VECTORS = {name: drawn(24) for name in ("b", "mean", "scale", "shift")}
VECTORS["variance"] = np.abs(drawn(24)) + 0.1


def normalised(x: Any, axes: int, b: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
    """A bias and a batch norm, of channels with some axes behind them."""

    def beside(v: Any) -> Any:
        return v[(slice(None), *(None,) * axes)]

    y = (x + beside(b) - beside(mean)) * beside(scale / dlvm.sqrt(variance + 1e-5))
    return dlvm.nn.relu(y + beside(shift))


def linear(x: Any, w: Any, b: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
    return normalised(x @ w, 0, b, mean, variance, scale, shift)


def convolution(x: Any, w: Any, b: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
    y = dlvm.nn.conv(x, w, padding=1, layout="channels_first")
    return normalised(y, 2, b, mean, variance, scale, shift)


def groups(x: Any, w: Any, b: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
    y = dlvm.nn.conv(x, w, padding=1, layout="channels_first", groups=2)
    return normalised(y, 2, b, mean, variance, scale, shift)


CASES: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "linear": (linear, ROWS, drawn(12, 24)),
    "one row": (linear, ROWS[:1], drawn(12, 24)),
    "one image": (convolution, IMAGES[:1], drawn(24, 12, 3, 3)),
    "convolution": (convolution, IMAGES, drawn(24, 12, 3, 3)),
    "groups": (groups, IMAGES, drawn(24, 6, 3, 3)),
}


def counted(text: str) -> dict[str, int]:
    main = text.split("\n}")[0]
    words = ("= mul", "= div", "= sub", "= add", "= matmul")
    return {word[2:]: main.count(word) for word in words}


@pytest.mark.parametrize("name", CASES)
def test_a_batch_norm_with_known_parameters_leaves_one_shift(name: str):
    f, x, w = CASES[name]
    bound = dlvm.function(f).bind(w=w, **VECTORS)
    once = {"mul": 0, "div": 0, "sub": 0, "add": 1, "matmul": 1}
    assert counted(bound.compile(x).text("optimized")) == once
    exact = dlvm.function(f)(*(a.astype(np.float64) for a in (x, w)), **VECTORS)
    np.testing.assert_allclose(bound(x), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_strict_programs_and_arguments_are_computed_as_written(name: str):
    f, x, w = CASES[name]
    written = {"mul": 1, "div": 1, "sub": 1, "add": 3, "matmul": 1}
    assert counted(dlvm.function(f).compile(x, w, **VECTORS).text("optimized")) == written
    strict = dlvm.function(numerics="strict")(f)
    bound = strict.bind(w=w, **VECTORS)
    assert counted(bound.compile(x).text("optimized"))["mul"] == 1
    np.testing.assert_array_equal(bound(x), strict(x, w, **VECTORS))


def test_a_product_that_is_read_twice_is_not_computed_twice():
    @dlvm.function
    def both(x: Any, w: Any, s: Any) -> Any:
        y = x @ w
        return y * s, y

    bound = both.bind(w=drawn(12, 24), s=drawn(24))
    assert counted(bound.compile(ROWS).text("optimized"))["matmul"] == 1
    assert counted(bound.compile(ROWS).text("optimized"))["mul"] == 1


def test_scales_of_rows_and_numbers_are_not_folded():
    @dlvm.function
    def rows(x: Any, w: Any, s: Any) -> Any:
        return (x @ w) * s[:, None]

    bound = rows.bind(w=drawn(12, 24), s=drawn(20))
    assert counted(bound.compile(ROWS).text("optimized"))["mul"] == 1


def test_weights_of_halves_stay_as_they_are():
    w, s, x = (a.astype(np.float16) for a in (drawn(12, 24), drawn(24), ROWS))

    @dlvm.function
    def columns(x: Any, w: Any, s: Any) -> Any:
        return (x @ w) * s

    bound = columns.bind(w=w, s=s)
    assert counted(bound.compile(x).text("optimized"))["mul"] == 1


def test_digits_are_kept_where_what_is_scaled_nearly_cancels():
    w, x = drawn(12, 24), ROWS
    b = -(x @ w)[3] * np.float32(1 + 1e-6)
    vectors = VECTORS | {"b": b, "mean": np.zeros(24, np.float32)}
    found = dlvm.testing.digits(dlvm.function(linear).bind(w=w, **vectors), x)
    assert found.kept
