"""Losses of classification."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.words.namespace import xp
from dlvm.nn import log_softmax
from dlvm.onnx.table import Call, operation

from .operands import kind, shape


@operation("NegativeLogLikelihoodLoss")
def _negative_log_likelihood(call: Call, x: Any, labels: Any, weight: Any = None) -> Any:
    return _loss(call, x, labels, weight)


@operation("SoftmaxCrossEntropyLoss")
def _softmax_cross_entropy(call: Call, x: Any, labels: Any, weight: Any = None) -> Any:
    logs = log_softmax(x, axis=1)
    return _loss(call, logs, labels, weight), logs


def _loss(call: Call, logs: Any, labels: Any, weight: Any) -> Any:
    """The weighted loss of each label, their sum, or their mean; ignored labels weigh nothing."""
    ignored = call.get("ignore_index")
    counts = xp.ones(shape(labels), dtype=kind(logs))
    if ignored is not None:
        used = labels != ignored
        labels = xp.where(used, labels, xp.zeros_like(labels))
        counts = xp.where(used, counts, xp.zeros_like(counts))
    if weight is not None:
        counts = counts * xp.reshape(xp.take(weight, xp.reshape(labels, (-1,))), shape(labels))
    picked = xp.take_along_axis(logs, xp.expand_dims(labels, 1), axis=1)
    losses = -xp.squeeze(picked, axis=1) * counts
    reduction = call.get("reduction", "mean")
    if reduction == "none":
        return losses
    total = xp.sum(losses)
    return total if reduction == "sum" else total / xp.sum(counts)
