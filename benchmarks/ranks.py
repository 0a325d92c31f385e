"""Ranks as processes: sums over them, and a training step on two beside one device.

    python -m benchmarks.ranks [--json ranks.json]

Sums of ours, which have one order, and of the library of MPI take turns, as do a step on all ranks
and the same step on one of them, and by PyTorch's DistributedDataParallel over Gloo where it is
installed, on one thread each; the least of some rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import dlvm

SIZES = (64, 16 << 10, 1 << 20, 16 << 20)
"""Bytes of an array that each rank has."""
ROUNDS = 31


def loss(p: Any, x: Any, y: Any) -> Any:
    return ((dlvm.tanh(dlvm.tanh(x @ p["w1"]) @ p["w2"]) @ p["w3"] - y) ** 2).mean()


def step(p: Any, x: Any, y: Any) -> Any:
    value, slopes = dlvm.value_and_grad(loss)(p, x, y)
    return dlvm.tree.map(lambda w, s: w - np.float32(0.1) * s, p, slopes), value


def sums(ranks: Any) -> dict[str, Any]:
    """Milliseconds of both sums."""
    meshes = [dlvm.mesh({"data": -1}, sums=how) for how in ("ordered", "library")]

    def total(x: Any) -> Any:
        return dlvm.shard(x, "data", None).sum(0)

    found: dict[str, Any] = {}
    for size in SIZES:
        own = np.random.default_rng(ranks.rank).normal(size=(1, size // 4)).astype("f4")
        xs = [m.from_local(own, "data", None) for m in meshes]
        calls = [partial(dlvm.function(total, mesh=m), x) for m, x in zip(meshes, xs, strict=True)]
        found[f"sum of {size:,} bytes"] = ratio(calls[0], calls[1], "ordered", "library")
    return found


def steps(ranks: Any, batch: int = 512) -> dict[str, Any]:
    """Milliseconds of a step on all ranks and on each of them alone."""
    rng = np.random.default_rng(0)
    sizes = {"w1": (256, 1024), "w2": (1024, 256), "w3": (256, 64)}
    p = {n: (rng.normal(size=s) / s[0] ** 0.5).astype("f4") for n, s in sizes.items()}
    x, y = (rng.normal(size=(batch, k)).astype("f4") for k in (256, 64))
    both = dlvm.function(step, mesh=ranks, threads=1)
    alone = dlvm.function(step, threads=1)
    shared = [dlvm.shard(v, "data", None, mesh=ranks) for v in (x, y)]
    ours = partial(both, p, *shared)
    found = {f"step of {batch} rows": ratio(ours, partial(alone, p, x, y), "ranks", "one device")}
    if (theirs := with_ddp(ranks, p, *(v.local for v in shared))) is not None:
        found["the same beside DDP over Gloo"] = ratio(ours, theirs, "ranks", "DDP")
    return found


def with_ddp(ranks: Any, p: Any, x: Any, y: Any) -> Callable[[], Any] | None:
    """The step by PyTorch's DistributedDataParallel, on the rows of this rank."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return None
    torch.set_num_threads(1)
    place = Path(tempfile.gettempdir()) / f"dlvm-gloo-{os.getppid()}"
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{place}", rank=ranks.rank, world_size=ranks.size
    )
    layers: list[Any] = []
    for w in p.values():
        layer = torch.nn.Linear(*w.shape, bias=False)
        layer.weight.data = torch.from_numpy(np.ascontiguousarray(w.T))
        layers += [layer, torch.nn.Tanh()]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers[:-1]))
    rule = torch.optim.SGD(model.parameters(), 0.1)
    x, y = (torch.from_numpy(np.array(v)) for v in (x, y))

    def call() -> None:
        rule.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        rule.step()

    return call


def ratio(a: Callable[[], Any], b: Callable[[], Any], *names: str) -> dict[str, float]:
    """The least milliseconds of two calls, which take turns, and the first by the second."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, spent in zip((a, b), times, strict=True):
            start = time.perf_counter()
            call()
            spent.append(1e3 * (time.perf_counter() - start))
    one, other = map(min, times)
    return {names[0]: round(one, 4), names[1]: round(other, 4), "ratio": round(one / other, 3)}


def main() -> None:
    """The command; started by a launcher, a rank of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.rank:
        launcher = Path(sys.prefix) / "bin" / "mpiexec"
        command = [launcher, "-n", str(options.ranks), sys.executable, "-m", "benchmarks.ranks"]
        told = ["--rank", *(["--json", str(options.json)] if options.json else [])]
        sys.exit(
            subprocess.run([*command, *told], env={**os.environ, "DLVM_THREADS": "1"}).returncode
        )
    ranks = dlvm.mesh({"data": -1})
    found = {"ranks": ranks.size, **sums(ranks), **steps(ranks)}
    if ranks.rank == 0:
        text = json.dumps(found, indent=1)
        print(text)
        if options.json:
            options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
