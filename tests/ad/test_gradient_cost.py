"""The work of a gradient is at most five times that of its function, on any program of these.

Counted while the interpreter runs both after optimisation: branches that are taken, trips that are
made. Random programs of calls, branches and loops in one another, over arithmetic, functions and
products; a gradient that ran a callee or a trip again would grow with the depth of the nesting.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dlvm
from dlvm.compile import expand
from dlvm.opt.pipelines import MEANING
from dlvm.passes import run

from .counting import work

Fun = Callable[[np.ndarray, np.ndarray], np.ndarray]
N = 8
X = np.linspace(-0.7, 0.9, N * N).reshape(N, N)
W = np.cos(np.arange(N * N)).reshape(N, N) / N


def straight(_: Fun) -> Fun:
    return lambda x, w: dlvm.tanh(x * w + dlvm.sin(x)) * 0.9


def product(_: Fun) -> Fun:
    return lambda x, w: dlvm.sin(x @ w)


def twice(f: Fun) -> Fun:
    return lambda x, w: f(f(x, w), w)


def called(f: Fun) -> Fun:
    g = dlvm.function(f)
    return lambda x, w: g(x, w) + x


def branch(f: Fun) -> Fun:
    return lambda x, w: dlvm.cond(x.sum() > 0, f, lambda x, w: dlvm.exp(-x) * w, x, w)


def scanned(f: Fun) -> Fun:
    return lambda x, w: dlvm.scan(
        lambda c, a: (f(c, w) + a, None), x, dlvm.stack([w[0], w[1], w[2]])
    )[0]


def looped(f: Fun) -> Fun:
    def loop(x, w):
        return dlvm.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, f(s[1], w)), (0, x))[1]

    return loop


def counted(f: Fun) -> Fun:
    return lambda x, w: dlvm.fori_loop(0, 3, lambda i, c: f(c, w), x)


def recursive(f: Fun) -> Fun:
    @dlvm.function
    def deep(x, w, n):
        return dlvm.cond(n == 0, lambda: x, lambda: deep(f(x, w), w, n - 1))

    return lambda x, w: deep(x, w, 3)


LEAVES = (straight, product)
AROUND = (twice, called, branch, scanned, looped, counted, recursive)
NESTINGS = st.tuples(st.sampled_from(LEAVES), st.lists(st.sampled_from(AROUND), max_size=4))


def ratio(f: Fun) -> float:
    def loss(x, w):
        return f(x, w).sum()

    both = dlvm.value_and_grad(loss, wrt=(0, 1))
    return flops_of(lambda x, w: both(x, w)) / flops_of(lambda x, w: loss(x, w))


def flops_of(f: Fun) -> int:
    module = run(expand(dlvm.trace(lambda x, w: f(x, w), X, W)), MEANING)
    return work(module, module.main.name, X, W)["flops"]


@settings(max_examples=12)
@given(NESTINGS)
def test_a_gradient_costs_at_most_five_times_its_function(nesting):
    leaf, around = nesting
    f = leaf(lambda x, w: x)
    for wrap in around:
        f = wrap(f)
    assert ratio(f) <= 5


def test_deep_nests_of_each_kind():
    for wrap in (called, branch, counted, looped, recursive):
        f = straight(lambda x, w: x)
        for _ in range(4):
            f = wrap(f)
        assert ratio(f) <= 5, wrap.__name__


@pytest.mark.parametrize("make", [dlvm.linearize, dlvm.vjp], ids=lambda f: f.__name__)
@pytest.mark.parametrize("wrap", [called, branch, scanned, counted])
def test_a_linear_map_costs_at_most_three_times_its_function(wrap, make):
    """It computes no function of what was kept: three uses cost two more than one."""
    f = straight(lambda x, w: x)
    for _ in range(2):
        f = wrap(f)

    def used(times):
        def run_(x, w):
            linear = make(lambda x: f(x, w), x)[1]
            return [linear(x * (i + 1)) for i in range(times)]

        return flops_of(run_)

    assert 0 < used(3) - used(1) <= 2 * 3 * flops_of(f)
