"""Activations and losses, as functions on staged and on plain arrays."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.namespace import xp


def relu(x: Any) -> Any:
    """``max(x, 0)``; its derivative at 0 is 0, and NaN stays NaN."""
    return xp.where(xp.less_equal(x, 0), 0, x)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``, written with tanh so that nothing overflows."""
    return xp.tanh(x * 0.5) * 0.5 + 0.5


def log_softmax(x: Any, axis: int = -1) -> Any:
    """``x - log(sum(exp(x)))`` along an axis."""
    return xp.subtract(x, xp.logsumexp(x, axis=axis, keepdims=True))


def softmax(x: Any, axis: int = -1) -> Any:
    """``exp(x) / sum(exp(x))`` along an axis."""
    return xp.exp(log_softmax(x, axis))


def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """For each example, minus the log-probability of its integer label."""
    places = xp.expand_dims(labels, axis)
    picked = xp.squeeze(xp.take_along_axis(logits, places, axis), axis)
    return xp.subtract(xp.logsumexp(logits, axis=axis), picked)
