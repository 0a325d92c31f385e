"""Derivatives that are meant to differ from the slope: marked, left out, and all else checked."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.testing import GradientError, gradcheck

X = np.array([0.3, -1.2, 2.1, 0.7])


def rounding(x):
    return dlvm.round(x)


@pytest.fixture(params=["vjp", "jvp"])
def rounded(request):
    """Rounding whose gradient is that of the identity: a straight-through estimator."""

    def made(surrogate):
        if request.param == "vjp":
            f = dlvm.custom_vjp(rounding, surrogate=surrogate)
            f.defvjp(lambda x: (dlvm.round(x), None), lambda kept, dy: (dy,))
            return f
        f = dlvm.custom_jvp(rounding, surrogate=surrogate)
        f.defjvp(lambda primals, tangents: (dlvm.round(*primals), tangents[0]))
        return f

    return made


def test_a_marked_rule_passes_and_an_unmarked_one_does_not(rounded):
    straight = rounded(True)
    report = gradcheck(lambda x: (straight(x * 3) * dlvm.tanh(x)).sum(), X)
    assert len(report.surrogates) == 1
    assert "rounding" in report.surrogates[0]
    assert "but for surrogate derivatives: " in str(report)
    assert {i.order for i in report.identities} == {1, 2}
    unmarked = rounded(False)
    with pytest.raises(GradientError):
        gradcheck(lambda x: (unmarked(x * 3) * dlvm.tanh(x)).sum(), X, order=1)


@pytest.mark.parametrize("sampled", [False, True])
def test_a_wrong_rule_beside_it_is_found(rounded, sampled):
    straight = rounded(True)

    @dlvm.custom_vjp
    def doubled(x):
        return x * 2

    doubled.defvjp(lambda x: (x * 2, None), lambda kept, dy: (3 * dy,))
    with pytest.raises(GradientError, match="the derivative of doubled is, by itself"):
        gradcheck(lambda x: doubled(straight(x)).sum(), X, order=1, sampled=sampled)


def test_the_mark_is_part_of_the_text(rounded):
    straight = rounded(True)
    module = dlvm.trace(lambda x: straight(x), X)
    assert "surrogate=true" in str(module)
    assert str(dlvm.parse(str(module))) == str(module)
    assert "surrogate" not in str(dlvm.trace(lambda x: rounded(False)(x), X))


def test_derivatives_inside_of_a_function_are_followed_to_what_they_derive(rounded):
    report = gradcheck(lambda x: dlvm.jvp(lambda y: y**3 * x, (x,), (x,))[1].sum(), X)
    assert not report.surrogates
    straight = rounded(True)
    slope = dlvm.grad(lambda x: (straight(x) * x).sum())
    assert len(gradcheck(lambda x: slope(x).sum() * 1.0, X, order=1).surrogates) == 1
