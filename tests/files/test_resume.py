"""A run that goes on from a file gives the same bits as one that was never interrupted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dlvm

from .trees import assert_equal_bits

PROGRAM = """
import sys
import numpy as np
import dlvm
from dlvm import optim

rng = np.random.default_rng(0)
x = rng.normal(size=(40, 3)).astype(np.float32)
y = np.tanh(x @ np.array([1.0, -2.0, 0.5], np.float32))
optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.05))


@dlvm.function(donate=("params", "state"))
def step(params, state, key, batch):
    def loss(p):
        x, y = batch
        h = dlvm.tanh(x @ p["layers"][0] + p["b"].astype("f32"))
        h = h * dlvm.random.bernoulli(key, 0.8, h.shape)
        return ((h @ p["layers"][1] - y) ** 2).mean()

    value, grads = dlvm.value_and_grad(loss)(params)
    updates, state = optimizer.update(grads, state, params)
    return optim.apply(params, updates), state, value


def fresh():
    a, b = dlvm.random.split(dlvm.random.key(0))
    params = {
        "layers": [dlvm.random.normal(a, (3, 8), "f32"), dlvm.random.normal(b, (8,), "f32")],
        "b": np.zeros(8, dlvm.bfloat16),
    }
    return {"params": params, "state": optimizer.init(params), "key": b, "step": 0}


def run(at, steps):
    shuffled = dlvm.batches((x, y), 16, dlvm.random.key(7), epochs=100, start=at["step"])
    params, state, key, n = at["params"], at["state"], at["key"], at["step"]
    for batch, _ in zip(shuffled, range(steps)):
        now = dlvm.random.fold_in(key, n)
        params, state, _ = step(params, state, now, batch)
        n += 1
    return {"params": params, "state": state, "key": key, "step": n}


do, path, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
start = fresh() if do == "start" else dlvm.load(path, like=fresh())
dlvm.save(path, run(start, steps))
"""


def process(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_run_resumed_in_a_fresh_process_gives_the_same_bits(tmp_path: Path):
    whole, cut = str(tmp_path / "whole"), str(tmp_path / "cut")
    process("start", whole, "13")
    process("start", cut, "5")
    assert int(dlvm.load(cut)["step"]) == 5
    process("resume", cut, "8")
    expected = dlvm.load(whole)
    assert {"step", "key", "params.layers.0", "params.b"} < expected.keys()
    assert any(name.startswith("state.") for name in expected) and expected["step"] == 13
    assert_equal_bits(dlvm.load(cut), expected)
