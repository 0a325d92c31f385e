"""Calls of every kind, again and again: memory must not grow.

    python -m tests.leaks [--calls 100000]

Each kind is called once to compile, then a tenth of the calls warm up; the growth of resident
memory over the rest is printed for each kind and in all.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.base.errors import IndexOutOfRange

X = np.arange(12, dtype=np.float32).reshape(3, 4)
LARGE = np.ones(100_000, np.float32)
WIDE = np.ones((3, 8), np.float32)[:, ::2]


class Model:
    """An object with state that changes."""

    def __init__(self) -> None:
        self.w = X.copy()

    @dlvm.function
    def __call__(self, x: Any) -> Any:
        return x + self.w


def kinds() -> dict[str, Callable[[], Any]]:
    """One call of each kind."""
    add = dlvm.function(lambda x, y: x + y)
    tree = dlvm.function(lambda p: {k: [v, v + 1] for k, v in p.items()})
    params = {"b": X, "a": X}
    scaled = dlvm.function(static=("kind",))(lambda x, rate, kind="k": x * rate + len(kind))
    opened = dlvm.function(dynamic={"x": "B,4"})(lambda x: dlvm.tanh(x).sum())
    sizes = itertools.cycle(range(1, 40))
    step = dlvm.function(donate=("p",))(lambda p, x: {k: v - x for k, v in p.items()})
    mine = {"a": X.copy(), "b": X.copy()}
    pick = dlvm.function(lambda x, i: x[i])
    pick(X, 0)
    state = {"w": X}
    captured = dlvm.function(lambda x: x + state["w"])
    model = Model()
    compiled = add.compile(X, X)
    bound = add.bind(y=X)

    def fail() -> None:
        try:
            pick(X, 9)
        except IndexOutOfRange:
            return
        raise AssertionError("an index out of range was no error")

    def donate() -> Any:
        nonlocal mine
        mine = step(mine, X)
        return mine

    def keep() -> Any:
        with warnings.catch_warnings(action="ignore", category=dlvm.TraceWarning):
            return step(params, X)

    def rebind() -> Any:
        state["w"] = X + 1
        return captured(X)

    def change() -> Any:
        model.w = X * 2
        return model(X)

    return {
        "arrays": lambda: add(X, X),
        "trees": lambda: tree(params),
        "scalars and names": lambda: scaled(X, rate=0.5, kind="ab"),
        "open sizes": lambda: opened(np.ones((next(sizes), 4), np.float32)),
        "donation": donate,
        "donation of what is kept": keep,
        "failure": fail,
        "captured state": rebind,
        "methods": change,
        "gaps": lambda: add(WIDE, X),
        "NumPy scalars": lambda: scaled(X, np.float32(0.5)),
        "large results": lambda: add(LARGE, LARGE),
        "compiled": lambda: compiled(X, X),
        "bound": lambda: bound(X),
    }


def resident() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class _Heap(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = (
        ("before", ctypes.c_size_t * 4),
        ("mapped", ctypes.c_size_t),
        ("between", ctypes.c_size_t * 2),
        ("used", ctypes.c_size_t),
        ("after", ctypes.c_size_t * 2),
    )


def allocated() -> int:
    """Bytes that this process has allocated and not freed; where nobody counts, in memory."""
    try:
        count = ctypes.CDLL(None).mallinfo2
    except (AttributeError, TypeError):
        return resident()
    count.restype = _Heap
    found = count()
    return int(found.used + found.mapped)


def growth(calls: int) -> dict[str, int]:
    """How many bytes so many calls of each kind leave behind."""
    found = kinds()
    for call in found.values():
        _repeat(call, max(calls // 10, 50))
    out: dict[str, int] = {}
    for name, call in found.items():
        before = resident()
        _repeat(call, calls)
        out[name] = resident() - before
    return out


def _repeat(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()
    gc.collect()


def main() -> int:
    """Print what grew; fail where it is a megabyte or more."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=100_000)
    options = parser.parse_args()
    found = growth(options.calls // len(kinds()))
    for name, grown in found.items():
        print(f"{name:20} {grown / 1024:10.0f} KiB")
    total = sum(found.values())
    print(f"{'in all':20} {total / 1024:10.0f} KiB")
    return int(total >= 1 << 20)


if __name__ == "__main__":
    sys.exit(main())
