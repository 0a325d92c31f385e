"""Steps of a training loop on two cores, alone and beside a program that spins on one of them.

python -m benchmarks.neighbours [--rounds 5] [--only 0.1ms] [--json neighbours.json]

Each step runs with ``threads=1``, with ``threads=2`` and with nothing said, in turn, each time as a
new function: 20 calls to adapt, then the median of 200. Prints the median over all rounds in
microseconds, and the median of what a round takes where nothing is said over the better of the
other two in that round. That ratio should be at most 1.15 in every line, on a machine where nothing
else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ADAPTING, TIMED = 20, 200
STEPS = {
    "0.01ms": (8, 48),
    "0.03ms": (32, 64),
    "0.1ms": (64, 128),
    "0.3ms": (64, 208),
    "1ms": (128, 256),
    "3ms": (192, 384),
    "10ms": (384, 512),
}
"""About how long a step takes on one thread: its batch, and the width of its two layers."""
CONTENDERS: dict[str, int | None] = {"1 thread": 1, "2 threads": 2, "default": None}


def step(batch: int, width: int, threads: int | None) -> Callable[[], Any]:
    """One step of gradient descent on a network with two layers, as a call without arguments."""
    import numpy as np

    import dlvm

    def loss(params: Any, x: Any, y: Any) -> Any:
        h = dlvm.tanh(x @ params["w"] + params["b"])
        return ((h @ params["v"] - y) ** 2).mean()

    def update(params: Any, x: Any, y: Any) -> Any:
        value, slopes = dlvm.value_and_grad(loss)(params, x, y)
        return {k: p - 1e-3 * slopes[k] for k, p in params.items()}, value

    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32) / 16

    params = {"w": normal(width, width), "b": normal(width), "v": normal(width, width)}
    x, y = normal(batch, width), normal(batch, width)
    said: dict[str, Any] = {"threads": threads}
    run = dlvm.function(update, **said)
    run(params, x, y)  # compiled here
    return lambda: run(params, x, y)


def median_of(run: Callable[[], Any]) -> float:
    """The median seconds of the calls after those that adapt."""
    for _ in range(ADAPTING):
        run()
    times: list[float] = []
    for _ in range(TIMED):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@contextmanager
def neighbour(core: int | None) -> Generator[None]:
    """Beside a program that spins on this core, if it is one."""
    if core is None:
        yield
        return
    spin = f"import os\nos.sched_setaffinity(0, [{core}])\nprint(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def measure(batch: int, width: int, rounds: int) -> dict[str, list[float]]:
    """Each contender's median in each round."""
    found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, threads in CONTENDERS.items():
            found[name].append(median_of(step(batch, width, threads)))
    return found


def two_cores() -> list[int]:
    """Hold this process to two cores, before anything counts them."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, cores)
    os.environ.pop("DLVM_THREADS", None)
    return cores


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="steps whose name holds this text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cores = two_cores()
    rows: list[dict[str, Any]] = []
    print(
        f"{'step':8} {'neighbour':10}" + "".join(f"{n + ' us':>14}" for n in CONTENDERS) + "  ratio"
    )
    for core in (None, *cores):
        where = "none" if core is None else f"core {cores.index(core)}"
        with neighbour(core):
            for name, sizes in STEPS.items():
                if options.only in name:
                    rows.append(row(name, where, measure(*sizes, options.rounds)))
    worst = max(rows, key=lambda r: r["ratio"])
    print(f"worst: {worst['ratio']:.2f} ({worst['step']}, neighbour: {worst['neighbour']})")
    if options.json:
        facts = {"machine": platform.processor() or platform.machine(), "rounds": options.rounds}
        options.json.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")


def row(name: str, where: str, found: dict[str, list[float]]) -> dict[str, Any]:
    """One line of the table, which is printed."""
    rounds = zip(*(found[name] for name in CONTENDERS), strict=True)
    ratio = statistics.median(chosen / min(one, two) for one, two, chosen in rounds)
    seconds = {name: statistics.median(times) for name, times in found.items()}
    times = "".join(f"{s * 1e6:14.1f}" for s in seconds.values())
    print(f"{name:8} {where:10}{times}  {ratio:5.2f}", flush=True)
    return {"step": name, "neighbour": where, "seconds": seconds, "ratio": ratio}


if __name__ == "__main__":
    main()
