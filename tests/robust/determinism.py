"""The same program gives the same text at every stop, the same machine code and the same bits.

python -m tests.robust.determinism [--short]

Over runs, processes, seeds of hashes, threads, what ran before, and a cache that is empty or full.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

import dlvm
from dlvm.compile import STAGES

from .script import demand, run

THREADS = (1, 2, 3, 7)
SHORT = ("open", "recurrent")
SHORT_THREADS = (1, 3)


def loss(params: Any, x: Any, y: Any) -> Any:
    """A network with what sums in trees: products, softmax rows, means."""
    h = dlvm.tanh(x @ params["w"] + params["b"])
    return dlvm.nn.cross_entropy(h @ params["v"], y).mean()


def recurrent(w: Any, x: Any) -> Any:
    """A loop whose state goes through a product."""
    return dlvm.scan(lambda c, row: (dlvm.tanh(c @ w + row), c.sum()), 0 * x[0], x)


def statistics(x: Any) -> Any:
    """Reductions of long rows and columns, a sort and a running sum."""
    return x.sum(), x.mean(0), x.var(1), dlvm.sort(x), dlvm.cumulative_sum(x, axis=0)


def programs(threads: int) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Functions with arguments."""
    rng = np.random.default_rng(5)

    def normal(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    params = {"w": normal(65, 130), "b": normal(130), "v": normal(130, 10)}
    y = rng.integers(0, 10, 257)
    options = {"threads": threads}
    return {
        "training": (
            dlvm.function(dlvm.value_and_grad(loss), **options),
            (params, normal(257, 65), y),
        ),
        "open": (
            dlvm.function(dlvm.grad(loss), dynamic={"x": "B,65", "y": "B"}, **options),
            (params, normal(257, 65), y),
        ),
        "recurrent": (dlvm.function(recurrent, **options), (normal(40, 40), normal(50, 9, 40))),
        "statistics": (dlvm.function(statistics, **options), (normal(300, 1000),)),
    }


def digests(threads: int, short: bool) -> dict[str, str]:
    """What each stop of each program and its results are, in few letters."""
    out: dict[str, str] = {}
    for name, (f, args) in programs(threads).items():
        if short and name not in SHORT:
            continue
        compiled = f.compile(*args)
        for stage in STAGES:
            out[f"{name} {stage}"] = _short(compiled.text(stage).encode())
        for _ in range(2):
            leaves = dlvm.tree.leaves(f(*args))
            bits = b"".join(np.asarray(a).tobytes() for a in leaves)
            found = out.setdefault(f"{name} bits", _short(bits))
            demand(found == _short(bits), f"{name}: other bits in a second call")
    return out


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def in_process(short: bool, **environment: str) -> dict[str, str]:
    """The same from a process of its own."""
    own = {**os.environ, **environment}
    command = [sys.executable, "-m", "tests.robust.determinism", "--child", str(int(short))]
    done = subprocess.run(command, capture_output=True, text=True, env=own, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def same(first: Mapping[str, str], other: Mapping[str, str], what: str) -> None:
    """Demand that two runs gave the same."""
    different = [key for key in first if first[key] != other[key]]
    demand(not different and len(first) == len(other), f"{what}: differ in {different}")


def over_processes(short: bool) -> str:
    """Seeds of hashes, and a cache that is off, empty and full."""
    with tempfile.TemporaryDirectory() as folder:
        first = in_process(short, PYTHONHASHSEED="0", DLVM_CACHE="0")
        caches = {"DLVM_CACHE": "0"}, {"DLVM_CACHE": "1", "DLVM_CACHE_DIR": folder}
        for seed in ("random",) if short else ("1", "2", "77", "random", "random"):
            for where in caches[1:] if short else caches:
                found = in_process(short, PYTHONHASHSEED=seed, **where)
                same(first, found, f"seed {seed} with {where}")
    return f"{len(first)} texts and results, the same bits in every process"


def over_threads(short: bool) -> str:
    """Threads change no bit of results, and nothing of any text."""
    every = SHORT_THREADS if short else THREADS
    found = {threads: digests(threads, short) for threads in every}
    for threads in every[1:]:
        same(found[1], found[threads], f"{threads} threads")
    return f"{len(found[1])} texts and results, the same bits on {every} threads"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(digests(2, sys.argv[2] == "1")))
        sys.exit(0)
    sys.exit(run(__doc__, over_processes, over_threads))
