"""Train a classifier on scikit-learn's handwritten digits, a whole Adam step in one program.

Loss, gradient and the update of all parameters and moments are one staged function. It is
compiled once, for any batch size, and overwrites the state that it is given. The same step
written in NumPy runs beside it, for its answers and for its time.

    python examples/digits.py [--epochs 20] [--pictures out]
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pictures import curve, difference
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import dlvm

RATE, DECAY, DECAY_OF_SQUARES, TINY = 0.002, 0.9, 0.999, 1e-8


# -- the program ---------------------------------------------------------------------------------


def loss(params, x, y):
    """Mean cross-entropy of a tanh network with one hidden layer."""
    hidden = dlvm.tanh(x @ params["w1"] + params["b1"])
    return dlvm.nn.cross_entropy(hidden @ params["w2"] + params["b2"], y).mean()


@dlvm.function(donate=("state",), dynamic={"x": "B,64", "y": "B"}, threads=1)
def step(state, x, y):
    """One step of Adam; the new state stands where the old one stood."""
    params, means, squares, count = state
    value, gradient = dlvm.value_and_grad(loss)(params, x, y)
    count = count + 1
    means = dlvm.tree.map(lambda m, g: DECAY * m + (1 - DECAY) * g, means, gradient)
    squares = dlvm.tree.map(
        lambda s, g: DECAY_OF_SQUARES * s + (1 - DECAY_OF_SQUARES) * g * g, squares, gradient
    )
    rate = RATE * dlvm.sqrt(1 - dlvm.exp(count * math.log(DECAY_OF_SQUARES)))
    rate = rate / (1 - dlvm.exp(count * math.log(DECAY)))
    params = dlvm.tree.map(
        lambda p, m, s: p - rate * m / (dlvm.sqrt(s) + TINY), params, means, squares
    )
    return (params, means, squares, count), value


@dlvm.function(dynamic={"x": "B,64"})
def predict(params, x):
    """The most likely digit of each image."""
    hidden = dlvm.tanh(x @ params["w1"] + params["b1"])
    return dlvm.argmax(hidden @ params["w2"] + params["b2"], axis=-1)


# -- the same step in NumPy ----------------------------------------------------------------------


def numpy_step(state, x, y):
    """What ``step`` does, with the gradient worked out by hand."""
    params, means, squares, count = state
    count = count + np.float32(1)
    hidden = np.tanh(x @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"] + params["b2"]
    logits = logits - logits.max(axis=-1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    rows = np.arange(len(y))
    error = np.exp(logs)
    error[rows, y] -= 1
    error /= np.float32(len(y))
    back = (error @ params["w2"].T) * (1 - hidden * hidden)
    gradient = {"w1": x.T @ back, "b1": back.sum(0), "w2": hidden.T @ error, "b2": error.sum(0)}
    rate = np.float32(RATE * np.sqrt(1 - DECAY_OF_SQUARES**count) / (1 - DECAY**count))
    for name, g in gradient.items():
        means[name] = DECAY * means[name] + (1 - DECAY) * g
        squares[name] = DECAY_OF_SQUARES * squares[name] + (1 - DECAY_OF_SQUARES) * g * g
        params[name] = params[name] - rate * means[name] / (np.sqrt(squares[name]) + TINY)
    return (params, means, squares, count), -logs[rows, y].mean()


# -- data and state ------------------------------------------------------------------------------


def digits(seed: int):
    """Images scaled to [0, 1] and labels, shuffled and split four to one."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    x, y = (images[order] / 16).astype(np.float32), labels[order].astype(np.int32)
    cut = len(x) * 4 // 5
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


def initial(seed: int, hidden: int = 128):
    """Small random weights, zero biases, zero moments, no step taken yet."""
    rng = np.random.default_rng(seed)

    def weight(rows: int, columns: int):
        return rng.normal(0, 1 / np.sqrt(rows), (rows, columns)).astype(np.float32)

    params = {
        "w1": weight(64, hidden),
        "b1": np.zeros(hidden, np.float32),
        "w2": weight(hidden, 10),
        "b2": np.zeros(10, np.float32),
    }
    means, squares = ({k: np.zeros_like(v) for k, v in params.items()} for _ in range(2))
    return params, means, squares, np.float32(0)


def batches(x, y, size: int, rng) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Shuffled batches; the last one is as small as it must be."""
    order = rng.permutation(len(x))
    for start in range(0, len(x), size):
        chosen = order[start : start + size]
        yield x[chosen], y[chosen]


# -- training ------------------------------------------------------------------------------------


def train(state, x, y, epochs: int, batch: int):
    """The state after training, and the loss of every step."""
    rng, losses = np.random.default_rng(1), []
    for epoch in range(1, epochs + 1):
        for xs, ys in batches(x, y, batch, rng):
            state, value = step(state, xs, ys)
            losses.append(float(value))
        show_progress(epoch, epochs, losses)
    return state, losses


def show_progress(epoch: int, epochs: int, losses: list[float]) -> None:
    """A bar on a terminal; elsewhere a line for every fifth epoch."""
    recent = float(np.mean(losses[-10:]))
    if sys.stdout.isatty():
        done = 30 * epoch // epochs
        bar = "█" * done + "·" * (30 - done)
        end = "\n" if epoch == epochs else ""
        print(f"\r{bar} epoch {epoch}/{epochs}   loss {recent:.4f}", end=end, flush=True)
    elif epoch % 5 == 0 or epoch in (1, epochs):
        print(f"epoch {epoch:3d}/{epochs}   loss {recent:.4f}")


def beside_numpy(x, y, batch: int, rounds: int = 20, steps: int = 10):
    """Milliseconds of a step in each round, ours and NumPy's, on one thread each.

    Three steps compare the answers. Rounds of several steps alternate, and the first five, in which
    caches and the clock of the processor settle, are not counted.
    """
    xs, ys = x[:batch], y[:batch]
    ours, theirs = initial(2), initial(2)
    times: list[tuple[float, float]] = []
    with threadpool_limits(1):
        for _ in range(3):
            ours, value = step(ours, xs, ys)
            theirs, expected = numpy_step(theirs, xs, ys)
            np.testing.assert_allclose(value, expected, rtol=1e-4)
        for _ in range(5 + rounds):
            start = time.perf_counter()
            for _ in range(steps):
                ours, _ = step(ours, xs, ys)
            middle = time.perf_counter()
            for _ in range(steps):
                theirs, _ = numpy_step(theirs, xs, ys)
            times.append((middle - start, time.perf_counter() - middle))
    return ([1000 * t / steps for t in column] for column in zip(*times[5:], strict=True))


def spread(times) -> str:
    """The median and the range, for people."""
    return f"{statistics.median(times):.3f} ms ({min(times):.3f} to {max(times):.3f})"


def report_compile(state, x, y) -> None:
    """What was compiled, and where the time went."""
    report = step.compile(state, x, y).report.at(B=len(x))
    compiles = step.explain().compiles
    phases = ", ".join(f"{name} {1000 * s:.0f}" for name, s in report.seconds.items())
    print(f"{len(compiles)} compile for all batch sizes: {', '.join(c.reason for c in compiles)}")
    print(f"  {1000 * sum(report.seconds.values()):.0f} ms: {phases}")
    print(f"  {report.kernels} kernels for {report.target}")
    print(
        f"  at {len(x)} images: {report.flops:,} flops, {report.bytes:,} bytes to and from memory, "
        f"{report.peak_bytes:,} bytes of its own"
    )


def draw(folder: Path, losses: list[float]) -> None:
    """The training curve, and what the optimiser makes of the gradient."""
    folder.mkdir(parents=True, exist_ok=True)
    module = dlvm.trace(dlvm.grad(loss), initial(0)[0], dlvm.spec("f32[B,64]"), dlvm.spec("i32[B]"))
    before = module.optimize(["inline_calls", "keep_reachable"])
    after = before.optimize(["simplify", "share", "drop"])
    (folder / "training.svg").write_text(curve(losses, "loss of each step"))
    (folder / "ir.svg").write_text(difference(str(before), str(after)))
    print(f"pictures: {folder / 'training.svg'}, {folder / 'ir.svg'}")


def main() -> None:
    """Train, say how it went, draw."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--pictures", type=Path, default=Path("out"))
    options = parser.parse_args()
    (x, y), (x_test, y_test) = digits(seed=0)
    start = time.perf_counter()
    state, losses = train(initial(seed=0), x, y, options.epochs, options.batch)
    seconds = time.perf_counter() - start
    accuracy = float(np.mean(predict(state[0], x_test) == y_test))
    print(
        f"test accuracy {accuracy:.1%} on {len(x_test)} images after {len(losses)} steps in "
        f"{seconds:.1f} s, compiling included"
    )
    report_compile(state, x[: options.batch], y[: options.batch])
    ours, theirs = beside_numpy(x, y, options.batch)
    print(
        f"a step of {options.batch} images on one thread, median and range of {len(ours)} rounds: "
        f"{spread(ours)}, NumPy {spread(theirs)}"
    )
    draw(options.pictures, losses)


if __name__ == "__main__":
    main()
