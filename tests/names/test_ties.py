"""Where elements are equal: one convention for every function that puts elements in order.

The derivative at a tie is the mean over all orders in which the tied elements can be told apart.
So equal elements share a cotangent evenly, whichever function asks for the largest of them. The
differences of NumPy's function, at points a little beside the tie, say what it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

Call = Callable[[Any, Any], Any]
APART, STEP = 2.0**-12, 2.0**-24
"""How far tied elements are moved apart, and how far one is moved for a difference.

Both are powers of two, so that nothing is rounded.
"""
TIED = [np.array([1.0, 3, 3, 2, 3]), np.array([2.0, 2, 2, 2]), np.array([0.0, -0.0, 1, 0])]
ORDERED: dict[str, tuple[Call, Call]] = {
    "max": (lambda d, x: d.max(x), lambda d, x: d.max(x)),
    "min": (lambda d, x: d.min(x), lambda d, x: d.min(x)),
    "ptp": (lambda d, x: d.ptp(x), lambda d, x: d.ptp(x)),
    "nanmax": (lambda d, x: d.nanmax(x), lambda d, x: d.nanmax(x)),
    "sort": (lambda d, x: d.sort(x), lambda d, x: d.sort(x)),
    "last of sort": (lambda d, x: d.sort(x)[-1], lambda d, x: d.sort(x)[-1]),
    "descending": (lambda d, x: d.sort(x, descending=True), lambda d, x: d.sort(x)[::-1]),
    "partition": (lambda d, x: d.partition(x, 1), lambda d, x: d.sort(x)),
    "top_k": (lambda d, x: d.top_k(x, 2)[0], lambda d, x: d.sort(x)[:-3:-1]),
    "median": (lambda d, x: d.median(x), lambda d, x: d.median(x)),
    "quantile": (lambda d, x: d.quantile(x, 0.3), lambda d, x: d.quantile(x, 0.3)),
    "lower": (
        lambda d, x: d.quantile(x, 0.4, method="lower"),
        lambda d, x: d.quantile(x, 0.4, method="lower"),
    ),
    "percentile": (lambda d, x: d.percentile(x, 70), lambda d, x: d.percentile(x, 70)),
    "cumulative_max": (lambda d, x: d.cumulative_max(x), lambda d, x: d.maximum.accumulate(x)),
    "cumulative_min": (lambda d, x: d.cumulative_min(x), lambda d, x: d.minimum.accumulate(x)),
    "backwards": (
        lambda d, x: d.cumulative_max(x, reverse=True),
        lambda d, x: d.maximum.accumulate(x[::-1])[::-1],
    ),
    "exclusive": (
        lambda d, x: d.cumulative_max(x, exclusive=True)[1:],
        lambda d, x: d.maximum.accumulate(x)[:-1],
    ),
    "largest norm": (
        lambda d, x: d.linalg.vector_norm(x + 5, ord=np.inf),
        lambda d, x: d.linalg.vector_norm(x + 5, ord=np.inf),
    ),
    "maximum": (lambda d, x: d.maximum(x[0], x[1]), lambda d, x: d.maximum(x[0], x[1])),
    "fmin": (lambda d, x: d.fmin(x[1], x[2]), lambda d, x: d.fmin(x[1], x[2])),
    "clip": (lambda d, x: d.clip(x[1:], x[0], 9), lambda d, x: d.clip(x[1:], x[0], 9)),
    "abs": (lambda d, x: d.abs(x - x[0] * 0 - 2), lambda d, x: d.abs(x - 2)),
}
"""By name: the function in our words and in NumPy's."""


def pulled_back(f: Callable[[Any], Any], x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The gradient of the weighted results by differences, where no two elements are equal."""
    out = np.zeros(x.size)
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = STEP
        out[i] = np.sum(w * (np.asarray(f(x + step)) - np.asarray(f(x - step)))) / (2 * STEP)
    return out


@pytest.mark.parametrize("x", TIED, ids=str)
@pytest.mark.parametrize("name", ORDERED)
def test_a_tie_is_the_mean_over_its_orders(
    name: str, x: np.ndarray, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    ours, numpys = ORDERED[name]
    w = np.resize([1.0, -0.5, 0.75, 0.25, -1.25], np.shape(numpys(np, x)))
    middle = (
        x.size - 1
    ) / 2  # moved to both sides alike: what has a kink of its own is met as well
    orders = [(np.array(p) - middle) * APART for p in itertools.permutations(range(x.size))]
    expected = np.mean([pulled_back(lambda v: numpys(np, v), x + o, w) for o in orders], axis=0)
    found = dlvm.grad(lambda v: dlvm.sum(ours(dlvm, v) * w))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    tangent = dlvm.jvp(lambda v: dlvm.sum(ours(dlvm, v) * w), (x,), (np.arange(x.size) + 1.0,))[1]
    np.testing.assert_allclose(tangent, found @ (np.arange(x.size) + 1.0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("far", [0.0, 100.0, 1e4])
def test_the_shares_of_a_log_sum_exp_add_up_to_one(dtype: str, far: float):
    x = dlvm.astype(np.array([1.0, 1, 1, 2, 0]) + far, "bf16" if dtype[0] == "b" else dtype)
    unit = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-24}[dtype]
    for f in (dlvm.logsumexp, lambda v: dlvm.cumulative_logsumexp(v)[-1]):
        for g in (dlvm.grad(f), dlvm.function(dlvm.grad(f))):
            shares = np.asarray(g(x)).astype(float)
            assert abs(shares.sum() - 1) <= 4 * unit
            assert shares[0] == shares[1] == shares[2]


def test_a_norm_and_a_deviation_are_flat_where_they_are_zero():
    for f in (dlvm.std, dlvm.nanstd, dlvm.linalg.norm):
        assert not np.any(dlvm.grad(f)(np.zeros(3)))
    for p in (1, 1.5, 2, 3, np.inf):
        assert not np.any(dlvm.grad(lambda x, p=p: dlvm.linalg.vector_norm(x, ord=p))(np.zeros(3)))
    assert not np.any(dlvm.grad(dlvm.std)(np.full(4, 7.0)))


@pytest.mark.parametrize("x", [0.0, 1e-9, 1e-3, 0.1, 0.2999, 0.3001, 0.7, -0.3])
def test_sinc_has_all_digits_of_its_derivatives(x: float):
    import mpmath as mp

    f = dlvm.sinc
    for order in range(4):
        with mp.workdps(40):
            exact = float(mp.diff(lambda v: mp.sincpi(v), x, order))
        assert abs(float(f(np.float64(x))) - exact) <= 4e-15 * 30**order / 3, order
        f = dlvm.grad(f)
