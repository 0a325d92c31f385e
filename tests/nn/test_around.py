"""Layers around a layer: LoRA, norms of weights, and recomputation."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn, optim
from dlvm.base.errors import UserError

KEYS = dlvm.random.split(dlvm.random.key(3), 4)
RNG = np.random.default_rng(2)
ROWS = RNG.normal(size=(6, 4))
LINEAR = nn.Linear(KEYS[0], 4, 5, dtype="f64")
CONV = nn.Conv(KEYS[1], 4, 3, (2,), dtype="f64")
ATTENTION = nn.MultiHeadAttention(KEYS[2], 2, 4, dtype="f64")


def factors(path, _leaf):
    return "lora_a" in path or "lora_b" in path


def with_drawn_factors(layer, rank, alpha=None):
    made = nn.LoRA(KEYS[3], layer, rank, alpha)
    made.lora_b = tuple(RNG.normal(size=b.shape) for b in made.lora_b)
    return made


# -- LoRA ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [LINEAR, CONV, ATTENTION], ids=lambda x: type(x).__name__)
def test_products_are_0_at_first_and_can_be_merged(layer):
    x = RNG.normal(size=(2, 5, 4))
    np.testing.assert_array_equal(nn.LoRA(KEYS[3], layer, 2)(x), layer(x))
    lora = with_drawn_factors(layer, 2, 4.0)
    assert type(lora.merged()) is type(layer) and not np.allclose(lora(x), layer(x))
    np.testing.assert_allclose(lora(x), lora.merged()(x), rtol=1e-11, atol=1e-13)


def test_a_linear_layer_has_the_product_scaled_by_alpha_over_rank_added():
    lora = with_drawn_factors(LINEAR, 2, 3.0)
    (a,), (b,) = lora.lora_a, lora.lora_b
    expected = ROWS @ (LINEAR.weight + 1.5 * a @ b) + LINEAR.bias
    np.testing.assert_allclose(lora(ROWS), expected, rtol=1e-11)


def test_matrices_of_many_axes_are_as_square_as_can_be_and_biases_are_none():
    lora = nn.LoRA(KEYS[3], ATTENTION, 1)
    assert {a.shape + b.shape for a, b in zip(lora.lora_a, lora.lora_b, strict=True)} == {
        (4, 1, 1, 4)
    }
    conv = nn.LoRA(KEYS[3], nn.Conv(KEYS[0], 8, 32, 3), 2)
    assert conv.lora_a[0].shape == (72, 2) and conv.lora_b[0].shape == (2, 32)
    half = nn.LoRA(KEYS[3], nn.Linear(KEYS[0], 4, 4, dtype="f16"), 2)
    assert half.lora_a[0].dtype == np.float16


def test_the_layer_inside_is_frozen_and_learns_by_its_products_alone():
    """The gradient of frozen weights is 0; only the factors are given to the optimiser."""
    keys = iter(KEYS)
    net = nn.Sequential([nn.Linear(KEYS[0], 4, 8), np.tanh])
    net = nn.Sequential([*net.layers, nn.Linear(KEYS[1], 8, 1)])
    net = dlvm.tree.map(
        lambda x: nn.LoRA(next(keys), x, 2) if isinstance(x, nn.Linear) else x,
        net,
        is_leaf=lambda x: isinstance(x, nn.Linear),
    )
    x = ROWS.astype("f4")
    y = np.sin(x[:, :1])

    def loss(net):
        return nn.mse_loss(net(x), y, reduction="mean")

    slope = dlvm.grad(loss)(net)
    assert not any(p.any() for layer in slope.layers[::2] for p in dlvm.tree.leaves(layer.layer))
    train, fixed = dlvm.tree.partition(net, dlvm.tree.map_with_path(factors, net))
    assert [p.ndim for p in dlvm.tree.leaves(train)] == [2] * 4
    optimiser = optim.adamw(0.03)
    state = optimiser.init(train)

    @dlvm.function
    def step(train, state):
        slope = dlvm.grad(lambda train: loss(dlvm.tree.combine(train, fixed)))(train)
        updates, state = optimiser.update(slope, state, train)
        return optim.apply(train, updates), state

    for _ in range(60):
        train, state = step(train, state)
    learnt = dlvm.tree.combine(train, fixed)
    assert loss(learnt) < 0.3 * loss(net)
    assert dlvm.tree.equal(learnt.layers[0].layer, net.layers[0].layer)


def test_an_optimiser_of_all_parameters_can_leave_the_frozen_ones_as_they_are():
    lora = nn.LoRA(KEYS[3], LINEAR, 2)
    learns = dlvm.tree.map_with_path(factors, lora)
    decaying = optim.adamw(0.1, weight_decay=1.0)
    optimiser = optim.partition({True: decaying, False: optim.set_to_zero()}, learns)
    slope = dlvm.tree.map(np.ones_like, lora)
    updates, _ = optimiser.update(slope, optimiser.init(lora), lora)
    assert updates.lora_b[0].all() and not updates.layer.weight.any()


def test_a_layer_around_one_with_a_key_and_a_state_takes_them():
    inner = nn.Sequential([nn.Linear(KEYS[0], 4, 3), nn.Dropout(0.0), nn.BatchNorm(3)])
    net = nn.Sequential([nn.LoRA(KEYS[3], inner, 2), nn.relu])
    x = ROWS.astype("f4")
    y, state = net(x, KEYS[1], state=net.init())
    expected, after = inner(x, KEYS[1], state=inner.init())
    assert dlvm.tree.equal(state, (after,)) and y.shape == expected.shape


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LoRA(KEYS[0], nn.LayerNorm(4)),
        lambda: nn.LoRA(KEYS[0], LINEAR, 0),
        lambda: nn.WeightNorm(nn.MLP(KEYS[0], (4, 4))),
        lambda: nn.SpectralNorm(nn.PReLU(4)),
    ],
)
def test_what_has_no_matrix_is_refused(make):
    with pytest.raises(UserError, match=r"expected a layer (with matrices|whose field weight)"):
        make()


# -- norms of weights ------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [LINEAR, CONV], ids=lambda x: type(x).__name__)
def test_weight_norm_gives_what_the_layer_gave_and_its_scale_is_the_length(layer):
    norm, x = nn.WeightNorm(layer), RNG.normal(size=(2, 5, 4))
    np.testing.assert_allclose(norm(x), layer(x), rtol=1e-12, atol=1e-14)
    norm.layer = dlvm.tree.map(lambda p: p, layer)
    norm.layer.weight = 7 * layer.weight
    norm.scale = 2 * norm.scale
    np.testing.assert_allclose(norm(x) - layer.bias, 2 * (layer(x) - layer.bias), rtol=1e-10)
    weight = norm.layer.weight.reshape(-1, layer.weight.shape[-1])
    np.testing.assert_allclose(7 * norm.scale.ravel() / 2, np.linalg.norm(weight, axis=0))


def test_the_derivative_of_weight_norm_is_at_right_angles_to_the_weight():
    norm = nn.WeightNorm(LINEAR)
    slope = dlvm.grad(lambda norm: (norm(ROWS) ** 3).sum())(norm)
    np.testing.assert_allclose((slope.layer.weight * LINEAR.weight).sum(0), 0, atol=1e-12)


def test_spectral_norm_divides_by_the_largest_singular_value():
    norm = nn.SpectralNorm(LINEAR)
    state = norm.init()
    run = dlvm.function(lambda norm, x, state: norm(x, state))
    for _ in range(60):
        y, state = run(norm, ROWS, state)
    largest = np.linalg.norm(LINEAR.weight, 2)
    np.testing.assert_allclose(y - LINEAR.bias, ROWS @ LINEAR.weight / largest, rtol=1e-6)
    again, same = norm(ROWS, state, training=False)
    assert np.array_equal(same[0], state[0])
    np.testing.assert_allclose(again, y, rtol=1e-6)


def test_a_sequence_keeps_the_vectors_of_a_spectral_norm():
    net = nn.Sequential([nn.SpectralNorm(CONV), nn.relu])
    x = RNG.normal(size=(2, 5, 4))
    y, (state,) = net(x, state=net.init())
    np.testing.assert_allclose(y, nn.relu(net.layers[0](x, state, training=False)[0]))
    _, (kept,) = net(x, training=False, state=(state,))
    assert np.array_equal(kept[1], state[1])


# -- recomputation ---------------------------------------------------------------------------------


def test_a_recomputed_layer_is_a_checkpoint_with_the_gradient_of_the_layer():
    inner = nn.Sequential([nn.MLP(KEYS[0], (4, 8, 4), nn.gelu), nn.Dropout(0.5), nn.BatchNorm(4)])
    nets = [nn.Sequential([layer, nn.relu]) for layer in (inner, nn.Recompute(inner, "products"))]
    x = ROWS.astype("f4")

    def loss(net, x, key):
        y, state = net(x, key, state=net.init())
        return (y**2).sum(), state

    run = dlvm.function(dlvm.grad(loss, has_aux=True))
    (plain, state), (found, same) = (run(net, x, KEYS[1]) for net in nets)
    for a, b in zip(dlvm.tree.leaves(plain), dlvm.tree.leaves(found), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(same[0], state[0], rtol=1e-6)
    texts = [str(dlvm.trace(loss, net, x, KEYS[1])) for net in nets]
    assert ["checkpoint" in text for text in texts] == [False, True]
    y, _ = nets[1](x, training=False, state=same)
    np.testing.assert_array_equal(y, nets[0](x, training=False, state=same)[0])


def test_a_recomputed_layer_with_an_unknown_policy_is_refused():
    with pytest.raises(UserError, match="policy='some'"):
        nn.Recompute(LINEAR, "some")
