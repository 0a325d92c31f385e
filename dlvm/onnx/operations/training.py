"""The domain of training: steps of optimisers, and the gradient of a part of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm.dsl.derive.derivatives import grad
from dlvm.dsl.words.namespace import xp
from dlvm.onnx.graphs import concrete
from dlvm.onnx.table import Call, operation

from .operands import like, scalar

DOMAIN = "ai.onnx.preview.training"
Update = Callable[..., tuple[Any, ...]]


def _each(update: Update, rate: Any, count: Any, rows: tuple[Any, ...], per: int) -> Any:
    """Runs an update for each parameter; operands and results stand by kind, then by parameter."""
    many = len(rows) // per
    rate, count = scalar(concrete(rate)), scalar(concrete(count))
    found = [update(rate, count, *rows[k::many]) for k in range(many)]
    return tuple(x[j] for j in range(per - 1) for x in found)


@operation(f"{DOMAIN}::Adagrad")
def _adagrad(call: Call, rate: Any, count: Any, *rows: Any) -> Any:
    decay, eps = call.get("decay_factor", 0.0), call.get("epsilon", 1e-6)

    def update(rate: Any, count: Any, x: Any, g: Any, h: Any) -> tuple[Any, ...]:
        g = call.get("norm_coefficient", 0.0) * x + g
        h = h + g * g
        rate = like(rate / (1 + xp.astype(count, x.dtype) * decay), x)
        return x - rate * g / (xp.sqrt(h) + eps), h

    return _each(update, rate, count, rows, 3)


@operation(f"{DOMAIN}::Adam")
def _adam(call: Call, rate: Any, count: Any, *rows: Any) -> Any:
    first, second = call.get("alpha", 0.9), call.get("beta", 0.999)
    after = call.get("norm_coefficient_post", 0.0)

    def update(rate: Any, count: Any, x: Any, g: Any, v: Any, h: Any) -> tuple[Any, ...]:
        g = call.get("norm_coefficient", 0.0) * x + g
        v, h = first * v + (1 - first) * g, second * h + (1 - second) * g * g
        steps = xp.astype(xp.maximum(count, 1), x.dtype)
        unbiased = rate * xp.sqrt(1 - second**steps) / (1 - first**steps)
        rate = like(xp.where(count > 0, unbiased, rate), x)
        x = x - rate * (v / (xp.sqrt(h) + call.get("epsilon", 1e-6)))
        return (1 - after) * x, v, h

    return _each(update, rate, count, rows, 4)


@operation(f"{DOMAIN}::Momentum")
def _momentum(call: Call, rate: Any, count: Any, *rows: Any) -> Any:
    keep, nesterov = call["alpha"], call["mode"] == "nesterov"

    def update(rate: Any, count: Any, x: Any, g: Any, v: Any) -> tuple[Any, ...]:
        g = call["norm_coefficient"] * x + g
        v = keep * v + like(xp.where(count > 0, call["beta"], 1.0), x) * g
        return x - like(rate, x) * (g + keep * v if nesterov else v), v

    return _each(update, rate, count, rows, 3)


@operation(f"{DOMAIN}::Gradient", bodies=True)
def _gradient(call: Call, *operands: Any) -> Any:
    """The gradient of the sum of a value of the graph with respect to others."""
    names, wanted, again = call["xs"], call["y"], call.again
    if again is None:
        raise call.unsupported("it stands outside of a graph", "put it into the graph of the model")

    def total(values: tuple[Any, ...]) -> Any:
        changed = dict(zip(names, values, strict=True))
        return xp.sum(concrete(again(changed, wanted)))

    return grad(total)(tuple(map(concrete, operands[: len(names)])))
