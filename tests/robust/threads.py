"""Sixteen threads call and compile at once: every result is right, and nobody waits for ever.

python -m tests.robust.threads [--short]
"""

from __future__ import annotations

import faulthandler
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import dlvm

from .script import demand, run

THREADS = 16
PATIENCE = 900.0


def shared() -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Functions that all threads call, each with what it must give."""
    scale = dlvm.function(lambda x, s: x * s + 1, static=("s",))
    total = dlvm.function(lambda x: dlvm.tanh(x).sum(), dynamic=True)
    slope = dlvm.grad(lambda x: (x * x * x).sum())
    rows = dlvm.function(lambda x: dlvm.scan(lambda c, y: (c + y, c), 0 * x.sum(0), x))
    return [
        (lambda x, k: scale(x, k % 7), lambda x, k: x * (k % 7) + 1),
        (lambda x, k: total(x), lambda x, k: np.tanh(x).sum()),
        (lambda x, k: slope(x), lambda x, k: 3 * x * x),
        (lambda x, k: rows(x)[0], lambda x, k: x.sum(0)),
    ]


def fresh(x: Any, k: int) -> tuple[Any, Any]:
    """A function that nobody has compiled, and what it must give."""
    return dlvm.function(lambda x: dlvm.sqrt(x * x + k).mean(0))(x), np.sqrt(x * x + k).mean(0)


def work(own: int, calls: int, functions: Any, start: threading.Barrier) -> None:
    """One thread: mostly calls, of many shapes, and some compiles."""
    rng = np.random.default_rng(own)
    start.wait()
    for k in range(calls):
        shape = [(4, 8), (5, 3), (64, 32), (1, 1), (0, 2), (300, 500)][int(rng.integers(0, 6))]
        x = rng.normal(size=shape)
        if k % 250 == own and x.size:
            found, expected = fresh(x, own)
        else:
            f, reference = functions[int(rng.integers(0, len(functions)))]
            found, expected = f(x, k), reference(x, k)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def mixed(short: bool) -> str:
    """Calls of shared functions of many shapes, with compiles in between."""
    calls = 60 if short else 1000
    functions, start = shared(), threading.Barrier(THREADS)
    wrong: list[BaseException] = []

    def body(own: int) -> None:
        try:
            work(own, calls, functions, start)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=body, args=(i,), daemon=True) for i in range(THREADS)]
    faulthandler.dump_traceback_later(PATIENCE, exit=True)  # a deadlock names where it is
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    faulthandler.cancel_dump_traceback_later()
    demand(not wrong, f"{len(wrong)} threads failed, the first with {wrong[:1]}")
    return f"{THREADS} threads of {calls} calls, every result right"


if __name__ == "__main__":
    sys.exit(run(__doc__, mixed))
