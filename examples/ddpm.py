"""Draw points of a spiral with a diffusion model (Ho, Jain and Abbeel, 2020), without a decorator.

A network is trained to name the noise in a noisy point. From pure noise, what it names is taken
away step by step, until points of the spiral are left. Nothing is staged: gradients of a lambda,
optimiser steps, random numbers and the network run as programs of their own.

    python examples/ddpm.py [--steps 4000] [--folder out]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from pictures import scatter

import dlvm
from dlvm import nn, optim, random

LEVELS, BATCH = 100, 256
BETA = np.linspace(1e-4, 0.05, LEVELS, dtype=np.float32)
"""The variance of the noise that each level adds."""
ALPHA = 1 - BETA
LEFT = np.cumprod(ALPHA)
"""The part of the variance that is the point's own, at each level."""


def spiral(count: int, dice: np.random.Generator) -> np.ndarray:
    """Points of a spiral, with a little noise."""
    angle = 3 * np.pi * np.sqrt(dice.uniform(0.05, 1, count))
    x = np.stack([np.cos(angle), np.sin(angle)], 1) * (angle / (3 * np.pi))[:, None] * 2
    return (x + 0.03 * dice.normal(size=x.shape)).astype(np.float32)


def noise_in(net: Any, x: Any, level: Any) -> Any:
    """The noise that the network sees in points (batch, 2), of the levels (batch,)."""
    t = level[:, None].astype(np.float32) / LEVELS
    return net(dlvm.concat([x, t, dlvm.sin(6 * t), dlvm.cos(6 * t)], axis=1))


def loss(net: Any, x: Any, level: Any, noise: Any) -> Any:
    """The mean square of what the network does not see of the noise."""
    return ((noise_in(net, x, level) - noise) ** 2).mean()


optimizer = optim.adam(1e-3)


def step(net: Any, state: Any, x: Any, key: Any) -> Any:
    """The network after a batch of points, and the loss before."""
    now, then = random.split(key)
    level = random.randint(now, (len(x),), 0, LEVELS)
    noise = random.normal(then, x.shape, "f32")
    part = LEFT[level][:, None]
    noisy = np.sqrt(part) * x + np.sqrt(1 - part) * noise
    value, slope = dlvm.value_and_grad(loss)(net, noisy, level, noise)
    updates, state = optimizer.update(slope, state, net)
    return optim.apply(net, updates), state, value


def train(steps: int, key: np.ndarray, dice: np.random.Generator) -> Any:
    """A network that has seen as many batches, and the loss of each."""
    net = nn.MLP(key, (5, 128, 128, 2), nn.silu)
    state = optimizer.init(net)
    losses: list[float] = []
    for n in range(steps):
        net, state, value = step(net, state, spiral(BATCH, dice), random.fold_in(key, n))
        losses.append(float(value))
    return net, losses


def drawn(net: Any, count: int, key: np.ndarray) -> np.ndarray:
    """Points that the network draws from noise."""
    key, now = random.split(key)
    x = random.normal(now, (count, 2), "f32")
    for t in reversed(range(LEVELS)):
        key, now = random.split(key)
        noise = noise_in(net, x, np.full(count, t))
        x = (x - BETA[t] / np.sqrt(1 - LEFT[t]) * noise) / np.sqrt(ALPHA[t])
        if t:
            x = x + np.sqrt(BETA[t]) * random.normal(now, x.shape, "f32")
    return x


def distance(x: np.ndarray, others: np.ndarray) -> float:
    """The mean distance to the nearest of other points."""
    return float(np.sqrt(((x[:, None] - others) ** 2).sum(-1)).min(1).mean())


def main() -> None:
    """Train, draw, and say how near to the spiral the points are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    dice, start = np.random.default_rng(0), time.perf_counter()
    net, losses = train(options.steps, random.key(0), dice)
    seconds = time.perf_counter() - start
    print(f"{options.steps} steps in {seconds:.1f} s, {seconds / options.steps * 1e3:.2f} ms each")
    print(f"loss {np.mean(losses[:20]):.3f}, at the end {np.mean(losses[-100:]):.3f}")
    points, known = drawn(net, 1000, random.key(1)), spiral(4000, dice)
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "ddpm.svg"
    file.write_text(scatter(points, f"1,000 points after {options.steps} steps"))
    noise = dice.normal(size=points.shape)
    print(f"distance from the spiral {distance(points, known):.3f}")
    print(f"distance of noise from it {distance(noise, known):.3f}")
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
