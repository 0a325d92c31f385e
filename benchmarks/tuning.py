"""What a search gains over the planner: best first and at random, on the same budget.

    python -m benchmarks.tuning [--seconds 20] [--threads 1] [--seeds 1]

Each line is one kernel: how many schedules there are, how many of them each search tried, and the
confirmed time of its best in times that of the planner's schedule (1 where none is faster). Times
are medians of rounds in which both run. Nothing is kept.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import dlvm
from dlvm.gen.program.control import kernels_of
from dlvm.gen.tune.measure import Bench
from dlvm.gen.tune.search import at_random, best_first
from dlvm.gen.tune.space import Space
from dlvm.gen.tune.tuner import searched
from dlvm.target import Target

Case = tuple[str, Callable[[Any], Any], tuple[int, ...]]
CASES: tuple[Case, ...] = (
    ("element-wise chain of 1e6", lambda x: dlvm.tanh(x * 2 + 1) * x, (1000, 1000)),
    ("transposed 1000x700", lambda x: dlvm.exp(x.T), (1000, 700)),
    ("axes reversed 60x70x80", lambda x: dlvm.transpose(x, (2, 1, 0)) * 2, (60, 70, 80)),
    ("sums of columns 1000x100", lambda x: (x * x).sum(0), (1000, 100)),
    ("sums of columns 1000x1000", lambda x: (x * x).sum(0), (1000, 1000)),
    ("softmax of rows 512x1000", lambda x: dlvm.nn.softmax(x, axis=-1), (512, 1000)),
    ("softmax of columns 512x300", lambda x: dlvm.nn.softmax(x, axis=0), (512, 300)),
    ("sums of rows of 20", lambda x: x.sum(1), (20000, 20)),
    ("cumulative sums of columns", lambda x: dlvm.cumulative_sum(x, axis=0), (500, 500)),
    ("windows of a stencil", lambda x: x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1], (1000, 999)),
)


def main() -> None:
    """Prints a line for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    target = replace(Target.host(), threads=options.threads)
    print(f"{'kernel':28} {'schedules':>10}  {'best first':>16}  {'at random':>16}")
    for name, function, shape in CASES:
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        for kernel, plain in kernels_of(dlvm.function(function).compile(x).road.kernels):
            space, bench = Space(plain, target), Bench(kernel, target, {})
            for seed in range(options.seeds):
                cells: list[str] = []
                for search in (best_first, at_random):
                    found = searched(space, bench, options.seconds, search, seed)
                    cells.append(f"{found.tried:5} tried, {found.time:4.2f}")
                print(f"{name:28} {space.size:>10.3g}  {cells[0]:>16}  {cells[1]:>16}", flush=True)


if __name__ == "__main__":
    main()
