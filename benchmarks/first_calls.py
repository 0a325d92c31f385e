"""The first calls of a fresh function where no number of threads is given.

python -m benchmarks.first_calls [--rounds 5] [--calls 50] [--json first_calls.json]

Each training step of ``benchmarks.neighbours`` is compiled anew with ``threads=1``, with
``threads=2`` and without ``threads=``, in turn. Prints the median over all rounds of the total time
of the calls that follow the one that compiles, in milliseconds, and the median over rounds of the
total without ``threads=`` divided by the smaller of the other two in that round. Both vary with
what else runs on the machine, so the smallest and the largest ratio are printed, too.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .neighbours import CONTENDERS, step, two_cores

STEPS = {"10ms": (384, 512), "30ms": (512, 768), "100ms": (1024, 1024)}
"""About how long a step takes on one thread: its batch, and the width of its two layers."""


def total(run: Callable[[], Any], calls: int) -> float:
    """The seconds of the next calls."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return time.perf_counter() - start


def measure(batch: int, width: int, rounds: int, calls: int) -> dict[str, list[float]]:
    """Each contender's total in each round."""
    found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, threads in CONTENDERS.items():
            found[name].append(total(step(batch, width, threads), calls))
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    two_cores()
    print(f"{'step':8}" + "".join(f"{n + ' ms':>14}" for n in CONTENDERS) + "  ratio (range)")
    rows = [
        row(name, measure(*sizes, options.rounds, options.calls)) for name, sizes in STEPS.items()
    ]
    if options.json:
        facts = {"machine": platform.processor() or platform.machine(), "rounds": options.rounds}
        written = json.dumps({**facts, "calls": options.calls, "rows": rows}, indent=1)
        options.json.write_text(written + "\n")


def row(name: str, found: dict[str, list[float]]) -> dict[str, Any]:
    """One line of the table, which is printed."""
    rounds = zip(*(found[name] for name in CONTENDERS), strict=True)
    ratios = sorted(chosen / min(one, two) for one, two, chosen in rounds)
    seconds = {name: statistics.median(times) for name, times in found.items()}
    times = "".join(f"{s * 1e3:14.0f}" for s in seconds.values())
    spread = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    print(f"{name:8}{times}  {spread}", flush=True)
    return {"step": name, "seconds": seconds, "ratios": ratios}


if __name__ == "__main__":
    main()
