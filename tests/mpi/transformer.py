"""Steps of a block of a transformer on a mesh of all ranks, beside one device; by mpiexec."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import dlvm
from benchmarks.silicon.programs import transformer_step, weights

MEGATRON = {"query": 1, "key": 1, "value": 1, "out": 0, "up": 1, "down": 0}
"""Which axis of a matrix ranks share."""


def lies(path: Any, leaf: Any) -> Any:
    """Along which axes of the mesh a parameter lies."""
    name = str(path[-1])
    axes: list[Any] = [None] * leaf.ndim
    if name in MEGATRON:
        axes[MEGATRON[name]] = "model"
    return tuple(axes)


def main() -> None:
    mesh = dlvm.mesh({"model": -1})
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, 8, 32)).astype("f4") for _ in "xy")
    p = weights(32)
    step = dlvm.function(transformer_step, mesh=mesh)
    shared = dlvm.shard(p, lies, mesh=mesh)
    for _ in range(3):
        shared, value = step(shared, x, y)
        p, right = transformer_step(p, x, y)
    np.testing.assert_allclose(value, right, rtol=1e-4)
    whole = {name: np.asarray(w) for name, w in shared.items()}
    for name, w in p.items():
        np.testing.assert_allclose(whole[name], w, rtol=1e-3, atol=1e-5)
    bits = b"".join(whole[name].tobytes() for name in sorted(whole))
    assert shared["up"].spec == (None, "model")
    if mesh.rank == 0:
        print(f"{mesh.size} ranks: {hashlib.sha256(bits).hexdigest()[:16]}")


if __name__ == "__main__":
    main()
