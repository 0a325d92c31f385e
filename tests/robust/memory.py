"""Memory over many calls and over many compiles: it stays where it is.

python -m tests.robust.memory [--short]
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import dlvm
from tests.leaks import allocated, growth, kinds

from .script import demand, run

CALLS_MAY = 1 << 20
LEAVES = 1 << 10
"""Bytes that each compile may leave behind, in the best of three rounds: Python's table of interned
names doubles now and then, by up to 1.2 MiB, and a leak shows in every round."""


def calls(short: bool) -> str:
    """A million calls, of every kind in turn, leave no megabyte behind."""
    count = 5_000 if short else 1_000_000
    found = growth(count // len(kinds()))
    total = sum(found.values())
    worst = max(found, key=lambda name: found[name])
    demand(total <= CALLS_MAY, f"{total / 1024:.0f} KiB more, most by {worst}")
    return f"{count} calls of {len(found)} kinds: {total / 1024:.0f} KiB more"


def recompiles(short: bool) -> str:
    """Functions that come and go leave nothing behind."""
    count = 15 if short else 1000
    said: list[str] = []
    for name, make in {"chains": _chain, "rows": _rows}.items():
        _compiled(make, 0.5, 25)  # numbers that don't come again, which the cache would have
        each = min(_left(make, count, start) for start in (0.0, 0.25, 0.75))
        demand(each <= LEAVES, f"{each:.0f} bytes for each compile of {name}")
        said.append(f"{each:.0f} of {name}")
    return f"{count} compiles each: {', '.join(said)} bytes more for each"


def _left(make: Callable[[float], Any], count: int, start: float) -> float:
    """Bytes that each of some compiles leaves behind."""
    before = allocated()
    _compiled(make, start, count)
    return (allocated() - before) / count


def _chain(own: float) -> Any:
    def loss(x: Any) -> Any:
        return (dlvm.tanh(x * own) ** 2).sum()

    return dlvm.grad(loss)


def _rows(own: float) -> Any:
    return lambda x: dlvm.nn.softmax(x * own)


def _compiled(make: Callable[[float], Any], start: float, count: int) -> None:
    x = np.linspace(0.0, 1.0, 800).reshape(8, 100)
    for k in range(count):
        dlvm.function(make(start + k))(x)
    gc.collect()


if __name__ == "__main__":
    sys.exit(run(__doc__, calls, recompiles))
