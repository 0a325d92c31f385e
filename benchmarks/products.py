"""Products of square f32 matrices beside NumPy's, both on one thread, rounds taken in turn.

    OPENBLAS_NUM_THREADS=1 python benchmarks/products.py [--sizes 64 256 512 1024]

Prints NumPy's median time over ours: above 1, ours is faster. Results are compared first.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dlvm

ROUNDS = 9
KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "A B": lambda a, b: a @ b,
    "A' B": lambda a, b: a.T @ b,
    "A B'": lambda a, b: a @ b.T,
}


def seconds(run: Callable[[], Any], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times


def ratio(product: Callable[[Any, Any], Any], n: int) -> float:
    """How many of our products fit into one of NumPy's."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(n, n)).astype(np.float32) for _ in range(2))
    compiled = dlvm.function(product).compile(a, b)
    np.testing.assert_allclose(compiled(a, b), product(a, b), rtol=1e-3, atol=1e-3)
    times = max(1, int(2e8 / n**3))
    rounds = [
        (seconds(lambda: compiled(a, b), times), seconds(lambda: product(a, b), times))
        for _ in range(ROUNDS)
    ]
    ours, theirs = (statistics.median(r) for r in zip(*rounds, strict=True))
    return theirs / ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256, 512, 1024])
    sizes = parser.parse_args().sizes
    print(f"{'NumPy / ours':14}" + "".join(f"{n:>8}" for n in sizes))
    for name, product in KINDS.items():
        print(f"{name:14}" + "".join(f"{ratio(product, n):8.2f}" for n in sizes))


if __name__ == "__main__":
    main()
