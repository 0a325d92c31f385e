"""Read handwritten digits with a convolutional network, over five splits of the images.

Each image is in the test images of one split. The mean test accuracy stands beside that of the same
network in PyTorch (``tests/stored/conv_digits.py``). A file keeps each run after every epoch, and
``--resume`` goes on from there with the same bits as a run that was never interrupted.

    python examples/conv_digits.py [--epochs 30] [--stop 10] [--resume] [--splits 5] [--folder out]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pictures import curve
from sklearn.datasets import load_digits

import dlvm
from dlvm import nn, optim

PYTORCH = Path(__file__).parents[1] / "tests" / "stored" / "conv_digits.json"
BATCH, DROPOUT = 64, 0.3


@dataclass
class Conv:
    """A convolution over windows of 3 by 3, which keeps the size of the images."""

    weight: Any
    bias: Any

    def __call__(self, x):
        """Images (batch, height, width, channels)."""
        return nn.conv(x, self.weight) + self.bias


def conv(key, channels: int, out: int) -> Conv:
    """First parameters as PyTorch draws them, evenly up to one over the root of the fan."""
    first, second = dlvm.random.split(key, 2)
    end = 1 / math.sqrt(9 * channels)
    weight = dlvm.random.uniform(first, (3, 3, channels, out), "f32", -end, end)
    return Conv(weight, dlvm.random.uniform(second, (out,), "f32", -end, end))


def network(key) -> nn.Sequential:
    """Two convolutions, a pool, and two dense layers."""
    keys = dlvm.random.split(key, 4)
    convolutions = [conv(keys[0], 1, 16), nn.relu, conv(keys[1], 16, 32), nn.relu]
    first, last = nn.Linear(keys[2], 4 * 4 * 32, 64), nn.Linear(keys[3], 64, 10)
    return nn.Sequential([*convolutions, flat, first, nn.relu, nn.Dropout(DROPOUT), last])


def flat(x):
    """Each image as a row, at half the height and width."""
    return nn.max_pool(x, 2).reshape(x.shape[0], 4 * 4 * 32)


def adam(steps):
    """Adam at a rate that ends at 0 after some steps."""
    return optim.adam(optim.cosine_decay_schedule(2e-3, steps))


@dlvm.function(donate=("run",))
def step(run, x, y, steps):
    """One step of Adam; the new state of the run stands where the old one stood."""
    key = dlvm.random.fold_in(run["key"], run["step"])

    def loss(net):
        return nn.cross_entropy(net(x, key), y, reduction="mean")

    value, slope = dlvm.value_and_grad(loss)(run["net"])
    updates, state = adam(steps).update(slope, run["state"], run["net"])
    net = optim.apply(run["net"], updates)
    return {"net": net, "state": state, "key": run["key"], "step": run["step"] + 1}, value


@dlvm.function(dynamic={"x": "B,8,8,1"})
def predict(net, x):
    """The most likely digit of each image."""
    return dlvm.argmax(net(x, training=False), axis=-1)


def digits(split: int):
    """Training and test images of a split; the test images of five splits are all images."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x = (images[order] / 16).astype(np.float32).reshape(-1, 8, 8, 1)
    y, test = labels[order].astype(np.int32), np.arange(len(x)) % 5 == split
    return (x[~test], y[~test]), (x[test], y[test])


def train(x, y, seed: int, file: Path, options):
    """The network after training, and the loss of every step of this call."""
    net, key, losses = network(dlvm.random.key(seed)), dlvm.random.key(seed + 1000), []
    run = {"net": net, "state": adam(1).init(net), "key": key, "step": np.int64(0)}
    if options.resume and file.exists():
        run = dlvm.tree.map(np.array, dlvm.load(file, like=run))
    start, each = int(run["step"]), len(x) // BATCH
    for xs, ys in dlvm.batches(
        (x, y), BATCH, dlvm.random.key(seed + 2000), options.epochs, start, last="drop"
    ):
        run, value = step(run, xs, ys, options.epochs * each)
        losses.append(float(value))
        epoch, rest = divmod(int(run["step"]), each)
        if not rest:
            dlvm.save(file, run)
            if epoch in (1, options.epochs) or epoch % 10 == 0:
                print(f"  epoch {epoch}/{options.epochs}   loss {np.mean(losses[-each:]):.4f}")
            if epoch == options.stop:
                break
    return run["net"], losses


def main() -> None:
    """Train on each split, say how it went, draw."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--stop", type=int, help="end after this epoch, as if interrupted")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    found, curves, begin = [], [], time.perf_counter()
    for split in range(options.splits):
        (x, y), (x_test, y_test) = digits(split)
        file = options.folder / f"conv_digits-{split}.safetensors"
        net, losses = train(x, y, 10 * options.seed + split, file, options)
        found.append(float(np.mean(predict(net, x_test) == y_test)))
        curves += losses
        print(f"split {split}: {found[-1]:.2%} of {len(x_test)} test images", flush=True)
    seconds, theirs = time.perf_counter() - begin, json.loads(PYTORCH.read_text())["accuracy"]
    print(f"mean test accuracy {np.mean(found):.2%} after {seconds:.1f} s, compiling included")
    error = np.std(theirs, ddof=1) / math.sqrt(len(theirs))
    print(f"PyTorch after 30 epochs, {len(theirs)} runs: {np.mean(theirs):.2%} ± {error:.2%}")
    if curves:
        (options.folder / "conv_digits.svg").write_text(curve(curves, "loss of each step"))
        print(f"picture: {options.folder / 'conv_digits.svg'}")


if __name__ == "__main__":
    main()
