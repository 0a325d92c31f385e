"""Layers of transformers against their formulas in NumPy, and attention with a cache."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.base.errors import ArgumentError, UserError

KEY = dlvm.random.key(8)
RNG = np.random.default_rng(2)
X, MEMORY = RNG.normal(size=(2, 5, 6)), RNG.normal(size=(2, 4, 6))


def attention(layer, x, y, seen):
    q = np.einsum("bte,enh->bnth", x, layer.query["kernel"]) + layer.query["bias"][:, None]
    k = np.einsum("bse,enh->bnsh", y, layer.key["kernel"]) + layer.key["bias"][:, None]
    v = np.einsum("bse,enh->bnsh", y, layer.value["kernel"]) + layer.value["bias"][:, None]
    scores = np.where(seen, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True)
    return np.einsum("bnth,nhe->bte", weights @ v, layer.out["kernel"]) + layer.out["bias"]


def normed(layer, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + layer.eps) * layer.scale + layer.bias


def perceptron(layer, x):
    hidden = np.maximum(x @ layer.linear1.weight + layer.linear1.bias, 0)
    return hidden @ layer.linear2.weight + layer.linear2.bias


EARLIER = np.tril(np.ones((5, 5), bool))


@pytest.mark.parametrize("first", [False, True])
def test_an_encoder_layer_is_attention_and_a_perceptron_added_to_the_rows(first):
    layer = nn.TransformerEncoderLayer(KEY, 6, 2, 7, norm_first=first, dtype="f64")
    x = X
    for norm, part in (
        (layer.norm1, lambda x: attention(layer.attention, x, x, EARLIER)),
        (layer.norm2, lambda x: perceptron(layer, x)),
    ):
        x = x + part(normed(norm, x)) if first else normed(norm, x + part(x))
    run = dlvm.function(lambda layer, x: layer(x, training=False, is_causal=True))
    for found in (run(layer, X), layer(X, training=False, mask=EARLIER)):
        np.testing.assert_allclose(found, x, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("first", [False, True])
def test_a_decoder_layer_sees_the_memory_as_well(first):
    layer = nn.TransformerDecoderLayer(KEY, 6, 2, 7, norm_first=first, dtype="f64")
    seen = np.array([True, True, False, True])
    x = X
    for norm, part in (
        (layer.norm1, lambda x: attention(layer.attention, x, x, EARLIER)),
        (layer.norm2, lambda x: attention(layer.memory, x, MEMORY, seen)),
        (layer.norm3, lambda x: perceptron(layer, x)),
    ):
        x = x + part(normed(norm, x)) if first else normed(norm, x + part(x))
    found = layer(X, MEMORY, training=False, memory_mask=seen, is_causal=True)
    np.testing.assert_allclose(found, x, rtol=1e-10, atol=1e-12)


def test_training_drops_and_needs_a_key():
    layer = nn.TransformerEncoderLayer(KEY, 6, 2, 7, 0.5)
    x = X.astype("f4")
    net = nn.Sequential([layer, layer])
    assert not np.array_equal(net(x, KEY), net(x, KEY + 1))
    assert np.array_equal(net(x, KEY), net(x, KEY))
    with pytest.raises(UserError, match="expected a key in training"):
        layer(x)
    halved = dlvm.tree.map(lambda p: p.astype("f2"), layer)
    assert halved(x.astype("f2"), training=False).dtype == np.float16
    assert layer(x[:0], training=False).shape == (0, 5, 6)
    found = dlvm.vmap(lambda x: layer(x, training=False))(x)
    np.testing.assert_allclose(found, layer(x, training=False), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options", [{}, {"rotary": True, "num_kv_heads": 1}, {"local_window_size": (2, 0)}]
)
def test_a_cache_gives_step_by_step_what_all_rows_give_at_once(options):
    layer = nn.MultiHeadAttention(KEY, 3, 6, dtype="f64", **options)
    whole = layer(X, is_causal=True)
    cache = layer.init_cache(2, 7)
    step = dlvm.function(lambda layer, x, cache: layer(x, cache=cache))
    first, cache = step(layer, X[:, :2], cache)
    rows = [first]
    for t in range(2, 5):
        y, cache = step(layer, X[:, t : t + 1], cache)
        rows.append(y)
    np.testing.assert_allclose(np.concatenate(rows, 1), whole, rtol=1e-11, atol=1e-12)
    assert cache["index"] == 5 and not cache["key"][:, 5:].any()
    assert cache["key"].shape == (2, 7, options.get("num_kv_heads", 3), 2)


def test_a_layer_with_a_local_window_sees_no_further():
    layer = nn.MultiHeadAttention(KEY, 3, 6, dtype="f64", local_window_size=1)
    changed = X.copy()
    changed[:, 0] += 1
    same = np.isclose(layer(X), layer(changed)).all((0, 2))
    assert same.tolist() == [False, False, True, True, True]


def test_rotary_attention_depends_on_distances():
    layer = nn.MultiHeadAttention(KEY, 3, 6, rotary=True, dtype="f64")
    plain = nn.MultiHeadAttention(KEY, 3, 6, dtype="f64")
    swapped = X[:, [1, 0, 2, 3, 4]]
    assert np.allclose(plain(X)[:, 2:], plain(swapped)[:, 2:])
    assert not np.allclose(layer(X)[:, 2:], layer(swapped)[:, 2:])
    q = nn.rotary(np.einsum("bte,enh->btnh", X, layer.query["kernel"]), np.arange(5))
    k = nn.rotary(np.einsum("bte,enh->btnh", X, layer.key["kernel"]), np.arange(5))
    v = np.einsum("bte,enh->btnh", X, layer.value["kernel"])
    expected = np.einsum("btnh,nhe->bte", nn.dot_product_attention(q, k, v), layer.out["kernel"])
    np.testing.assert_allclose(layer(X), expected, rtol=1e-11, atol=1e-12)


def test_what_is_no_cache_is_refused():
    layer = nn.MultiHeadAttention(KEY, 3, 6)
    with pytest.raises(ArgumentError, match="a key, a value and an index"):
        layer(X, cache={"k": X})
    with pytest.raises(UserError, match="can't share 2"):
        nn.MultiHeadAttention(KEY, 3, 6, num_kv_heads=2)
    cache = layer.init_cache(2, 4)
    with pytest.raises(IndexError):
        layer(X, cache=cache)
