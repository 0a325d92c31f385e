"""Add two marked numbers of a sequence with an LSTM, the test of its inventors.

Each step of a sequence is a number from 0 to 1 and a mark; two steps are marked, one in each half,
and the sum of their numbers is asked for at the end (Hochreiter and Schmidhuber, 1997, 5.4).
Who knows the mean only is wrong by 0.167 in the mean square; a sequence counts as solved where the
answer is wrong by less than 0.04. Sequences are drawn inside the step itself.

    python examples/lstm.py [--steps 2000] [--length 40] [--folder out]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pictures import curve

import dlvm
from dlvm import nn, optim

BATCH, HIDDEN, CLOSE = 64, 64, 0.04


@dataclass
class Adder:
    """An LSTM that reads the sequence, and a layer that answers from its last state."""

    lstm: nn.LSTM
    out: nn.Linear

    def __call__(self, x: Any) -> Any:
        """Sequences (batch, time, 2) as one number each."""
        _, (h, _) = self.lstm(x)
        return self.out(h)[:, 0]


def adder(key: Any) -> Adder:
    """First parameters; the gate that forgets begins open, so that states last."""
    first, second = dlvm.random.split(key, 2)
    net = Adder(nn.LSTM(first, 2, HIDDEN), nn.Linear(second, HIDDEN, 1))
    net.lstm.b_ih[HIDDEN : 2 * HIDDEN] = 1.0
    return net


def sequences(key: Any, count: int, length: int) -> Any:
    """Sequences (count, length, 2), and the sums of the numbers that are marked."""
    keys = dlvm.random.split(key, 3)
    numbers = dlvm.random.uniform(keys[0], (count, length), "f32")
    first = dlvm.random.randint(keys[1], (count, 1), 0, length // 2)
    second = dlvm.random.randint(keys[2], (count, 1), length // 2, length)
    places = dlvm.arange(length)
    marks = dlvm.astype((places == first) | (places == second), "f32")
    return dlvm.stack([numbers, marks], axis=-1), (numbers * marks).sum(-1)


def trained(net: Any, key: Any, steps: int, length: int) -> Any:
    """The network after some steps, and the loss of each."""
    rate = optim.cosine_decay_schedule(1e-2, steps)
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(rate))

    @dlvm.function(donate=("net", "state"))
    def step(net: Any, state: Any, key: Any) -> Any:
        x, y = sequences(key, BATCH, length)

        def loss(net: Any) -> Any:
            return nn.mse_loss(net(x), y, reduction="mean")

        value, slope = dlvm.value_and_grad(loss)(net)
        updates, state = optimizer.update(slope, state, net)
        return optim.apply(net, updates), state, value

    state, start = optimizer.init(net), time.perf_counter()
    losses: list[float] = []
    for i in range(1, steps + 1):
        net, state, value = step(net, state, dlvm.random.fold_in(key, i))
        losses.append(float(value))
        if i == 1:
            print(f"first step, compiling included: {time.perf_counter() - start:.1f} s")
        if i % 250 == 0:
            print(f"step {i:5d}/{steps}   mean square {np.mean(losses[-100:]):.5f}", flush=True)
    return net, losses


@dlvm.function
def answers(net: Any, x: Any) -> Any:
    """What a network says of sequences."""
    return net(x)


def main() -> None:
    """Train, say how many new sequences are solved, draw."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    keys = dlvm.random.split(dlvm.random.key(0), 3)
    start = time.perf_counter()
    net, losses = trained(adder(keys[0]), keys[1], options.steps, options.length)
    print(f"{options.steps} steps in {time.perf_counter() - start:.1f} s")
    x, y = sequences(keys[2], 2000, options.length)
    wrong: npt.NDArray[np.float64] = answers(net, x) - y
    solved = float(np.mean(np.abs(wrong) < CLOSE))
    print(f"mean square of 2000 new sequences {np.mean(wrong**2):.5f}, of the mean {np.var(y):.3f}")
    print(f"{solved:.1%} of them are solved, wrong by less than {CLOSE}")
    (options.folder / "lstm.svg").write_text(curve(losses, "mean square of each step"))
    print(f"picture: {options.folder / 'lstm.svg'}")


if __name__ == "__main__":
    main()
