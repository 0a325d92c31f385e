"""Small programs of every day beside NumPy, and their gradients beside themselves, on one thread.

    python -m benchmarks.small [word ...]     only programs whose name has one of these words

Every result is checked before anything is timed; dlvm and NumPy take turns and the best of seven
rounds counts. ``numpy/`` is NumPy's time over ours, ``grad/`` that of the gradient over that of the
function, where it has one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import dlvm

ROUNDS, SECONDS = 7, 2e-3
Program = tuple[str, Callable[..., Any], tuple[Any, ...]]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    """Random numbers, always the same for each run."""
    return RNG.normal(size=shape).astype(np.float32)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    return (softmax(np.einsum("bhqd,bhkd->bhqk", q, k)) @ v).sum()


def batch_norm(x: Any, g: Any, b: Any) -> Any:
    axes = (0, 2, 3)
    centred = x - x.mean(axes, keepdims=True)
    scaled = centred / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    return (scaled * g[None, :, None, None] + b[None, :, None, None]).sum()


def stencil(u: Any) -> Any:
    inner = u[1:-1, 1:-1]
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return (inner + 0.1 * (around - 4 * inner)).sum()


def logistic(w: Any, x: Any, y: Any) -> Any:
    z = x @ w
    return (np.log(1.0 + np.exp(-np.abs(z))) + np.maximum(z, 0.0) - z * y).mean()


def gates(z: Any, c: Any) -> Any:
    i, f, g, o = (z[:, 64 * k : 64 * (k + 1)] for k in range(4))
    kept = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    return (np.tanh(kept) / (1 + np.exp(-o))).sum()


def losses() -> Iterator[Program]:
    """One number of what is multiplied, cut out, joined, picked."""
    yield "attention", attention, (normal(4, 4, 64, 16), normal(4, 4, 64, 16), normal(4, 4, 64, 16))
    yield "batch norm", batch_norm, (normal(16, 8, 16, 16), normal(8), normal(8))
    yield "stencil", stencil, (normal(300, 300),)
    yield "logistic regression", logistic, (normal(64), normal(1000, 64), abs(normal(1000)))
    yield "gates of a cell", gates, (normal(256, 256), normal(256, 64))
    yield "outer product", lambda x, y: (x[:, None] * y[None]).sum(), (normal(500), normal(500))
    rows = RNG.integers(0, 1000, (32, 64))
    yield "squares of rows", lambda w: (w[rows] ** 2).sum(), (normal(1000, 64),)
    yield "differences", lambda x: ((x[1:] - x[:-1]) ** 2).sum(), (normal(2000, 50),)
    yield "sums of columns", lambda x: (x.sum(0) ** 2).sum(), (normal(100, 100, 10),)
    yield "joined features", lambda a, b: (np.concatenate([a, b], -1) ** 2).sum(), _features()
    yield (
        "rows over their length",
        lambda x: (x / np.sqrt((x * x).sum(-1, keepdims=True))).sum(),
        (normal(1000, 16),),
    )


def _features() -> tuple[Any, Any]:
    return normal(1000, 10), normal(1000, 20)


def moves() -> Iterator[Program]:
    """What is joined, padded, shifted, ordered, of long and short rows."""
    for shape in ((50_000, 2), (12_500, 8), (1000, 100), (1, 100_000)):
        x = (normal(*shape),)
        size = "x".join(map(str, shape))
        yield f"joined {size}", lambda x: np.concatenate([x, x], 0), x
        yield f"side by side {size}", lambda x: np.concatenate([x, x], 1), x
        yield f"stacked {size}", lambda x: np.stack([x, 2 * x], -1), x
        yield f"padded {size}", lambda x: np.pad(x, 1), x
        yield f"rolled {size}", lambda x: np.roll(x, 1, 1), x
        yield f"shifted {size}", lambda x: x[:, 1:] - x[:, :-1], x
        yield f"argmax {size}", lambda x: x.argmax(-1), x
        yield f"sorted {size}", lambda x: np.sort(x, -1), x


def best(*runs: Callable[[], Any]) -> list[float]:
    """Seconds of each, in turns."""
    found = [float("inf")] * len(runs)
    for run in runs:
        run()
    for _ in range(ROUNDS):
        for i, run in enumerate(runs):
            start, turns = time.perf_counter(), 0
            while time.perf_counter() - start < SECONDS:
                run()
                turns += 1
            found[i] = min(found[i], (time.perf_counter() - start) / turns)
    return found


def main() -> None:
    """The table."""
    words = sys.argv[1:]
    print(f"{'':26}{'dlvm us':>9}{'numpy us':>10}{'numpy/':>8}{'grad us':>9}{'grad/':>7}")
    for name, f, arguments in (*losses(), *moves()):
        if words and not any(word in name for word in words):
            continue
        ours = dlvm.function(threads=1)(f)
        expected = f(*(a.astype(np.float64) for a in arguments))
        np.testing.assert_allclose(ours(*arguments), expected, rtol=1e-3, atol=1e-3)
        runs = [partial(ours, *arguments), partial(f, *arguments)]
        if np.ndim(expected) == 0:
            slopes = dlvm.function(threads=1)(dlvm.grad(f, wrt=tuple(range(len(arguments)))))
            runs.append(partial(slopes, *arguments))
        own, peer, *more = (1e6 * seconds for seconds in best(*runs))
        told = f"{more[0]:9.1f}{more[0] / own:7.2f}" if more else ""
        print(f"{name:26}{own:9.1f}{peer:10.1f}{peer / own:8.2f}{told}", flush=True)


if __name__ == "__main__":
    main()
