"""A training run on the ranks of a mesh that goes on after it was interrupted.

dlvm launch --ranks 1:2 examples/ranks.py run

The folder keeps the states of the run. A run that a kill interrupts at some step, and that goes on
with fewer ranks, ends with the same bits as one that nothing disturbed: the batch is cut into four
pieces on any number of ranks. ``--kill 12`` shows it: at the first start a rank kills itself there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
from typing import Any

import numpy as np

import dlvm

mesh = dlvm.mesh({"data": -1}, pieces={"data": 4})


def loss(p: Any, x: Any, y: Any) -> Any:
    return ((dlvm.tanh(x @ p["w1"]) @ p["w2"] - y) ** 2).mean()


@dlvm.function(mesh=mesh)
def step(p: Any, x: Any, y: Any) -> Any:
    value, slopes = dlvm.value_and_grad(loss)(p, x, y)
    return dlvm.tree.map(lambda w, s: w - 0.1 * s, p, slopes), value


def main(folder: str, steps: int, kill: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(64, 8)), rng.normal(size=(64, 3))
    fresh = {"w1": rng.normal(size=(8, 16)), "w2": rng.normal(size=(16, 3))}
    runs = dlvm.states(folder)
    start, p = runs.restore(fresh, mesh=mesh)
    batches = dlvm.batches(rows, 16, dlvm.random.key(7), epochs=steps, start=start, mesh=mesh)
    value: Any = 0.0
    for number, (x, y) in zip(range(start + 1, steps + 1), batches, strict=False):
        if number == kill and start == 0 and mesh.rank == mesh.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        p, value = step(p, x, y)
        leave = runs.preempted()
        if leave or number % 5 == 0:
            runs.save(number, p)
        if leave:
            return
    bits = hashlib.sha256(np.asarray(p["w1"]).tobytes()).hexdigest()[:16]
    if mesh.rank == 0:
        print(f"ranks {mesh.size}, from step {start}: loss {float(value):.6f}, weights {bits}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--kill", type=int, default=0)
    told = parser.parse_args()
    main(told.folder, told.steps, told.kill)
