"""Train a two-layer classifier on scikit-learn's handwritten digits, in one staged function.

The whole training step (loss, gradient, SGD) is one program with donated parameters and a
symbolic batch dimension: it is compiled once, whatever the size of the last batch.

    python examples/digits.py [--epochs 20]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_digits

import dlvm

RATE = 0.3


def loss(params, x, y):
    """Mean cross-entropy of a tanh network with one hidden layer."""
    hidden = dlvm.tanh(x @ params["w1"] + params["b1"])
    return dlvm.nn.cross_entropy(hidden @ params["w2"] + params["b2"], y).mean()


@dlvm.function(donate=("params",), dynamic={"x": "B,64", "y": "B"})
def step(params, x, y):
    """One step of gradient descent; the new parameters stand where the old ones stood."""
    value, gradient = dlvm.value_and_grad(loss)(params, x, y)
    return dlvm.tree.map(lambda p, d: p - RATE * d, params, gradient), value


@dlvm.function(dynamic={"x": "B,64"})
def predict(params, x):
    """The most likely digit of each image."""
    hidden = dlvm.tanh(x @ params["w1"] + params["b1"])
    return dlvm.argmax(hidden @ params["w2"] + params["b2"], axis=-1)


def digits(seed: int):
    """Images scaled to [0, 1] and labels, shuffled and split four to one."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    x, y = (images[order] / 16).astype(np.float32), labels[order].astype(np.int32)
    cut = len(x) * 4 // 5
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


def initial(seed: int, hidden: int = 64):
    """Small random weights, zero biases."""
    rng = np.random.default_rng(seed)

    def weight(rows: int, columns: int):
        return rng.normal(0, 1 / np.sqrt(rows), (rows, columns)).astype(np.float32)

    return {
        "w1": weight(64, hidden),
        "b1": np.zeros(hidden, np.float32),
        "w2": weight(hidden, 10),
        "b2": np.zeros(10, np.float32),
    }


def batches(x, y, size: int, rng) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Shuffled batches; the last one is as small as it must be."""
    order = rng.permutation(len(x))
    for start in range(0, len(x), size):
        chosen = order[start : start + size]
        yield x[chosen], y[chosen]


def main() -> None:
    """Train, show the loss after each epoch, and the accuracy on images not trained on."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=100)
    options = parser.parse_args()
    (x, y), (x_test, y_test) = digits(seed=0)
    params, rng = initial(seed=0), np.random.default_rng(1)
    start = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        losses = []
        for xs, ys in batches(x, y, options.batch, rng):
            params, value = step(params, xs, ys)
            losses.append(float(value))
        if epoch in (1, options.epochs) or epoch % 5 == 0:
            print(f"epoch {epoch:3d}   loss {np.mean(losses):.4f}")
    seconds = time.perf_counter() - start
    accuracy = float(np.mean(predict(params, x_test) == y_test))
    print(f"test accuracy {accuracy:.1%} on {len(x_test)} images, {seconds:.1f} s in all")
    print(step.explain())


if __name__ == "__main__":
    main()
