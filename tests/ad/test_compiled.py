"""Derivatives and batching through the public face, in machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

Run = Callable[..., Any]


def grown(x: Any) -> Any:
    """The first power of x that is not below 100."""
    return dlvm.while_loop(lambda c: c < 100.0, lambda c: c * x, x)


POWERS = ((2.0, 7), (3.0, 5), (50.0, 2), (200.0, 1))
CALLEES: dict[str, Callable[[Run], Run]] = {
    "alone": lambda f: f,
    "under an operation": lambda f: lambda x: f(x) * 1.0,
    "in a scan": lambda f: lambda x: dlvm.scan(lambda c, y: (f(c) * y, c), x, np.ones(1))[0],
    "in a cond": lambda f: lambda x: dlvm.cond(x > 0, f, lambda x: x, x),
    "in a checkpoint": dlvm.checkpoint,
    "batched": lambda f: lambda x: dlvm.vmap(f)(x + np.zeros(1)).sum(),
}


@pytest.mark.parametrize("name", CALLEES)
def test_a_callee_that_holds_a_loop_has_first_and_second_derivatives(name: str) -> None:
    f = CALLEES[name](dlvm.function(grown))
    first = dlvm.function(dlvm.grad(f))
    second = dlvm.function(dlvm.grad(dlvm.grad(f)))
    for x, n in POWERS:
        assert np.isclose(first(np.array(x)), n * x ** (n - 1))
        assert np.isclose(second(np.array(x)), n * (n - 1) * x ** (n - 2))


def test_masks_are_kept_by_sums_and_moves_of_what_they_select() -> None:
    def f(x: Any) -> Any:
        h = dlvm.sqrt(x)
        rows = h.reshape((2, 1)) + np.zeros((2, 3))
        once = dlvm.where(x > 0, h, 0.0) + dlvm.where(x > 0, 2 * h, 0.0)
        return once.sum() + dlvm.where(x.reshape((2, 1)) + np.zeros((2, 3)) > 0, rows, 0.0).sum()

    x = np.array([0.0, 4.0])
    assert np.allclose(dlvm.function(dlvm.grad(f))(x), [0.0, 1.5])
    second = dlvm.grad(lambda x: dlvm.grad(f)(x).sum())
    assert np.allclose(dlvm.function(second)(x), [0.0, -6 / 32])


def test_a_lane_that_is_elsewhere_makes_no_trip_and_looks_nothing_up() -> None:
    """Zero doubled for ever is no matter of a lane that does not come there."""

    def doubled(n: Any) -> Any:
        return dlvm.while_loop(lambda i: i < 10, lambda i: i * 2, n)

    def found(x: Any, n: Any) -> Any:
        return dlvm.cond(n > 0, lambda n: x[doubled(n) - 10], lambda n: 0.5, n)

    f = dlvm.function(dlvm.vmap(found, in_axes=(None, 0)), dynamic={"x": "N"})
    x = np.arange(3.0)
    assert f(x, np.array([3, 0, 5])).tolist() == [2.0, 0.5, 0.0]
    assert f(x[:0], np.array([0, 0, 0])).tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(dlvm.UserError, match="out of range"):
        f(x[:2], np.array([3, 0, 5]))
