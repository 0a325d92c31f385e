"""Train a network that PyTorch has made, on scikit-learn's handwritten digits.

`digits.onnx` is a convolutional network as `torch.onnx.export` writes it (`make.py`), with an open
batch and random weights. The whole step of Adam is one staged function of the weights.

    python examples/onnx/train.py [--epochs 30] [--folder out]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import dlvm

model = dlvm.onnx.load(Path(__file__).with_name("digits.onnx"))


def loss(weights, images, labels):
    """Mean cross-entropy of a batch."""
    (logits,) = model.function(weights, images)
    return dlvm.nn.cross_entropy(logits, labels, reduction="mean")


def stepping(optimizer):
    """One step of training as a function of weights, state and a batch of any size."""

    @dlvm.function(donate=("weights", "state"), dynamic={"images": "B,64", "labels": "B"})
    def step(weights, state, images, labels):
        value, slope = dlvm.value_and_grad(loss)(weights, images, labels)
        updates, state = optimizer.update(slope, state, weights)
        return dlvm.optim.apply(weights, updates), state, value

    return step


def digits(seed: int):
    """Images with values from 0 to 1, and labels, shuffled and split four to one."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    x, y = (images[order] / 16).astype(np.float32), labels[order].astype(np.int32)
    cut = len(x) * 4 // 5
    return (x[:cut], y[:cut]), (x[cut:], y[cut:])


def accuracy(weights, images, labels) -> float:
    """The share of images whose digit is the most likely one."""
    (logits,) = dlvm.function(model.function)(weights, images)
    return float(np.mean(np.argmax(logits, axis=-1) == labels))


def trained(images, labels, epochs: int, batch: int):
    """The weights after training, and the mean loss of the last epoch."""
    steps = epochs * -(-len(images) // batch)
    optimizer = dlvm.optim.adam(dlvm.optim.cosine_decay_schedule(5e-3, steps))
    step, rng = stepping(optimizer), np.random.default_rng(1)
    weights = {name: w.copy() for name, w in model.weights.items()}  # the step overwrites them
    state = optimizer.init(weights)
    losses: list[float] = []
    for _ in range(epochs):
        order = rng.permutation(len(images))
        losses = []
        for start in range(0, len(images), batch):
            rows = order[start : start + batch]
            weights, state, value = step(weights, state, images[rows], labels[rows])
            losses.append(float(value))
    return weights, float(np.mean(losses))


def main() -> None:
    """Train, say how it went, keep the weights."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    print(model)
    (x, y), (x_test, y_test) = digits(seed=0)
    print(f"before training {accuracy(model.weights, x_test, y_test):.1%} of new images are read")
    start = time.perf_counter()
    weights, last = trained(x, y, options.epochs, options.batch)
    print(f"{options.epochs} epochs in {time.perf_counter() - start:.1f} s, loss {last:.4f}")
    print(f"test accuracy {accuracy(weights, x_test, y_test):.1%} of {len(x_test)} new images")
    options.folder.mkdir(parents=True, exist_ok=True)
    dlvm.save(options.folder / "digits.safetensors", weights)


if __name__ == "__main__":
    main()
