"""Time per operation of each phase of the compiler, on programs of 10^3 to 10^5 operations.

    python benchmarks/phases.py [--sizes 1000 10000] [--out benchmarks/out/phases.json]

Prints a table in microseconds per operation and writes one JSON line per measurement. A phase
that is linear shows the same figure in every column.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dlvm
from dlvm import passes
from dlvm.ad import expand
from dlvm.ir import Declaration, Module
from dlvm.opt.pipelines import KERNELS, MEANING

SIZES = (1_000, 10_000, 100_000)
OUT = Path(__file__).parent / "out" / "phases.json"
OPS_PER_TURN = 4


def chain(turns: int) -> Callable[[Any, Any], Any]:
    """A long straight program: each turn makes four operations, some of which are shared."""

    def f(x: Any, w: Any) -> Any:
        y = x
        for _ in range(turns):
            y = dlvm.tanh(y * w + x) - x
        return y.sum()

    return f


def phases(size: int) -> dict[str, float]:
    """Seconds of each phase on a program of about so many operations."""
    seconds: dict[str, float] = {}

    def timed(name: str, run: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        out = run()
        seconds[name] = time.perf_counter() - start
        return out

    vector = dlvm.spec("f32[B]")
    module = timed("trace", lambda: dlvm.trace(chain(size // OPS_PER_TURN), vector, vector))
    text = timed("print", lambda: str(module))
    again = timed("parse", lambda: dlvm.parse(text))
    timed("verify", again.verify)
    timed("equal", lambda: again == module)
    declared = Declaration("adjoint", "d", module.main.name, wrt=(0, 1))
    full = timed("differentiate", lambda: expand(Module((*module.entries, declared))))
    gradient = Module((full.function("d"),))
    meaning = timed("optimise", lambda: passes.run(gradient, MEANING))
    timed("fuse", lambda: passes.run(meaning, KERNELS))
    return seconds


def table(results: dict[int, dict[str, float]]) -> str:
    """Microseconds per operation of the traced program, a column for each size."""
    head = f"{'us per operation':18}" + "".join(f"{size:>12,}" for size in results)
    rows = [
        f"{name:18}" + "".join(f"{found[name] / n * 1e6:12.2f}" for n, found in results.items())
        for name in next(iter(results.values()))
    ]
    return "\n".join([head, *rows])


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="time per operation of each phase")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    phases(400)  # imports and first calls are no phase's fault
    results = {size: phases(size) for size in options.sizes}
    print(table(results))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    where = {"machine": platform.machine(), "python": platform.python_version()}
    lines = [
        json.dumps({"benchmark": "phases", "size": size, "phase": name, "seconds": s, **where})
        for size, found in results.items()
        for name, s in found.items()
    ]
    options.out.write_text("\n".join(lines) + "\n", "utf8")


if __name__ == "__main__":
    main()
