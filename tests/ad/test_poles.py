"""Derivatives at the ends of a domain are the limits of the closed form, to the second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import dlvm

INF = np.inf
POLES: dict[str, list[tuple[float, float, float]]] = {
    "asin": [(1.0, INF, INF), (-1.0, INF, -INF)],
    "acos": [(1.0, -INF, -INF), (-1.0, -INF, INF)],
    "acosh": [(1.0, INF, -INF)],
    "atanh": [(1.0, INF, INF), (-1.0, INF, -INF)],
    "cbrt": [(0.0, INF, -INF), (-0.0, INF, INF)],
    "sqrt": [(0.0, INF, -INF)],
    "log": [(0.0, INF, -INF)],
    "log1p": [(-1.0, INF, -INF)],
}
"""Places and the limits of both derivatives from inside of the domain, or from the zero's side."""


def reverse(f: Callable[..., Any]) -> Callable[..., Any]:
    return dlvm.grad(lambda x: f(x).sum())


def forward(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: dlvm.jvp(f, (x,), (dlvm.ones_like(x),))[1]


@pytest.mark.parametrize("inner", [reverse, forward])
@pytest.mark.parametrize("outer", [reverse, forward])
@pytest.mark.parametrize("name", POLES)
def test_second_derivatives_at_poles(name: str, outer: Any, inner: Any):
    at, first, second = np.array(POLES[name]).T
    f = getattr(dlvm, name)
    np.testing.assert_array_equal(inner(f)(at), first)
    np.testing.assert_array_equal(outer(inner(f))(at), second)
    np.testing.assert_array_equal(dlvm.function(outer(inner(f)))(at), second)
    assert np.isnan(outer(inner(f))(np.array([np.nan]))).all()


@pytest.mark.parametrize("name, side", [("asin", 1), ("acos", -1), ("atanh", 1), ("acosh", 1)])
def test_derivatives_beside_the_end_of_a_domain_have_all_digits(name: str, side: int):
    x = 1 + (1 if name == "acosh" else -1) * 2.0 ** -np.arange(2, 50, 3)
    with mp.workdps(60):
        exact = [mp.diff(getattr(mp, name), mp.mpf(v), h=mp.mpf(2) ** -90) for v in x]
    f = getattr(dlvm, name)
    np.testing.assert_allclose(reverse(f)(x), np.array(exact, float), rtol=1e-14)


@pytest.mark.parametrize("f", [dlvm.hypot, dlvm.atan2], ids=["hypot", "atan2"])
def test_derivatives_at_the_origin_are_0_to_the_second_order(f: Callable[..., Any]):
    hessian = dlvm.hessian(lambda p: f(p[0], p[1]))
    np.testing.assert_array_equal(hessian(np.zeros(2)), np.zeros((2, 2)))
    exact = np.array([[0.128, -0.096], [-0.096, 0.072]])
    if f is dlvm.hypot:
        np.testing.assert_allclose(hessian(np.array([3.0, 4.0])), exact, rtol=1e-12)
