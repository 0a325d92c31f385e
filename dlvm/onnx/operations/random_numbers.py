"""Random numbers. Their bits are those of ``dlvm.random``, not those of other libraries.

A node draws from the key that the caller gives, else from the seed that it has. A node without a
seed has one that is chosen by its place in the model, so that results are the same in every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm import random
from dlvm.dsl.words.namespace import xp
from dlvm.onnx.table import Call, operation
from dlvm.onnx.tensors import dtype_of

from .operands import kind, shape


def random_key(call: Call, required: bool = False) -> Any:
    """The key of a node; one that must not draw the same numbers each time has to be given one."""
    if call.key is not None:
        return random.fold_in(call.key, call.number())
    if "seed" in call.attributes:
        return random.key(int(call["seed"]))
    if required:
        raise call.unsupported(
            "it draws random numbers, and has no seed",
            "give a key: m.function(weights, x, random_key=dlvm.random.key(0))",
        )
    return random.fold_in(random.key(0), call.number())


def _type(call: Call, x: Any = None) -> np.dtype[Any]:
    if "dtype" in call.attributes:
        return dtype_of(call["dtype"])
    return np.dtype(np.float32) if x is None else kind(x)


def _normal(call: Call, sizes: Any, dtype: np.dtype[Any]) -> Any:
    found = random.normal(random_key(call), sizes, np.float64)
    return xp.astype(found * call.get("scale", 1.0) + call.get("mean", 0.0), dtype)


def _uniform(call: Call, sizes: Any, dtype: np.dtype[Any]) -> Any:
    low, high = call.get("low", 0.0), call.get("high", 1.0)
    found = random.uniform(random_key(call), sizes, np.float64, low, high)
    return xp.astype(found, dtype)


@operation("RandomNormal")
def _random_normal(call: Call) -> Any:
    return _normal(call, tuple(call["shape"]), _type(call))


@operation("RandomUniform")
def _random_uniform(call: Call) -> Any:
    return _uniform(call, tuple(call["shape"]), _type(call))


@operation("RandomNormalLike")
def _random_normal_like(call: Call, x: Any) -> Any:
    return _normal(call, shape(x), _type(call, x))


@operation("RandomUniformLike")
def _random_uniform_like(call: Call, x: Any) -> Any:
    return _uniform(call, shape(x), _type(call, x))


@operation("Bernoulli")
def _bernoulli(call: Call, p: Any) -> Any:
    return xp.astype(random.bernoulli(random_key(call), p, shape(p)), _type(call, p))


@operation("Multinomial")
def _multinomial(call: Call, logits: Any) -> Any:
    count, dtype = call.get("sample_size", 1), dtype_of(call.get("dtype", 6))
    rows = xp.broadcast_to(xp.expand_dims(logits, 1), (shape(logits)[0], count, shape(logits)[1]))
    return xp.astype(random.categorical(random_key(call), rows), dtype)
