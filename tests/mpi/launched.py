"""What one rank does to the others; run by ``dlvm launch`` with the name of the deed."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

import dlvm


def main(deed: str) -> None:
    mesh = dlvm.mesh({"data": -1})
    sys.stdout.write(f"{mesh.rank} of {mesh.size} does {deed}\n")
    sys.stdout.flush()
    dlvm.shard(np.arange(4.0), "data", mesh=mesh).whole()  # all have written
    if mesh.size == 2 and mesh.rank == 1:
        if deed == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if deed == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(3)
    dlvm.shard(np.arange(4.0), "data", mesh=mesh).whole()


if __name__ == "__main__":
    main(sys.argv[1])
