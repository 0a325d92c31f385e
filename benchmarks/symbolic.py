"""One program for every size against one program for each: how much slower the first is.

python -m benchmarks.symbolic [--quick] [--only NAME] [--json symbolic.json]

Each program is compiled with open sizes once, and specialised for every size that is tried; both
run turn by turn on one thread. The figure is the time with open sizes over the specialised one, the
median of several places in memory: where code and arrays happen to lie moves it by some percent.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dlvm

from .race import QUICK, Effort, Run, check

SIZES = (65, 128, 500, 2048)
PLACES = 5
Draw = Callable[[int], tuple[Any, ...]]


def normal(*shape: int) -> Any:
    """Random f32."""
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def mlp(params: Any, x: Any, y: Any) -> Any:
    """The loss of a small network."""
    h = dlvm.tanh(x @ params["w"] + params["b"])
    return ((h @ params["v"] - y) ** 2).mean()


def chain(x: Any, y: Any) -> Any:
    """Nothing but elements."""
    return dlvm.tanh(x * y + 0.5) * dlvm.sigmoid(x - y)


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    """Rows of mean 0 and variance 1, scaled."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / dlvm.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g + b


def batch_norm(x: Any) -> Any:
    """Images, centred and scaled over all but the channels."""
    mean = x.mean((0, 2, 3), keepdims=True)
    return (x - mean) / dlvm.sqrt(((x - mean) ** 2).mean((0, 2, 3), keepdims=True) + 1e-5)


def attention(q: Any, k: Any, v: Any) -> Any:
    """One head."""
    return dlvm.nn.softmax(q @ k.T * 0.125) @ v


def recurrent(w: Any, x: Any) -> Any:
    """A state through a loop of open length."""
    return dlvm.scan(lambda c, row: (dlvm.tanh(c @ w + row), None), 0 * x[0], x)[0]


def halves(x: Any) -> Any:
    """Two slices of an open axis, put together the other way round."""
    n = x.shape[0] // 2
    return dlvm.concat([x[n:] * 2.0, x[:n] + 1.0])


def weights() -> Any:
    """Parameters of the network."""
    return {"w": normal(784, 128), "b": normal(128), "v": normal(128, 10)}


def programs() -> dict[str, tuple[Any, Any, Draw]]:
    """The function, which of its sizes are open, and arguments of a size."""
    rows = {"x": "N,256"}
    return {
        "MLP gradient": (
            dlvm.grad(mlp),
            {"x": "B,784", "y": "B,10"},
            lambda n: (weights(), normal(n, 784), normal(n, 10)),
        ),
        "element-wise": (
            chain,
            {"x": "N,M", "y": "N,M"},
            lambda n: (normal(n, n), normal(n, n)),
        ),
        "softmax rows": (dlvm.nn.softmax, {"x": "N,M"}, lambda n: (normal(n, n),)),
        "layer norm": (
            layer_norm,
            {"x": "N,M", "g": "M", "b": "M"},
            lambda n: (normal(n, n), normal(n), normal(n)),
        ),
        "product": (
            lambda x, y: x @ y,
            {"x": "N,K", "y": "K,M"},
            lambda n: (normal(min(n, 512), n), normal(n, min(n, 512))),
        ),
        "attention": (
            attention,
            {"q": "N,64", "k": "N,64", "v": "N,64"},
            lambda n: (normal(n, 64), normal(n, 64), normal(n, 64)),
        ),
        "recurrence": (recurrent, {"x": "T,32"}, lambda n: (normal(32, 32), normal(n, 32))),
        "sums of columns": (lambda x: x.sum(0), {"x": "N,M"}, lambda n: (normal(n, n),)),
        "halves": (halves, rows, lambda n: (normal(n, 256),)),
        "distances": (
            lambda x, y: ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1),
            {"x": "N,16", "y": "M,16"},
            lambda n: (normal(min(n, 600), 16), normal(min(n, 600), 16)),
        ),
        "sum of an outer product": (
            lambda x, y: (x[:, None] * y[None]).sum(),
            {"x": "N", "y": "M"},
            lambda n: (normal(n), normal(n)),
        ),
        "batch norm": (
            batch_norm,
            {"x": "N,C,H,W"},
            lambda n: (normal(8, 4, 16, n),),
        ),
        "running sum": (
            lambda x: dlvm.cumulative_sum(x, axis=0),
            rows,
            lambda n: (normal(n, 256),),
        ),
        **more_programs(),
    }


def more_programs() -> dict[str, tuple[Any, Any, Draw]]:
    """What cuts, moves, loops and folds otherwise."""
    matrix, images = {"x": "N,M"}, {"x": "B,H,W"}

    def square(n: int) -> tuple[Any, ...]:
        return (normal(n, n),)

    def eight(n: int) -> tuple[Any, ...]:
        return (normal(8, min(n, 600), min(n, 600)),)

    return {
        "variance of rows": (lambda x: x.var(-1), matrix, square),
        "differences": (lambda x: x[1:] - x[:-1], matrix, square),
        "stencil": (
            lambda x: x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1] - x[1:-1, :-2] - x[1:-1, 2:],
            matrix,
            square,
        ),
        "rolled rows": (lambda x: dlvm.roll(x, 3, axis=-1), matrix, square),
        "every second": (lambda x: x[:, ::2].sum(), matrix, square),
        "cut images": (lambda x: x[:, 1:-1, 1:-1].sum(), images, eight),
        "images by row": (lambda x: x.mean((0, 2)), images, eight),
        "rows times eight": (lambda x: (x[:, None] * x[None, :8]).sum(-1), matrix, square),
        "rows added up": (
            lambda x: dlvm.fori_loop(0, x.shape[0], lambda i, c: c + x[i], 0 * x[0]),
            matrix,
            square,
        ),
        "map of rows": (lambda x: dlvm.map(lambda r: dlvm.tanh(r) * r.sum(), x), matrix, square),
    }


def ratios(name: str, effort: Effort) -> dict[int, float]:
    """Time with open sizes over time specialised, for each size."""
    placed = [_placed(name, effort) for _ in range(PLACES)]
    return {n: statistics.median(found[n] for found in placed) for n in SIZES}


def _placed(name: str, effort: Effort) -> dict[int, float]:
    """The same with code and arrays where they come to lie this time."""
    f, open_, draw = programs()[name]
    dynamic = dlvm.function(f, dynamic=open_, threads=1)
    found: dict[int, float] = {}
    for n in SIZES:
        args = draw(n)
        fixed = dlvm.function(f, threads=1)
        check(name, dynamic(*args), fixed(*args), 1e-4)
        found[n] = ratio(partial(dynamic, *args), partial(fixed, *args), effort)
    return found


def ratio(first: Run, second: Run, effort: Effort) -> float:
    """The median over rounds, turn by turn; the processor's time, as others use the machine."""
    turns = max(1, round(effort.seconds / max(min(_busy(second, 1) for _ in range(3)), 1e-6)))
    rounds = ((_busy(first, turns), _busy(second, turns)) for _ in range(effort.rounds))
    return statistics.median(a / b for a, b in rounds)


def _busy(run: Run, turns: int) -> float:
    start = time.process_time()
    for _ in range(turns):
        run()
    return time.process_time() - start


def main() -> None:
    """Print a table of ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="programs whose name holds this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    effort = QUICK if options.quick else Effort(31, 0.005)
    table: dict[str, dict[int, float]] = {}
    print(f"{'':16}", *(f"{n:>7}" for n in SIZES))
    for name in programs():
        if options.only and options.only not in name:
            continue
        table[name] = ratios(name, effort)
        print(f"{name:16}", *(f"{r:7.2f}" for r in table[name].values()), flush=True)
    every = [r for row in table.values() for r in row.values()]
    within = sum(r <= 1.15 for r in every)
    print(f"median {statistics.median(every):.2f}, {within} of {len(every)} within 15 %")
    if options.json:
        options.json.write_text(json.dumps(table, indent=2), "utf8")


if __name__ == "__main__":
    main()
