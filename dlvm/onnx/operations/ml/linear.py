"""Linear models: regressions and classifiers whose scores are one product."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.table import Call, operation

from .scores import choose, classes, floats, second_if, single, transformed


def _scores(call: Call, x: Any, count: int) -> Any:
    """``x wᵀ + b``"""
    weights, bias = floats(call, "coefficients"), floats(call, "intercepts")
    scores = xp.matmul(single(x), weights.reshape(count, -1).T)
    return scores + bias if bias.size else scores


@operation("ai.onnx.ml::LinearRegressor")
def _linear_regressor(call: Call, x: Any) -> Any:
    return transformed(call, _scores(call, x, call.get("targets", 1)))


@operation("ai.onnx.ml::LinearClassifier")
def _linear_classifier(call: Call, x: Any) -> Any:
    count = len(call.get("intercepts", ())) or classes(call)
    scores = _scores(call, x, count)
    if count > 1 or classes(call) != 2:
        return choose(call, scores), transformed(call, scores)
    labels = second_if(call, scores > 0)
    second = transformed(call, scores)
    return labels, xp.concat([1 - second, second], axis=1)
