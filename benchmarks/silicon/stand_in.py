"""Plays cases of a packed file on the stand-in for the driver's library, in place of a GPU.

python -m benchmarks.silicon.stand_in FILE MODE CASE ...

The driver of tests runs launches in the emulator; the code that asks it is that in the file.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.gen.gpu.standing_in import StandIn


def emulated(path: Path) -> StandIn:
    """The driver, which knows the kernels of a file by their PTX."""
    sys.path.insert(0, str(path))
    bundle: Any = importlib.import_module("played.recording").Bundle(path)
    stand_in = StandIn(room=1 << 33)
    for name in bundle.cases:
        told = json.loads(bundle.file.read(f"cases/{name}/emulated"))
        stand_in.kernels.known[bundle.code(name, "ptx")[:-1].decode()] = {
            kernel: SimpleNamespace(lanes=lanes, loops=SimpleNamespace(buffers=range(buffers)))
            for kernel, (lanes, buffers) in told.items()
        }
    return stand_in


def main(path: str, mode: str, *names: str) -> None:
    """Some cases in this process."""
    functions = emulated(Path(path))
    importlib.import_module("played.cases").play(functions, Path(path), mode, names, seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
