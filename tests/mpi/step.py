"""A training step on a mesh of all ranks, beside the same step on one device: run by mpiexec."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import dlvm


def loss(p: Any, x: Any, y: Any) -> Any:
    return ((dlvm.tanh(x @ p["w1"]) @ p["w2"] - y) ** 2).mean()


def step(p: Any, x: Any, y: Any) -> Any:
    value, slopes = dlvm.value_and_grad(loss)(p, x, y)
    return dlvm.tree.map(lambda w, s: w - 0.1 * s, p, slopes), value


def main(pieces: int) -> None:
    axes = {"data": -1}
    mesh = dlvm.mesh(axes, pieces={"data": pieces}) if pieces else dlvm.mesh(axes)
    rng = np.random.default_rng(0)
    p = {"w1": rng.normal(size=(6, 16)), "w2": rng.normal(size=(16, 3))}
    x, y = rng.normal(size=(13, 6)), rng.normal(size=(13, 3))
    staged = dlvm.function(step, mesh=mesh)
    shared = [dlvm.shard(v, "data", None, mesh=mesh) for v in (x, y)]
    own = mesh.from_local(shared[0].local, "data", None)
    assert own.shape == x.shape and (own.whole() == x).all()
    # weights in pieces along their first axis: gathers, swaps and sums that are cut
    cut = {n: dlvm.shard(w, "data", None, mesh=mesh) for n, w in p.items()}
    for weights in (p, cut):
        found, value = staged(weights, *shared)
        wanted, right = step(p, x, y)
        np.testing.assert_allclose(value, right, rtol=1e-12)
        for name, w in wanted.items():
            np.testing.assert_allclose(np.asarray(found[name]), w, rtol=1e-12, atol=1e-12)
        assert not staged.explain().calls
    bits = np.asarray(found["w1"]).tobytes().hex()  # all ranks ask for the whole
    if mesh.rank == 0:
        print(f"{mesh.size} ranks: {bits}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
