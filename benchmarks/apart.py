"""The peer that lives in an environment of its own: numba, which needs another llvmlite.

Run by that environment's Python, this file knows nothing of dlvm: it reads the arguments of a case,
computes once, and then runs as often as it is asked to and says how long that took.
Imported by ``peers``, it starts that process. Loops are written by hand, as numba's users do.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PYTHON = Path(__file__).parents[1] / ".venv" / "numba" / "bin" / "python"
prange: Any = range
"""Loops whose trips are independent; numba's own word in the process that it compiles in."""


def chain(x: Any, y: Any) -> Any:
    out = np.empty_like(x)
    half, one = np.float32(0.5), np.float32(1)
    for i in prange(x.size):
        out[i] = math.tanh(x[i] * y[i] + half) * (one / (one + math.exp(-x[i]))) + y[i]
    return out


def softmax(x: Any) -> Any:
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        top, total = x[i].max(), np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = math.exp(x[i, j] - top)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


def logsumexp(x: Any) -> Any:
    out = np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        top, total = x[i].max(), np.float32(0)
        for j in range(x.shape[1]):
            total += math.exp(x[i, j] - top)
        out[i] = math.log(total) + top
    return out


def layer_norm(x: Any, residual: Any, scale: Any, shift: Any) -> Any:
    out, n = np.empty_like(x), np.float32(x.shape[1])
    for i in prange(x.shape[0]):
        mean, variance = np.float32(0), np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] + residual[i, j]
            mean += out[i, j]
        mean /= n
        for j in range(x.shape[1]):
            out[i, j] -= mean
            variance += out[i, j] * out[i, j]
        by = np.float32(1) / math.sqrt(variance / n + np.float32(1e-5))
        for j in range(x.shape[1]):
            out[i, j] = out[i, j] * by * scale[j] + shift[j]
    return out


PROGRAMS: dict[str, Callable[..., Any]] = {
    "element-wise chain": chain,
    "softmax of rows": softmax,
    "logsumexp of rows": logsumexp,
    "layer norm": layer_norm,
}
"""What is raced, by the name of the case."""


class Apart:
    """A case that the other process runs; it is timed there."""

    def __init__(self, name: str, arguments: Sequence[Any], threads: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        place = Path(self.folder.name)
        np.savez(place / "given.npz", *arguments)
        command = [str(PYTHON), __file__, str(threads), name, str(place)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.timed(1)
        self.result = np.load(place / "found.npy")

    def __call__(self) -> Any:
        self.timed(1)
        return self.result

    def timed(self, times: int) -> float:
        """The seconds of so many runs."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End the process, and take away its files."""
        self.process.kill()
        self.process.communicate()
        self.folder.cleanup()

    def __del__(self) -> None:
        self.close()


def serve(threads: int, name: str, place: Path) -> None:
    """The other process: one case, and numbers of runs until nobody asks."""
    import numba

    global prange
    prange = numba.prange
    jit: Any = numba.njit(parallel=threads > 1)
    program = jit(PROGRAMS[name])
    with np.load(place / "given.npz") as given:
        arguments = [given[f"arr_{i}"] for i in range(len(given.files))]
    np.save(place / "found.npy", program(*arguments))
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            program(*arguments)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
