"""Layers are trees: arguments of staged functions, of gradients, of maps and of donation."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.base.errors import UserError
from dlvm.testing import gradcheck

from .test_activations import ACTIVATIONS

KEY = dlvm.random.key(1)
RNG = np.random.default_rng(5)
ROWS = RNG.normal(size=(3, 4))
STEPS = RNG.normal(size=(2, 3, 4))
IMAGES = RNG.normal(size=(2, 3, 3, 4))
LONG = RNG.normal(size=(2, 5, 4))
IDS = np.array([[0, 2, 1], [4, 4, 0]])


def noisy(net, x):
    return net(x, KEY)


def normalised(norm, x):
    return norm(x, norm.init())[0]


LAYERS = {
    "Linear": (nn.Linear(KEY, 4, 5, dtype="f64"), ROWS),
    "Linear without bias": (nn.Linear(KEY, 4, 5, bias=False, dtype="f64"), ROWS),
    "Embedding": (nn.Embedding(KEY, 5, 2, dtype="f64"), IDS),
    "LayerNorm": (nn.LayerNorm(4, dtype="f64"), ROWS),
    "RMSNorm": (nn.RMSNorm(4, dtype="f64"), ROWS),
    "GroupNorm": (nn.GroupNorm(2, 4, dtype="f64"), STEPS),
    "BatchNorm": (nn.BatchNorm(4, dtype="f64"), ROWS, normalised),
    "InstanceNorm": (nn.InstanceNorm(4, affine=True, dtype="f64"), STEPS),
    "EmbeddingBag": (nn.EmbeddingBag(KEY, 4, 2, dtype="f64"), np.array([[0, 2, 1], [1, 3, 0]])),
    "PReLU": (nn.PReLU(4, dtype="f64"), ROWS),
    "GatedMLP": (nn.GatedMLP(KEY, 4, 3, dtype="f64"), ROWS),
    "Dropout": (nn.Dropout(0.4), ROWS, noisy),
    "Lambda": (nn.Lambda(nn.gelu), ROWS),
    "MLP": (nn.MLP(KEY, (4, 5, 3), nn.silu, dtype="f64"), ROWS),
    "Sequential": (
        nn.Sequential(
            [nn.Linear(KEY, 4, 5, dtype="f64"), nn.sigmoid, nn.Dropout(0.3), nn.LayerNorm(5)]
        ),
        ROWS,
        noisy,
    ),
    "RNN": (nn.RNN(KEY, 4, 3, dtype="f64"), STEPS),
    "GRU": (nn.GRU(KEY, 4, 3, dtype="f64"), STEPS),
    "GRU of two layers": (nn.GRU(KEY, 4, 2, 2, bidirectional=True, dtype="f64"), STEPS),
    "LSTM": (nn.LSTM(KEY, 4, 3, dtype="f64"), STEPS),
    "Conv": (nn.Conv(KEY, 4, 6, 3, (2, 1), 1, groups=2, dtype="f64"), IMAGES),
    "Conv of sequences": (nn.Conv(KEY, 4, 3, (2,), dilation=2, bias=False, dtype="f64"), LONG),
    "ConvTranspose": (
        nn.ConvTranspose(KEY, 4, 6, (3, 2), 2, 1, (1, 0), groups=2, dtype="f64"),
        IMAGES,
    ),
    "MaxPool": (nn.MaxPool(2, padding=1), IMAGES),
    "AvgPool": (nn.AvgPool((2, 3), 1), IMAGES),
    "AdaptiveMaxPool": (nn.AdaptiveMaxPool((None, 2)), IMAGES),
    "AdaptiveAvgPool": (nn.AdaptiveAvgPool((2, None)), IMAGES),
    "Flatten": (nn.Flatten(), IMAGES),
    "Upsample": (nn.Upsample(scale_factor=2, mode="linear"), IMAGES),
    "MultiHeadAttention": (nn.MultiHeadAttention(KEY, 2, 4, dtype="f64"), STEPS),
}


LINEAR = LAYERS["Linear"][0]


def adapted(lora, x):
    """Differences would see the frozen layer change, so it is a constant."""
    return dlvm.tree.at(lambda lora: lora.layer, lora, LINEAR)(x)


LORA = nn.LoRA(KEY, LINEAR, 2, alpha=3.0)
LORA.lora_b = (RNG.normal(size=(2, 5)),)
VECTORS = nn.SpectralNorm(LINEAR).init()
LAYERS["LoRA"] = (LORA, ROWS, adapted)
LAYERS["Recompute"] = (nn.Recompute(LAYERS["MLP"][0]), ROWS)
LAYERS["WeightNorm"] = (nn.WeightNorm(LINEAR), ROWS)
LAYERS["SpectralNorm"] = (
    nn.SpectralNorm(LINEAR),
    ROWS,
    lambda norm, x: norm(x, VECTORS, training=False),
)
LAYERS["TransformerEncoderLayer"] = (
    nn.TransformerEncoderLayer(KEY, 4, 2, 3, 0.0, norm_first=True, dtype="f64"),
    STEPS,
)
LAYERS["TransformerDecoderLayer"] = (
    nn.TransformerDecoderLayer(KEY, 4, 2, 3, 0.0, dtype="f64"),
    STEPS,
    lambda layer, x: layer(x, x[:, ::-1], is_causal=True),
)
LEARNS = [name for name, (layer, *_) in LAYERS.items() if dlvm.tree.leaves(layer)]
"""Those that have parameters."""


def case(name: str):
    """A layer, its input, and a function of both that gives one array."""
    layer, x, *how = LAYERS[name]

    def run(layer, x):
        found = how[0](layer, x) if how else layer(x)
        return found[0] if isinstance(found, tuple) else found

    return layer, x, run


def test_each_class_of_the_package_is_a_case():
    classes = {n for n in nn.__all__ if isinstance(getattr(nn, n), type)}
    assert classes == {name.partition(" ")[0] for name in LAYERS} | set(ACTIVATIONS)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", LAYERS)
def test_staged_is_unstaged_and_the_gradient_has_the_structure_of_the_layer(name: str):
    layer, x, run = case(name)
    np.testing.assert_allclose(dlvm.function(run)(layer, x), run(layer, x), rtol=1e-11, atol=1e-13)
    if name not in LEARNS:
        return
    slope = dlvm.grad(lambda layer, x: (run(layer, x) ** 2).sum())(layer, x)
    assert type(slope) is type(layer)
    assert dlvm.tree.structure(slope) == dlvm.tree.structure(layer)
    moved = dlvm.tree.map(lambda p, d: p - 0.1 * d, layer, slope)
    assert run(moved, x).shape == run(layer, x).shape


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", LAYERS)
def test_derivatives_to_second_order_are_those_of_differences(name: str, monkeypatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    layer, x, run = case(name)
    gradcheck(run, layer, x, order=2, elements=1 if name in LEARNS else 4)


@pytest.mark.parametrize("name", LEARNS)
def test_parameters_own_their_memory_so_that_they_can_be_donated(name: str):
    layer, _, _ = case(name)
    assert [leaf.shape for leaf in dlvm.tree.leaves(layer) if leaf.base is not None] == []


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", LEARNS)
def test_a_donated_layer_is_stepped_in_place(name: str):
    layer, x, run = case(name)

    def step(layer, x):
        slope = dlvm.grad(lambda layer: (run(layer, x) ** 2).sum())(layer)
        return dlvm.tree.map(lambda p, d: p - 0.01 * d, layer, slope)

    expected = dlvm.function(step)(layer, x)
    layer, stepped = dlvm.tree.map(np.copy, layer), dlvm.function(step, donate=("layer",))
    before = [leaf.ctypes.data for leaf in dlvm.tree.leaves(layer)]
    layer = stepped(layer, x)
    for a, b in zip(dlvm.tree.leaves(layer), dlvm.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
    assert [leaf.ctypes.data for leaf in dlvm.tree.leaves(layer)] == before


CAPTURING = ("Embedding", "EmbeddingBag", "BatchNorm", "Dropout", "LoRA", "SpectralNorm")


@pytest.mark.parametrize("name", [n for n in LAYERS if n not in CAPTURING])
def test_the_number_of_examples_may_be_open(name: str):
    layer, x, run = case(name)
    spec = dlvm.spec(f"f64[{','.join(['B', *map(str, x.shape[1:])])}]")
    sizes = dlvm.tree.map(lambda p: dlvm.spec(f"f64[{','.join(map(str, p.shape))}]"), layer)
    if name == "Sequential":
        sizes.layers[3].scale = sizes.layers[3].bias = dlvm.spec("f32[5]")
    module = dlvm.trace(run, sizes, spec)
    captured = [KEY] if name == "Sequential" else []
    (found,) = module.run(module.main.name, *dlvm.tree.leaves((layer, x)), *captured)
    np.testing.assert_allclose(found, run(layer, x), rtol=1e-11, atol=1e-13)


def test_an_ensemble_is_a_batch_of_layers():
    nets = [nn.MLP(dlvm.random.key(i), (4, 5, 2)) for i in range(3)]
    stacked = dlvm.tree.map(lambda *leaves: np.stack(leaves), *nets)
    found = dlvm.vmap(lambda net, x: net(x), in_axes=(0, None))(stacked, ROWS)
    for i, net in enumerate(nets):
        np.testing.assert_allclose(found[i], net(ROWS), rtol=1e-6)


def test_layers_may_be_made_in_a_staged_function():
    made = dlvm.function(lambda key: nn.Linear(key, 3, 2))(KEY)
    plain = nn.Linear(KEY, 3, 2)
    for a, b in zip(dlvm.tree.leaves(made), dlvm.tree.leaves(plain), strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_configuration_is_compiled_in_and_parameters_are_not():
    run = dlvm.function(lambda net, x: net(x))
    for eps in (1e-5, 1.0):
        norm = nn.LayerNorm(4, eps=eps, dtype="f64")
        expected = (ROWS - ROWS.mean(1, keepdims=True)) / np.sqrt(ROWS.var(1, keepdims=True) + eps)
        np.testing.assert_allclose(run(norm, ROWS), expected, rtol=1e-11)
    for activation in (nn.relu, np.tanh):
        net = nn.MLP(KEY, (4, 4, 4), activation, dtype="f64")
        first, last = net.layers
        np.testing.assert_allclose(run(net, ROWS), last(activation(first(ROWS))), rtol=1e-11)


def test_layers_that_need_keys_get_their_own_each_and_none_outside_of_training():
    net = nn.Sequential([nn.Dropout(0.5), nn.Sequential([nn.Dropout(0.5)]), nn.relu])
    x = np.ones((100, 100))
    found = net(x, KEY)
    assert abs((found == 0).mean() - 0.75) < 0.02
    assert np.array_equal(net(x, KEY), found) and not np.array_equal(net(x, KEY + 1), found)
    assert np.array_equal(net(x, training=False), x)
    with pytest.raises(UserError, match="expected a key in training"):
        net(x)


def test_a_sequence_of_layers_keeps_the_states_of_those_that_have_one():
    norm, lstm = nn.BatchNorm(4, dtype="f64"), nn.LSTM(KEY, 4, 3, dtype="f64")
    inner = nn.Sequential([nn.Dropout(0.0), norm])
    net = nn.Sequential([inner, nn.relu, lstm, nn.Linear(KEY, 3, 2, dtype="f64")])
    state = net.init()
    assert state[1] is None and np.array_equal(state[0][0][1], np.ones(4))
    run = dlvm.function(lambda net, x, state: net(x, KEY, state=state))
    y, state = run(net, STEPS, state)
    rows, stats = norm(STEPS, norm.init())
    hidden, end = lstm(nn.relu(rows))
    np.testing.assert_allclose(y, net.layers[3](hidden), rtol=1e-11)
    np.testing.assert_allclose(state[0][0], stats, rtol=1e-11)
    np.testing.assert_allclose(state[1], end, rtol=1e-11)
    again, kept = net(STEPS, training=False, state=state)
    expected, _ = lstm(nn.relu(norm(STEPS, stats, training=False)[0]), end)
    np.testing.assert_allclose(again, net.layers[3](expected), rtol=1e-11)
    assert np.array_equal(kept[0], state[0])
    with pytest.raises(UserError, match="a tuple of 2 states"):
        net(STEPS, KEY, state=state[:1])


def test_running_statistics_come_back_and_are_used_afterwards():
    norm = nn.BatchNorm(2, momentum=0.5, dtype="f64")
    x = RNG.normal(size=(50, 2)) * [2.0, 3.0] + [5.0, -1.0]
    state = norm.init()
    train = dlvm.function(lambda norm, x, state: norm(x, state))
    for _ in range(60):
        y, state = train(norm, x, state)
    np.testing.assert_allclose(y.std(0), 1, rtol=1e-4)
    np.testing.assert_allclose(state[0], x.mean(0), rtol=1e-12)
    np.testing.assert_allclose(state[1], x.var(0, ddof=1), rtol=1e-12)
    found, same = norm(x[:1], state, training=False)
    expected = (x[:1] - x.mean(0)) / np.sqrt(x.var(0, ddof=1) + 1e-5)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.array_equal(same, state)


def test_a_network_that_is_captured_is_read_at_each_call():
    net = nn.Sequential([nn.Linear(KEY, 4, 3, dtype="f64"), nn.relu, nn.LayerNorm(3, dtype="f64")])
    block = {"lstm": nn.LSTM(KEY, 3, 2, dtype="f64"), "out": nn.MLP(KEY, (2, 2), dtype="f64")}
    run = dlvm.function(lambda x: block["out"](block["lstm"](net(x))[0]))
    changes = (
        lambda: setattr(net.layers[0], "weight", -2 * net.layers[0].weight),
        lambda: net.layers[0].bias.__imul__(3.0),
        lambda: setattr(net.layers[2], "eps", 1.0),
        lambda: setattr(block["lstm"], "b_hh", block["lstm"].b_hh + 1),
        lambda: setattr(block["out"].layers[0], "weight", np.eye(2)),
        lambda: block.update(out=nn.Lambda(np.negative)),
    )
    last = None
    for change in changes:
        change()
        found = run(STEPS)
        expected = block["out"](block["lstm"](net(STEPS))[0])
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)
        assert last is None or not np.allclose(found, last)
        last = found


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_copied_and_pickled_as_any_object(name: str):
    layer, x, run = case(name)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert dlvm.tree.structure(other) == dlvm.tree.structure(layer)
        assert np.array_equal(run(other, x), run(layer, x))


def test_a_sequence_is_learnt_by_gradient_descent():
    """The sum of a sequence so far, by an LSTM and a linear layer."""
    xs = RNG.uniform(-1, 1, size=(64, 8, 1)).astype("f4")
    target = xs.cumsum(1)
    net = {"lstm": nn.LSTM(KEY, 1, 16), "out": nn.Linear(dlvm.random.key(2), 16, 1)}

    def loss(net):
        return nn.mse_loss(net["out"](net["lstm"](xs)[0]), target, reduction="mean")

    @dlvm.function(donate=("net",))
    def step(net):
        value, slope = dlvm.value_and_grad(loss)(net)
        return dlvm.tree.map(lambda p, d: p - 0.3 * d, net, slope), value

    net, first = step(net)
    for _ in range(300):
        net, value = step(net)
    assert value < 0.1 * first
