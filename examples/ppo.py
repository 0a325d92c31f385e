"""Balance a pole on a cart by proximal policy optimisation (Schulman et al., 2017).

The carts are written in NumPy, the loops in Python, and nothing is staged. A player is two
networks: one says what to do, the other how many more steps to expect, of 500 at most.

    python examples/ppo.py [--turns 100] [--folder out]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from pictures import curve, save

import dlvm
from dlvm import nn, optim, random

TURNS, CARTS, STEPS, EPOCHS, BATCH, LONGEST = 100, 16, 128, 4, 512, 500
DISCOUNT, TRACE, CLIP = 0.99, 0.95, 0.2


class Carts:
    """Poles on carts that are pushed left or right (Barto, Sutton and Anderson, 1983)."""

    def __init__(self, dice: np.random.Generator) -> None:
        self.dice = dice
        self.lengths: list[int] = []
        self.age, self.x = np.zeros(CARTS, int), self.drawn()

    def drawn(self) -> np.ndarray:
        return self.dice.uniform(-0.05, 0.05, (CARTS, 4)).astype(np.float32)

    def push(self, right: np.ndarray) -> np.ndarray:
        """Moves all carts for 0.02 s, and says which episodes have ended."""
        _, v, angle, w = self.x.T
        sin, cos = np.sin(angle), np.cos(angle)
        push = (20 * right.astype(np.float32) - 10 + 0.05 * w**2 * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        moved = self.x + 0.02 * np.stack([v, push - 0.05 * turn * cos / 1.1, w, turn], axis=1)
        self.age += 1
        over = (abs(moved[:, 0]) > 2.4) | (abs(moved[:, 2]) > 0.2095) | (self.age >= LONGEST)
        self.lengths.extend(self.age[over])
        self.age[over] = 0
        self.x = np.where(over[:, None], self.drawn(), moved)
        return over


def loss(player, x, action, before, gain, target):
    """The clipped objective of the policy, the error of the values, and less for uncertainty."""
    policy, value = player
    scores = policy(x)
    logs = nn.log_softmax(scores)
    ratio = dlvm.exp(-nn.cross_entropy(scores, action) - before)
    clipped = dlvm.clip(ratio, 1 - CLIP, 1 + CLIP)
    error = ((value(x)[:, 0] - target) ** 2).mean()
    entropy = -(dlvm.exp(logs) * logs).sum(axis=1).mean()
    return -dlvm.minimum(ratio * gain, clipped * gain).mean() + 0.5 * error - 0.01 * entropy


rate = optim.linear_schedule(1e-3, 0.0, TURNS * EPOCHS * CARTS * STEPS // BATCH)
optimizer = optim.chain(optim.clip_by_global_norm(0.5), optim.adam(rate))


def played(player, carts: Carts, key) -> list[np.ndarray]:
    """States, actions, their log-probabilities, values, and which episodes end, of each step."""
    (policy, value), rows = player, []
    for n in range(STEPS):
        scores, x = policy(carts.x), carts.x
        action = random.categorical(random.fold_in(key, n), scores)
        logs = -nn.cross_entropy(scores, action)
        rows.append((x, action, logs, value(x)[:, 0], carts.push(action)))
    return [np.stack(column) for column in zip(*rows, strict=True)]


def gains(value: np.ndarray, over: np.ndarray, last: np.ndarray) -> np.ndarray:
    """How much better than expected each step went on (Schulman et al., 2016); each gives 1."""
    found, gain = np.zeros_like(value), np.zeros_like(last)
    for n in reversed(range(STEPS)):
        error = 1 + DISCOUNT * last * ~over[n] - value[n]
        found[n] = gain = error + DISCOUNT * TRACE * gain * ~over[n]
        last = value[n]
    return found


def turn(player, state, carts: Carts, key, dice: np.random.Generator):
    """The player after a round of playing and of learning from it."""
    x, action, logs, value, over = played(player, carts, key)
    gain = gains(value, over, player[1](carts.x)[:, 0])
    data = [x.reshape(-1, 4), *(a.ravel() for a in (action, logs, gain, gain + value))]
    for _ in range(EPOCHS):
        for rows in dice.permutation(CARTS * STEPS).reshape(-1, BATCH):
            x, action, logs, gain, target = (a[rows] for a in data)
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            slope = dlvm.grad(loss)(player, x, action, logs, gain, target)
            updates, state = optimizer.update(slope, state, player)
            player = optim.apply(player, updates)
    return player, state


def main() -> None:
    """Play and learn, and say how long poles stay up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    dice, (one, two, key) = np.random.default_rng(0), random.split(random.key(0), 3)
    player = nn.MLP(one, (4, 64, 64, 2), dlvm.tanh), nn.MLP(two, (4, 64, 64, 1), dlvm.tanh)
    carts, state, start, kept = Carts(dice), optimizer.init(player), time.perf_counter(), []
    for n in range(options.turns):
        player, state = turn(player, state, carts, random.fold_in(key, n), dice)
        kept.append(float(np.mean(carts.lengths[-50:])))
    print(f"{(time.perf_counter() - start) / options.turns * 1e3:.1f} ms for each turn")
    print(f"poles stay up for {kept[0]:.0f} steps at first, {kept[-1]:.0f} at the end")
    save(options.folder / "ppo.svg", curve(kept, "steps that a pole stays up, of 500"))


if __name__ == "__main__":
    main()
