"""Memory over many calls and over many compiles: it stays where it is.

python -m tests.robust.memory [--short]
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np

import dlvm
from tests.leaks import growth, kinds, resident

from .script import demand, run

CALLS_MAY = 1 << 20
COMPILES_MAY = 32 << 10
"""Bytes that each compile may leave behind: LLVM loses a quarter of that."""


def calls(short: bool) -> str:
    """A million calls, of every kind in turn, leave no megabyte behind."""
    count = 5_000 if short else 1_000_000
    found = growth(count // len(kinds()))
    total = sum(found.values())
    worst = max(found, key=lambda name: found[name])
    demand(total <= CALLS_MAY, f"{total / 1024:.0f} KiB more, most by {worst}")
    return f"{count} calls of {len(found)} kinds: {total / 1024:.0f} KiB more"


def recompiles(short: bool) -> str:
    """Functions that come and go: what a compile leaves behind is small, and stays as small."""
    count = 40 if short else 1000
    _compiled(-1.0, 20)
    before = resident()
    _compiled(0.0, count)
    first = (resident() - before) / count
    before = resident()
    _compiled(1e6, count)
    second = (resident() - before) / count
    demand(second <= COMPILES_MAY, f"{second / 1024:.0f} KiB for each compile, {first / 1024:.0f}")
    return f"{2 * count} compiles: {first / 1024:.1f}, then {second / 1024:.1f} KiB each"


def _compiled(start: float, count: int) -> None:
    x = np.linspace(0.0, 1.0, 100)
    for k in range(count):

        def loss(x: Any, own: float = start + k) -> Any:
            return (dlvm.tanh(x * own) ** 2).sum()

        dlvm.function(dlvm.grad(loss))(x)
    gc.collect()


if __name__ == "__main__":
    sys.exit(run(__doc__, calls, recompiles))
