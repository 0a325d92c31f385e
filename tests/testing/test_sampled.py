"""Random directions find wrong derivatives of programs that run long, in seconds."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.testing import GradientError, gradcheck
from dlvm.testing.causes import Evidence, cause


def scaled_rule(factor):
    """The tangent hyperbolic with a derivative that is wrong by a factor."""

    @dlvm.custom_vjp
    def curved(x):
        return dlvm.tanh(x)

    curved.defvjp(lambda x: (dlvm.tanh(x), x), lambda x, dy: (factor(x, dy) / dlvm.cosh(x) ** 2,))
    return curved


def chain(curved):
    def run(w, x):
        def body(h, t):
            h = curved(h * w + t)
            return h, h.sum()

        return dlvm.scan(body, x[0], x)[1].sum()

    return run


DICE = np.random.default_rng(4)
W, X = DICE.normal(size=6) * 0.4, DICE.normal(size=(400, 6))


def test_long_scans_are_checked_along_directions():
    report = gradcheck(chain(dlvm.tanh), W, X, sampled=True)
    assert report.sampled
    assert report.orders == (1, 2)
    assert all(c.checked == c.elements for c in report.arguments)
    assert report.max_error < 1e-8
    assert "4 of 4 random directions checked" in str(report)
    assert "by machine code" in str(report)


@pytest.mark.parametrize(
    "factor",
    [
        lambda x, dy: -dy,
        lambda x, dy: dy * 1.001,
        lambda x, dy: dy * dlvm.where(x > 1.0, 0.0, 1.0),
    ],
)
def test_a_wrong_rule_is_found_and_named(factor):
    with pytest.raises(GradientError, match="with respect to") as e:
        gradcheck(chain(scaled_rule(factor)), W, X, order=1, sampled=True)
    assert e.value.fault is not None
    assert e.value.fault.mode in ("reverse mode", "forward mode")


def test_a_second_derivative_is_checked_too():
    @dlvm.custom_vjp
    def squared(x):
        return x * x

    held = dlvm.stop_gradient
    squared.defvjp(lambda x: (x * x, x), lambda x, dy: (2 * held(x) * dy,))

    def f(x):
        return squared(x).sum()

    assert gradcheck(f, W, order=1, sampled=True)
    with pytest.raises(GradientError, match="second derivative"):
        gradcheck(f, W, order=2, sampled=True)


def test_where_no_direction_tells_anything_that_is_an_error():
    with pytest.raises(GradientError, match="nothing of the gradient"):
        gradcheck(lambda x: dlvm.abs(x).sum(), np.zeros(3), order=1, sampled=True)


def test_of_several_arguments_the_wrong_one_is_named():
    wrong = scaled_rule(lambda x, dy: 2 * dy)
    with pytest.raises(GradientError, match="with respect to b"):
        gradcheck(lambda a, b: (dlvm.exp(a) * wrong(b)).sum(), W, W + 1, order=1, sampled=True)


# -- gradients that are nearly right ------------------------------------------------------------


def evidence(found, expected):
    return Evidence(found, expected, np.full(found.shape, 1e-14), found.shape)


@pytest.mark.parametrize("size", [1, 5])
def test_a_factor_close_to_one_is_told(size):
    expected = np.linspace(1.0, 2.0, size)
    said = cause(evidence(expected * (1 + 1e-9), expected))
    assert "1 + 1e-09 times what it should be" in said
    assert "too few digits" in said
    assert "1 - 1e-09" in cause(evidence(expected * (1 - 1e-9), expected))


def test_a_small_error_of_no_factor_is_told():
    expected = np.linspace(1.0, 2.0, 5)
    off = expected + np.array([0, 2e-9, -1e-9, 0, 1e-9])
    assert "right but for 1e-09 of its largest element" in cause(evidence(off, expected))


def test_gradcheck_tells_a_factor_of_one_millionth_part():
    wrong = scaled_rule(lambda x, dy: dy * (1 + 3e-7))
    with pytest.raises(GradientError, match=r"1 \+ 3e-07 times") as e:
        gradcheck(lambda x: wrong(x).sum(), np.array([0.3, 0.7, -0.4]), order=1)
    assert e.value.fault is not None
