"""Written functions give the bits of those that run here, and touch no memory but their own."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn

from .running import Failed, Loaded

rng = np.random.default_rng(0)


def f32(*shape):
    return (rng.normal(size=shape) * 0.3).astype(np.float32)


W1, B1, W2, B2 = f32(64, 128), f32(128), f32(128, 10), f32(10)


def mlp(x):
    return nn.softmax(dlvm.maximum(x @ W1 + B1, 0) @ W2 + B2, axis=1)


def step(w, b, x, y, rate):
    def loss(w, b):
        return ((dlvm.tanh(x @ w + b) - y) ** 2).mean()

    value, (dw, db) = dlvm.value_and_grad(loss, wrt=("w", "b"))(w, b)
    return w - rate * dw, b - rate * db, value


@pytest.mark.parametrize("misaligned", [0, 1])
def test_a_network_with_its_weights(misaligned):
    x = f32(32, 64)
    loaded = Loaded(dlvm.aot(mlp, x), "host")
    found = loaded(x, misaligned=misaligned)["result"]
    assert found.tobytes() == np.asarray(dlvm.function(mlp)(x)).tobytes()


def test_a_training_step_overwrites_its_state():
    w, b, x, y = f32(8, 3), f32(3), f32(16, 8), f32(16, 3)
    staged = dlvm.function(step, donate=("w", "b"))
    loaded = Loaded(dlvm.aot(staged, w, b, x, y, 0.1), "host")
    roles = {a["name"]: (a["role"], a["by"]) for a in loaded.said["arguments"]}
    assert roles["w"] == roles["b"] == ("state", "pointer") and roles["rate"][1] == "value"
    state = [loaded.state(a) for a in loaded.said["arguments"][:2]]
    expected = (w, b)
    for _ in range(3):
        found = loaded(*state, x, y, 0.1)
        state = found["w"], found["b"]
        *expected, value = dlvm.function(step)(*expected, x, y, 0.1)
        for ours, theirs in zip((*state, found["result_2"]), (*expected, value), strict=True):
            assert ours.tobytes() == np.asarray(theirs).tobytes()


def test_open_sizes_ask_how_much_scratch():
    loaded = Loaded(dlvm.aot(mlp, dlvm.spec("f32[B,64]"), name="net"), "host")
    for rows in (0, 1, 7, 300):
        x = f32(rows, 64)
        found = loaded(x, B=rows)["result"]
        assert found.tobytes() == np.asarray(dlvm.function(mlp)(x)).tobytes()


def test_a_failed_call_says_where():
    def pick(x, i):
        return x[i]

    x = f32(5)
    loaded = Loaded(dlvm.aot(pick, x, 2), "host")
    assert loaded(x, 3)["result"] == x[3]
    with pytest.raises(
        Failed, match=r"test_bundle.py:\d+: an index is out of range: return x\[i\]"
    ):
        loaded(x, 5)
