"""Activations as layers against their formulas, and layers that hold parameters beside them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import dlvm
from dlvm import nn
from dlvm.base.errors import ArgumentError, ShapeError

KEY = dlvm.random.key(2)
RNG = np.random.default_rng(4)
X = RNG.normal(size=(3, 4)) * 4


def softplus(x):
    return np.logaddexp(x, 0)


ACTIVATIONS = {
    "ReLU": lambda x: np.maximum(x, 0),
    "ReLU6": lambda x: np.clip(x, 0, 6),
    "LeakyReLU": lambda x, slope=0.01: np.where(x < 0, slope * x, x),
    "ELU": lambda x, alpha=1.0: np.where(x < 0, alpha * np.expm1(x), x),
    "CELU": lambda x, alpha=1.0: np.where(x < 0, alpha * np.expm1(x / alpha), x),
    "SELU": lambda x: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(x), x),
    "GELU": lambda x, tanh=True: (
        x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
        if tanh
        else x * special.ndtr(x)
    ),
    "SiLU": lambda x: x * special.expit(x),
    "Mish": lambda x: x * np.tanh(softplus(x)),
    "Sigmoid": special.expit,
    "LogSigmoid": lambda x: -softplus(-x),
    "Tanh": np.tanh,
    "Softplus": softplus,
    "Softsign": lambda x: x / (1 + abs(x)),
    "Hardtanh": lambda x: np.clip(x, -1, 1),
    "Hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "Hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "Softmax": lambda x, axis=-1: special.softmax(x, axis),
    "LogSoftmax": lambda x, axis=-1: special.log_softmax(x, axis),
    "GLU": lambda x, axis=-1: np.split(x, 2, axis)[0] * special.expit(np.split(x, 2, axis)[1]),
}
OPTIONS = {
    "LeakyReLU": (0.2,),
    "ELU": (0.5,),
    "CELU": (0.5,),
    "GELU": (False,),
    "Softmax": (0,),
    "LogSoftmax": (0,),
    "GLU": (-1,),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_its_formula_staged_and_unstaged_and_in_a_map(name):
    formula = ACTIVATIONS[name]
    for options in ((), OPTIONS.get(name, ())):
        layer = getattr(nn, name)(*options)
        expected = formula(X, *options)
        run = dlvm.function(lambda x, layer=layer: layer(x))
        for found in (layer(X), run(X)):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(layer(X.astype("f2")), expected, rtol=4e-3, atol=3e-3)
    assert layer(X[:, :0]).shape == formula(X[:, :0], *options).shape
    batch = dlvm.vmap(layer)(np.stack([X, -X]))
    np.testing.assert_allclose(batch, [layer(X), layer(-X)], rtol=1e-10, atol=1e-12)


def test_gradients_are_differences_of_the_formulas():
    def ours(x):
        return [(getattr(nn, name)(*OPTIONS.get(name, ()))(x)).sum() for name in ACTIVATIONS]

    def formulas(x):
        return [f(x, *OPTIONS.get(name, ())).sum() for name, f in ACTIVATIONS.items()]

    weights = np.linspace(0.5, 1.5, len(ACTIVATIONS))
    slope = dlvm.grad(lambda x: sum(w * y for w, y in zip(weights, ours(x), strict=True)))(X)
    for at in np.ndindex(2, 2):
        step = np.zeros_like(X)
        step[at] = 1e-6
        ahead, behind = (np.dot(weights, formulas(x)) for x in (X + step, X - step))
        np.testing.assert_allclose(slope[at], (ahead - behind) / 2e-6, rtol=1e-6)


def test_prelu_has_one_slope_or_one_for_each_feature():
    one, each = nn.PReLU(dtype="f64"), nn.PReLU(4, 0.1, dtype="f64")
    each.weight = np.arange(4.0)
    np.testing.assert_allclose(one(X), np.where(X < 0, X / 4, X))
    np.testing.assert_allclose(each(X), np.where(X < 0, X * np.arange(4), X))
    slope = dlvm.grad(lambda layer: layer(X).sum())(each)
    np.testing.assert_allclose(slope.weight, np.minimum(X, 0).sum(0))


@pytest.mark.parametrize("name, activation", [("relu", nn.relu), ("silu", nn.silu)])
def test_kinds_of_gates_differ_by_their_activation(name, activation):
    a, b = np.split(X, 2, 1)
    np.testing.assert_allclose(nn.glu(X, activation=activation), a * getattr(nn, name)(b))
    layer = nn.GatedMLP(KEY, 4, 6, activation, dtype="f64")
    gate, up, down = layer.gate.weight, layer.up.weight, layer.down.weight
    expected = (getattr(nn, name)(X @ gate) * (X @ up)) @ down
    np.testing.assert_allclose(layer(X), expected, rtol=1e-12)


def test_an_axis_that_has_no_halves_is_refused():
    with pytest.raises(ShapeError, match="can't be halved"):
        nn.GLU(0)(X)


def test_instances_are_normalised_channel_by_channel():
    x = RNG.normal(size=(2, 5, 3)) * 3 + 1
    centred = x - x.mean(1, keepdims=True)
    expected = centred / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.InstanceNorm(3)(x), expected, rtol=1e-11)
    layer = nn.InstanceNorm(3, affine=True, axis=1, dtype="f64")
    layer.scale, layer.bias = np.arange(3.0), np.ones(3)
    found = layer(np.moveaxis(x, -1, 1))
    np.testing.assert_allclose(np.moveaxis(found, 1, -1), expected * np.arange(3) + 1, rtol=1e-11)
    assert nn.InstanceNorm(3)(x[:0]).shape == (0, 5, 3)
    assert not dlvm.tree.leaves(nn.InstanceNorm(3))


@pytest.mark.parametrize("mode, fold", [("mean", np.mean), ("sum", np.sum), ("max", np.max)])
def test_a_bag_is_a_fold_of_the_rows_that_count(mode, fold):
    bag = nn.EmbeddingBag(KEY, 6, 3, mode, dtype="f64")
    ids, lengths = RNG.integers(0, 6, size=(4, 5)), np.array([5, 2, 0, 1])
    np.testing.assert_allclose(bag(ids), fold(bag.weight[ids], axis=1), rtol=1e-12)
    found = dlvm.function(lambda bag, ids, n: bag(ids, lengths=n))(bag, ids, lengths)
    for row, i, n in zip(found, ids, lengths, strict=True):
        expected = fold(bag.weight[i[:n]], axis=0) if n else np.zeros(3)
        np.testing.assert_allclose(row, expected, rtol=1e-12, atol=1e-15)
    assert np.array_equal(bag(ids[:, :0]), np.zeros((4, 3)))
    assert bag(ids[:0]).shape == (0, 3)


def test_rows_of_a_sum_are_weighted_and_those_of_a_mean_are_not():
    bag = nn.EmbeddingBag(KEY, 6, 3, "sum", dtype="f64")
    ids, weights = RNG.integers(0, 6, size=(4, 5)), RNG.normal(size=(4, 5))
    expected = np.einsum("bn,bnf->bf", weights, bag.weight[ids])
    np.testing.assert_allclose(bag(ids, weights), expected, rtol=1e-12)
    for mode in ("mean", "median"):
        with pytest.raises(ArgumentError, match="expected mode"):
            nn.embedding_bag(bag.weight, ids, mode, weights)
