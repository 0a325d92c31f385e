"""Random nests of control constructs, three deep, under every transformation."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.opt.pipelines import MEANING
from dlvm.passes import run

from .counting import work
from .nests import MAKERS, nest

X, W = np.array([0.7, -0.4, 0.5]), np.array([0.6, 0.9, -0.5])
V = (0.3, -0.8, 0.5)
SEEDS = range(len(MAKERS))
LANES = np.stack([X, -X, X * 0.5 + 0.1])


def loss(seed, depth=3):
    f = nest(seed, depth)
    return lambda x, w: f(x, w).sum()


def interpreted(f, *args):
    module = dlvm.trace(f, *args).expanded()
    return lambda *xs: module.run(module.main.name, *map(np.asarray, xs))


def slope(f, *args, step=1e-3):
    """The derivative along ``V`` by central differences of sixth order."""
    weights = ((1, 45), (2, -9), (3, 1))
    moved = (
        (k * w, f(args[0] + s * k * step * np.array(V), *args[1:]))
        for k, w in weights
        for s in (1, -1)
    )
    signs = [s * w for _, w in weights for s in (1, -1)]
    return sum(s * y for s, (_, y) in zip(signs, moved, strict=True)) / (60 * step)


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_and_interpreted_agree_forward_and_back(seed):
    f = loss(seed)
    both = dlvm.value_and_grad(f, wrt=(0, 1))
    value, gradient = both(X, W)
    found = interpreted(both, X, W)(X, W)
    assert np.allclose([value], [found[0]], rtol=1e-12)
    assert all(np.allclose(a, b, rtol=1e-10) for a, b in zip(gradient, found[1:], strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_are_those_of_differences_and_of_forward_mode(seed):
    f = loss(seed)
    primal, gradient = interpreted(f, X, W), interpreted(dlvm.grad(f), X, W)
    expected = slope(lambda x: primal(x, W)[0], X)
    (found,) = gradient(X, W)
    assert np.isclose(found @ V, expected, rtol=1e-8, atol=1e-9)
    forward = interpreted(lambda x, w: dlvm.jvp(lambda x: f(x, w), (x,), (np.array(V),))[1], X, W)
    assert np.isclose(forward(X, W)[0], found @ V, rtol=1e-12)
    kept = interpreted(dlvm.grad(dlvm.checkpoint(f)), X, W)
    assert np.allclose(kept(X, W)[0], found, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_second_derivatives_are_differences_of_gradients(seed):
    f = loss(seed)
    gradient = interpreted(dlvm.grad(f), X, W)
    expected = slope(lambda x: gradient(x, W)[0], X)
    over = interpreted(
        lambda x, w: dlvm.jvp(lambda x: dlvm.grad(f)(x, w), (x,), (np.array(V),))[1], X, W
    )
    assert np.allclose(over(X, W)[0], expected, rtol=1e-7, atol=1e-8)
    twice = interpreted(dlvm.grad(lambda x, w: (dlvm.grad(f)(x, w) * np.array(V)).sum()), X, W)
    assert np.allclose(twice(X, W)[0], expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_lanes_are_as_if_alone_for_any_number_of_them(seed):
    both = dlvm.value_and_grad(loss(seed, depth=2))
    alone = interpreted(both, X, W)
    values, gradients = zip(*(alone(x, W) for x in LANES), strict=True)
    lanes = dlvm.vmap(both, in_axes=(0, None))
    opened = dlvm.function(lambda x, w: lanes(x, w), dynamic={"x": "B,3"})
    found = opened(LANES, W)
    assert np.allclose(found[0], values, rtol=1e-12)
    assert np.allclose(found[1], gradients, rtol=1e-10, atol=1e-12)
    assert opened(LANES[:0], W)[1].shape == (0, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gradient_costs_at_most_five_times_its_function(seed):
    f = loss(seed)
    counts = []
    for g in (f, dlvm.grad(f, wrt=(0, 1))):
        module = run(dlvm.trace(g, X, W).expanded(), MEANING)
        counts.append(work(module, module.main.name, X, W)["flops"])
    assert 0 < counts[1] <= 5 * counts[0], counts
