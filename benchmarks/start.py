"""From a process that has imported everything to a training step that is ready to be called.

    python benchmarks/start.py [--rounds 9] [--out benchmarks/out/start.json]

Cold is with an empty cache, ``code`` with machine code alone in it, warm with the whole program.
Each round starts one process for each; medians in milliseconds, of the clock and of the processor
(which other work on the machine disturbs less). Imports are outside: see ``imports.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).parent / "out" / "start.json"
PROGRAM = """
import sys, time, numpy as np, optree, dlvm
import dlvm.gen.warm, dlvm.ad.expand, dlvm.opt.pipelines

def loss(params, x, y):
    h = dlvm.tanh(x @ params["w1"] + params["b1"])
    return dlvm.nn.cross_entropy(h @ params["w2"] + params["b2"], y).mean()

@dlvm.function(donate=("params",))
def step(params, x, y):
    value, g = dlvm.value_and_grad(loss)(params, x, y)
    return dlvm.tree.map(lambda p, d: p - 0.1 * d, params, g), value

if sys.argv[1] == "code":
    dlvm.gen.warm.key_of = lambda *_: None
shapes = {"w1": (784, 128), "b1": (128,), "w2": (128, 10), "b2": (10,)}
params = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
x, y = np.zeros((64, 784), np.float32), np.zeros(64, np.int64)
clock, work = time.perf_counter(), time.process_time()
step.compile(params, x, y)
print(time.perf_counter() - clock, time.process_time() - work)
"""


def run(kind: str, cache: Path) -> tuple[float, float]:
    """Seconds of clock and processor."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DLVM_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", PROGRAM, kind]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    clock, work = map(float, done.stdout.split())
    return clock, work


def measure(rounds: int) -> dict[str, tuple[float, float]]:
    """Medians of each kind."""
    found: dict[str, list[tuple[float, float]]] = {"cold": [], "code": [], "warm": []}
    with tempfile.TemporaryDirectory() as kept:
        run("warm", Path(kept))
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as empty:
                found["cold"].append(run("cold", Path(empty)))
            found["code"].append(run("code", Path(kept)))
            found["warm"].append(run("warm", Path(kept)))
    return {
        kind: (statistics.median(c for c, _ in times), statistics.median(w for _, w in times))
        for kind, times in found.items()
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="the time to a first call")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    found = measure(options.rounds)
    print(f"{'ms':8}{'clock':>10}{'processor':>12}")
    for kind, (clock, work) in found.items():
        print(f"{kind:8}{clock * 1e3:10.1f}{work * 1e3:12.1f}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    fields = (
        {"benchmark": "start", "kind": kind, "seconds": clock, "processor_seconds": work}
        for kind, (clock, work) in found.items()
    )
    options.out.write_text("".join(json.dumps(f) + "\n" for f in fields), "utf8")


if __name__ == "__main__":
    main()
