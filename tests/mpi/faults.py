"""What goes wrong on one rank alone; run by mpiexec with the name of the fault."""

from __future__ import annotations

import sys
import time

import numpy as np

import dlvm


def main(fault: str) -> None:
    mesh = dlvm.mesh({"data": -1})
    x = dlvm.shard(np.arange(8.0), "data", mesh=mesh)
    if fault == "index":
        rows = np.array([0, 1, 99, 2]) if mesh.rank else np.array([0, 1, 2, 3])
        picked = dlvm.function(lambda x, i: dlvm.shard(x, "data").sum() + x[i].sum(), mesh=mesh)
        picked(np.arange(8.0), rows)
    elif fault == "other":
        scale = float(mesh.rank + 1)
        dlvm.function(lambda x: x.sum() * scale, mesh=mesh)(x)
    elif fault == "exit":
        if mesh.rank:
            sys.exit("rank 1 has had enough")
        x.whole()
    elif fault == "python":
        if mesh.rank:
            raise ValueError("only here")
        time.sleep(20)
    else:
        held = dlvm.function(lambda x: dlvm.assert_(x.sum() < 0, "positive"), mesh=mesh)
        try:
            held(x)
        except dlvm.errors.AssertionFailed as error:
            sys.stdout.write(f"rank {mesh.rank} goes on: {error.message}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
