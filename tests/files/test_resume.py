"""A run that goes on from a file gives the same bits as one that was never interrupted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm import optim

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


RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 6)).astype(np.float32)
Y = np.tanh(X @ np.array([1.0, -2.0, 0.5, 0.0, 1.0, 3.0], np.float32))
OPTIMIZER = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.05))


class Run:
    """A run on so many ranks, which are given the same four pieces of each batch."""

    def __init__(self, ranks: int) -> None:
        self.mesh = dlvm.mesh({"data": ranks}, simulate=ranks, pieces={"data": 4})

        @dlvm.function(mesh=self.mesh)
        def step(params: Any, state: Any, key: Any, batch: Any) -> Any:
            def loss(p: Any) -> Any:
                x, y = batch
                h = dlvm.tanh(x @ p["w"] + p["b"]) * dlvm.random.bernoulli(key, 0.8, (12, 8))
                return ((h @ p["v"] - y) ** 2).mean()

            updates, state = OPTIMIZER.update(dlvm.grad(loss)(params), state, params)
            return optim.apply(params, updates), state

        self.step = step

    def fresh(self) -> Any:
        a, b = dlvm.random.split(dlvm.random.key(0))
        params = {
            "w": dlvm.random.normal(a, (6, 8), "f32"),
            "v": dlvm.random.normal(b, (8,), "f32"),
            "b": np.zeros(8, np.float32),
        }
        tree = {"params": params, "state": OPTIMIZER.init(params), "key": b}
        return dlvm.shard(
            tree, lambda path, x: ("data", ...) if path[-1] in "wv" else None, mesh=self.mesh
        )

    def trained(self, start: int, tree: Any, last: int) -> Any:
        rows = dlvm.batches(
            (X, Y), 12, KEY, 9, start=start, last="drop", augment=noisy, mesh=self.mesh
        )
        for n, batch in zip(range(start, last), rows, strict=False):
            key = dlvm.random.fold_in(tree["key"], n)
            params, state = self.step(tree["params"], tree["state"], key, batch)
            tree = {"params": params, "state": state, "key": tree["key"]}
        return tree


KEY = dlvm.random.key(7)


def noisy(batch: Any, key: Any) -> Any:
    return batch[0] + 0.01 * dlvm.random.normal(key, batch[0].shape, "f32"), batch[1]


def test_a_run_resumed_on_fewer_ranks_gives_the_same_bits(tmp_path: Path):
    """Of the same pieces, in the second epoch, from a state that four ranks wrote."""
    four, two, runs = Run(4), Run(2), dlvm.states(tmp_path)
    tree = four.trained(0, four.fresh(), 4)
    runs.save(4, tree)
    undisturbed = four.trained(4, tree, 6)
    start, tree = runs.restore(two.fresh(), mesh=two.mesh)
    assert start == 4 and tree["params"]["b"].spec == ("data",)  # as a step left it, not as in like
    resumed = two.trained(start, tree, 6)
    for x, y in zip(*map(dlvm.tree.leaves, (resumed, undisturbed)), strict=True):
        assert type(x) is type(y) and np.asarray(x).tobytes() == np.asarray(y).tobytes()
    assert not np.array_equal(resumed["params"]["w"].whole(), tree["params"]["w"].whole())
