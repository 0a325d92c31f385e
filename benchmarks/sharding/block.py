"""A training step of a transformer block, in the functions that dlvm and jax.numpy share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

BATCH, STEPS, WIDTH, HEADS = 16, 32, 64, 8
SHAPES = {
    "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH),
    "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH),
    "gain1": (WIDTH,), "gain2": (WIDTH,),
}  # fmt: skip
"""The parameters of the block."""
Names = dict[str, tuple[str | None, ...]]


def columns(axis: str | None, other: str | None) -> Names:
    """Weights whose columns, then rows, are shared along ``axis``, and the others by ``other``."""
    first, second = (other, axis), (axis, other)
    return {
        **dict.fromkeys(("query", "key", "value", "up"), first),
        **dict.fromkeys(("out", "down"), second),
        "gain1": (None,),
        "gain2": (None,),
    }


WAYS: dict[str, tuple[dict[str, int], Names, tuple[str | None, ...]]] = {
    "data parallel": ({"data": 8}, columns(None, None), ("data",)),
    "Megatron": ({"model": 8}, columns("model", None), (None,)),
    "FSDP": (
        {"data": 8},
        {n: ("data", *(None,) * (len(s) - 1)) for n, s in SHAPES.items()},
        ("data",),
    ),
    "mixed": ({"data": 2, "model": 4}, columns("model", "data"), ("data",)),
}
"""The mesh of each way to share the work, what shares the weights, and what shares the batch."""


def step(xp: Any, gradient: Callable[..., Any], rate: float = 0.1) -> Callable[..., Any]:
    """The step with functions of a library and its ``value_and_grad``."""

    def norm(x: Any, gain: Any) -> Any:
        scale = xp.mean(x * x, axis=-1, keepdims=True) + 1e-6
        return x / xp.sqrt(scale) * gain

    def heads(x: Any) -> Any:
        return xp.permute_dims(xp.reshape(x, (BATCH, STEPS, HEADS, WIDTH // HEADS)), (0, 2, 1, 3))

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = norm(x, p["gain1"])
        q, k, v = (heads(h @ p[n]) for n in ("query", "key", "value"))
        scores = q @ xp.permute_dims(k, (0, 1, 3, 2)) / math.sqrt(WIDTH // HEADS)
        weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        weights = weights / xp.sum(weights, axis=-1, keepdims=True)
        mixed = xp.reshape(xp.permute_dims(weights @ v, (0, 2, 1, 3)), (BATCH, STEPS, WIDTH))
        x = x + mixed @ p["out"]
        up = norm(x, p["gain2"]) @ p["up"]
        out = x + xp.maximum(up, 0.0) @ p["down"]
        return xp.mean((out - y) ** 2)

    def one(p: Any, x: Any, y: Any) -> Any:
        value, slopes = gradient(loss)(p, x, y)
        return {n: p[n] - rate * slopes[n] for n in p}, value

    return one


def arrays() -> tuple[dict[str, Any], Any, Any]:
    """Parameters and a batch."""
    rng = np.random.default_rng(0)
    p = {n: (rng.normal(size=s) / 8).astype("f4") for n, s in SHAPES.items()}
    x, y = (rng.normal(size=(BATCH, STEPS, WIDTH)).astype("f4") for _ in range(2))
    return p, x, y
