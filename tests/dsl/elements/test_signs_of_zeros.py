"""-0.0 is smaller than 0.0 for the larger and the smaller of two, staged and not.

``docs/numerics.md`` promises it. NumPy leaves open which of two zeros it returns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dlvm

Call = Callable[..., Any]
DTYPES = ("f2", "f4", "f8", ml_dtypes.bfloat16)
SIZES = (1, 2, 3, 8, 17, 64, 130)
"""Sizes with and without a whole vector, and with a rest."""
LARGER, SMALLER = np.logical_and, np.logical_or
"""Whether the larger, or the smaller, of two zeros has a sign, given whether each has."""
OF_TWO = {"maximum": LARGER, "fmax": LARGER, "minimum": SMALLER, "fmin": SMALLER}
OF_MANY = {"max": LARGER, "nanmax": LARGER, "min": SMALLER, "nanmin": SMALLER}
RUNNING = {"cumulative_max": LARGER, "cumulative_min": SMALLER}


def zeros(rng: np.random.Generator, dtype: Any, *shape: int) -> Any:
    """Zeros of both signs."""
    return np.where(rng.random(shape) < 0.5, 0.0, -0.0).astype(dtype)


def both_ways(f: Call) -> list[Call]:
    """The function, and the function staged."""
    return [f, dlvm.function(f)]


def has_signs(found: Any, signs: Any) -> bool:
    return bool(np.array_equal(np.signbit(found), signs) and not np.any(found))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_TWO)
def test_of_two_arrays_and_of_an_array_and_a_number(name: str, dtype: Any):
    rng, f, rule = np.random.default_rng(1), getattr(dlvm, name), OF_TWO[name]

    def every(x: Any, y: Any, positive: Any, negative: Any) -> list[Any]:
        beside = [(x, y), (x, 0.0), (0.0, x), (x, -0.0), (-0.0, x), (x, positive), (x, negative)]
        return [f(a, b) for a, b in beside]

    for n in SIZES:
        x, y = zeros(rng, dtype, n), zeros(rng, dtype, n)
        signs = [rule(np.signbit(x), np.signbit(c)) for c in (y, 0.0, 0.0, -0.0, -0.0, 0.0, -0.0)]
        for call in both_ways(every):
            assert all(map(has_signs, call(x, y, 0.0, -0.0), signs)), n


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_MANY)
def test_of_all_elements_and_along_axes(name: str, dtype: Any):
    rng, f, rule = np.random.default_rng(2), getattr(dlvm, name), OF_MANY[name]
    axes: tuple[Any, ...] = (None, 0, 1, (0, 1))

    def every(x: Any) -> list[Any]:
        return [f(x, axis=axis) for axis in axes]

    opened = dlvm.function(every, dynamic={"x": "N,3"})
    for n in SIZES:
        x = zeros(rng, dtype, n, 3)
        signs = [rule.reduce(np.signbit(x), axis=axis) for axis in axes]
        for call in (*both_ways(every), opened):
            assert all(map(has_signs, call(x), signs)), n


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RUNNING)
def test_of_running_extremes(name: str, dtype: Any):
    rng, rule = np.random.default_rng(3), RUNNING[name]
    for n in SIZES:
        x = zeros(rng, dtype, n)
        for call in both_ways(getattr(dlvm, name)):
            assert has_signs(call(x), rule.accumulate(np.signbit(x)))


@pytest.mark.parametrize("low", [0.0, -0.0])
@pytest.mark.parametrize("high", [0.0, -0.0])
def test_of_bounds(low: float, high: float):
    x = zeros(np.random.default_rng(4), "f8", 17)
    signs = np.signbit(x) & np.signbit(low) | np.signbit(high)
    for call in both_ways(lambda x: dlvm.clip(x, low, high)):
        assert has_signs(call(x), signs)
