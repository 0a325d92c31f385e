"""Normalisation, and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm import random
from dlvm.dsl.words.namespace import xp
from dlvm.onnx.table import Call, operation
from dlvm.onnx.tensors import dtype_of

from .operands import axis_of, kind, like, rank, shape
from .random_numbers import random_key


def _channels(x: Any, count: int) -> Any:
    """A vector of channels beside arrays (batch, channels, ...)."""
    return xp.reshape(x, (1, -1, *(1,) * (count - 2)))


def _statistics(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    return xp.mean(x, axis=axes, keepdims=True), xp.var(x, axis=axes, keepdims=True)


@operation("BatchNormalization")
def _batch_normalization(call: Call, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    count, eps = rank(x), call.get("epsilon", 1e-5)
    training = bool(call.get("training_mode", 0)) or call.training
    if training:
        axes = tuple(k for k in range(count) if k != 1)
        now, spread = xp.mean(x, axis=axes), xp.var(x, axis=axes)
    else:
        now, spread = mean, var
    factor = scale / xp.sqrt(spread + eps)
    found = like((x - _channels(now, count)) * _channels(factor, count) + _channels(bias, count), x)
    if not training:
        return found, mean, var
    keep = call.get("momentum", 0.9)
    old = [like(keep * a + (1 - keep) * b, a) for a, b in ((mean, now), (var, spread))]
    return found, *old


@operation("InstanceNormalization")
def _instance_normalization(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    mean, var = _statistics(x, tuple(range(2, rank(x))))
    found = (x - mean) / xp.sqrt(var + call.get("epsilon", 1e-5))
    return like(found * _channels(scale, rank(x)) + _channels(bias, rank(x)), x)


@operation("LayerNormalization")
def _layer_normalization(call: Call, x: Any, scale: Any, bias: Any = None) -> Any:
    wide = xp.astype(x, dtype_of(call.get("stash_type", 1))) if kind(x).itemsize < 4 else x
    axes = tuple(range(axis_of(call.get("axis", -1), rank(x)), rank(x)))
    mean, var = _statistics(wide, axes)
    inverse = 1 / xp.sqrt(var + call.get("epsilon", 1e-5))
    found = like((wide - mean) * inverse, x) * scale
    return (found if bias is None else found + bias), mean, inverse


@operation("RMSNormalization", "SimplifiedLayerNormalization")
def _rms_normalization(call: Call, x: Any, scale: Any) -> Any:
    wide = xp.astype(x, dtype_of(call.get("stash_type", 1))) if kind(x).itemsize < 4 else x
    axes = tuple(range(axis_of(call.get("axis", -1), rank(x)), rank(x)))
    mean = xp.mean(wide * wide, axis=axes, keepdims=True)
    return like(wide / xp.sqrt(mean + call.get("epsilon", 1e-5)), x) * scale


@operation("GroupNormalization")
def _group_normalization(call: Call, x: Any, scale: Any, bias: Any) -> Any:
    groups, count = call["num_groups"], rank(x)
    rows = xp.reshape(x, (shape(x)[0], groups, -1))
    mean, var = _statistics(rows, (2,))
    found = like((rows - mean) / xp.sqrt(var + call.get("epsilon", 1e-5)), x)
    if call.version < 21:  # one scale for each group
        found = found * xp.reshape(scale, (1, -1, 1)) + xp.reshape(bias, (1, -1, 1))
        return xp.reshape(found, shape(x))
    return xp.reshape(found, shape(x)) * _channels(scale, count) + _channels(bias, count)


@operation("MeanVarianceNormalization")
def _mean_variance_normalization(call: Call, x: Any) -> Any:
    axes = tuple(call.get("axes", (0, 2, 3)))
    mean, var = _statistics(x, axes)
    return (x - mean) / (xp.sqrt(var) + 1e-9)


@operation("LpNormalization")
def _lp_normalization(call: Call, x: Any) -> Any:
    axis = call.get("axis", -1)
    if call.get("p", 2) == 1:
        norm = xp.sum(xp.abs(x), axis=axis, keepdims=True)
    else:
        norm = xp.sqrt(xp.sum(x * x, axis=axis, keepdims=True))
    zero = norm == 0
    return xp.where(zero, xp.zeros_like(x), x / xp.where(zero, xp.ones_like(norm), norm))


@operation("Dropout", known=(1, 2))
def _dropout(call: Call, x: Any, ratio: Any = None, training: Any = None) -> Any:
    rate = float(np.reshape(ratio, ())) if ratio is not None else call.get("ratio", 0.5)
    active = call.training or (training is not None and bool(np.reshape(training, ())))
    if not active or rate == 0:
        return x, xp.ones(shape(x), dtype=np.bool_)
    kept = random.bernoulli(random_key(call, required=True), 1 - rate, shape(x))
    return xp.where(kept, like(x / (1 - rate), x), xp.zeros_like(x)), kept
