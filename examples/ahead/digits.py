"""Train on handwritten digits here, then recognise them in a C program and in a web page.

python examples/ahead/digits.py build
cc -Ibuild examples/ahead/digits.c build/digits.o -o build/digits && (cd build && ./digits)
# and open build/web/digits.html: draw a digit, and see whether WebGPU or WebAssembly read it
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import dlvm
from dlvm import nn, optim

TRAINED = 1400
"""Images to learn from; the others are only recognised."""


def scores(params, x):
    """The score of each digit, for images of 64 numbers from 0 to 1."""
    hidden = dlvm.maximum(x @ params["w1"] + params["b1"], 0)
    return hidden @ params["w2"] + params["b2"]


def loss(params, x, y):
    """Mean cross-entropy."""
    return nn.cross_entropy(scores(params, x), y).mean()


def trained(x, y, steps):
    """Parameters after some steps of Adam on all images at once."""
    dice = np.random.default_rng(0)
    params = {
        "w1": dice.normal(size=(64, 48), scale=0.15).astype(np.float32),
        "b1": np.zeros(48, np.float32),
        "w2": dice.normal(size=(48, 10), scale=0.15).astype(np.float32),
        "b2": np.zeros(10, np.float32),
    }
    adam = optim.adam(0.02)
    state = adam.init(params)

    @dlvm.function
    def step(params, state):
        updates, state = adam.update(dlvm.grad(loss)(params, x, y), state, params)
        return optim.apply(params, updates), state

    for _ in range(steps):
        params, state = step(params, state)
    return params


def main(folder: Path, steps: int = 150) -> list[int]:
    """Writes objects and a page; gives the digits that Python sees in the other images."""
    pixels, y = load_digits(return_X_y=True)
    x = np.asarray(pixels / 16, np.float32)
    params = trained(x[:TRAINED], y[:TRAINED], steps)

    def digits(x):
        return nn.softmax(scores(params, x), axis=1)

    others = x[TRAINED:]
    dlvm.aot(digits, dlvm.spec("f32[1,64]"), out=folder)
    dlvm.aot(digits, others[:1], target="webgpu", out=folder / "web", page=True)
    (folder / "images.bin").write_bytes(others.tobytes())
    seen = np.asarray(dlvm.function(digits)(others)).argmax(axis=1)
    right = (seen == y[TRAINED:]).mean()
    print(f"{right:.1%} of {len(others)} images that were not learnt from are right")
    return [int(digit) for digit in seen]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
