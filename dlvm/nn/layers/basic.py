"""Layers as dataclasses: their fields are parameters, so that a network is a tree of arrays.

A layer is made of a key and sizes, and called with rows of features::

    net = nn.Sequential([nn.Linear(k1, 784, 512), nn.relu, nn.Linear(k2, 512, 10)])
    y = net(x)

There is no module system behind it: a layer is an argument like any other, its gradient is a layer,
and ``dlvm.tree.map`` goes over both. Parameters are f32 unless ``dtype`` says otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from dlvm.base.errors import UserError
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.names import named
from dlvm.dsl.words.namespace import xp
from dlvm.nn.dense import dense, embedding, embedding_bag
from dlvm.nn.dropout import dropout
from dlvm.nn.initializers import normal, ones, zeros
from dlvm.nn.norms import batch_norm, group_norm, layer_norm, rms_norm

from .shown import Layer

if TYPE_CHECKING:
    from dlvm.dsl.trace.typed import Array


def evenly(key: Any, shape: tuple[int, ...], fan: int, dtype: Any) -> Any:
    """Numbers from ``-1 / sqrt(fan)`` to ``1 / sqrt(fan)``, as PyTorch's layers begin."""
    end = 1 / math.sqrt(max(fan, 1))
    return named("random.uniform")(key, shape, dtype, -end, end)


def keys_of(key: Any, count: int) -> list[Any]:
    """Keys that are independent of one another."""
    keys = named("random.split")(key, count)
    return [keys[i] for i in range(count)]


@dataclass(init=False, eq=False, repr=False)
class Linear(Layer):
    """``x @ weight + bias``, with a weight of shape (in, out)."""

    weight: Any
    bias: Any

    @facing_users
    def __init__(
        self, key: Any, in_features: int, out_features: int, bias: bool = True, dtype: Any = "f32"
    ) -> None:
        """Sets the initial parameters."""
        first, second = keys_of(key, 2)
        self.weight = evenly(first, (in_features, out_features), in_features, dtype)
        self.bias = evenly(second, (out_features,), in_features, dtype) if bias else None

    def __call__(self, x: Any) -> Array:
        """Rows of ``in`` features as rows of ``out``."""
        return dense(x, self.weight, self.bias)


@dataclass(init=False, eq=False, repr=False)
class Embedding(Layer):
    """A row of features for each whole number below ``count``; normal numbers at first."""

    weight: Any

    @facing_users
    def __init__(self, key: Any, count: int, features: int, dtype: Any = "f32") -> None:
        """Sets the initial parameters."""
        self.weight = normal(1.0)(key, (count, features), dtype)

    def __call__(self, ids: Any) -> Array:
        """The rows of whole numbers, along a new last axis."""
        return embedding(self.weight, ids)


@dataclass(init=False, eq=False, repr=False)
class EmbeddingBag(Layer):
    """The mean, the sum or the largest of rows of features for the whole numbers of each bag."""

    weight: Any
    mode: str = static()

    @facing_users
    def __init__(
        self, key: Any, count: int, features: int, mode: str = "mean", dtype: Any = "f32"
    ) -> None:
        """Sets the initial parameters."""
        self.weight = normal(1.0)(key, (count, features), dtype)
        self.mode = mode

    def __call__(self, ids: Any, weights: Any = None, lengths: Any = None) -> Array:
        """Bags (..., N) of whole numbers as rows (..., features), which are 0 for empty bags.

        ``weights`` (..., N) multiply the rows of a sum. Of each bag the first ``lengths`` (...)
        count, and the others, which must be valid rows, don't.
        """
        return embedding_bag(self.weight, ids, self.mode, weights, lengths)


@dataclass(init=False, eq=False, repr=False)
class LayerNorm(Layer):
    """``layer_norm`` of the last axis, with a scale and a bias for each feature."""

    scale: Any
    bias: Any
    eps: float = static()

    @facing_users
    def __init__(
        self, features: int, eps: float = 1e-5, bias: bool = True, dtype: Any = "f32"
    ) -> None:
        """Sets the initial parameters."""
        self.scale = ones(None, (features,), dtype)
        self.bias = zeros(None, (features,), dtype) if bias else None
        self.eps = eps

    def __call__(self, x: Any) -> Array:
        """Rows of mean 0 and variance 1, scaled and moved."""
        return layer_norm(x, self.scale, self.bias, self.eps)


@dataclass(init=False, eq=False, repr=False)
class RMSNorm(Layer):
    """``rms_norm`` of the last axis, with a scale for each feature."""

    scale: Any
    eps: float = static()

    @facing_users
    def __init__(self, features: int, eps: float = 1e-6, dtype: Any = "f32") -> None:
        """Sets the initial parameters."""
        self.scale = ones(None, (features,), dtype)
        self.eps = eps

    def __call__(self, x: Any) -> Array:
        """Rows whose mean square is 1, scaled."""
        return rms_norm(x, self.scale, self.eps)


@dataclass(init=False, eq=False, repr=False)
class GroupNorm(Layer):
    """``group_norm``, with a scale and a bias for each channel."""

    scale: Any
    bias: Any
    groups: int = static()
    eps: float = static()
    axis: int = static()

    @facing_users
    def __init__(
        self, groups: int, channels: int, eps: float = 1e-5, axis: int = -1, dtype: Any = "f32"
    ) -> None:
        """Sets the initial parameters."""
        self.scale, self.bias = ones(None, (channels,), dtype), zeros(None, (channels,), dtype)
        self.groups, self.eps, self.axis = groups, eps, axis

    def __call__(self, x: Any) -> Array:
        """Groups of channels of mean 0 and variance 1, scaled and moved."""
        return group_norm(x, self.groups, self.scale, self.bias, self.eps, self.axis)


@dataclass(init=False, eq=False, repr=False)
class InstanceNorm(Layer):
    """``group_norm`` of each channel by itself; ``affine`` adds a scale and a bias for each."""

    scale: Any
    bias: Any
    channels: int = static()
    eps: float = static()
    axis: int = static()

    @facing_users
    def __init__(
        self,
        channels: int,
        eps: float = 1e-5,
        affine: bool = False,
        axis: int = -1,
        dtype: Any = "f32",
    ) -> None:
        """Sets the initial parameters."""
        self.scale = ones(None, (channels,), dtype) if affine else None
        self.bias = zeros(None, (channels,), dtype) if affine else None
        self.channels, self.eps, self.axis = channels, eps, axis

    def __call__(self, x: Any) -> Array:
        """Channels of each example with mean 0 and variance 1, scaled and moved."""
        return group_norm(x, self.channels, self.scale, self.bias, self.eps, self.axis)


@dataclass(init=False, eq=False, repr=False)
class BatchNorm(Layer):
    """``batch_norm``, with a scale and a bias for each channel; its state is kept by the caller.

    ``state = norm.init()`` is the first running mean and variance, ``y, state = norm(x, state)``
    gives the next. The state is no part of the layer, which has parameters only: an optimiser that
    decays weights would decay a mean as well.
    """

    scale: Any
    bias: Any
    momentum: float = static()
    eps: float = static()
    axis: int = static()
    has_state: ClassVar[bool] = True
    asks_training: ClassVar[bool] = True

    @facing_users
    def __init__(
        self,
        channels: int,
        momentum: float = 0.1,
        eps: float = 1e-5,
        axis: int = -1,
        dtype: Any = "f32",
    ) -> None:
        """Sets the initial parameters."""
        self.scale, self.bias = ones(None, (channels,), dtype), zeros(None, (channels,), dtype)
        self.momentum, self.eps, self.axis = momentum, eps, axis

    def init(self) -> tuple[Any, Any]:
        """The running mean and variance before the first batch, 0 and 1."""
        return xp.zeros_like(self.bias), xp.ones_like(self.scale)

    def __call__(
        self, x: Any, state: tuple[Any, Any], training: bool = True
    ) -> tuple[Any, tuple[Any, Any]]:
        """Channels of mean 0 and variance 1, scaled and moved, and the new state."""
        options = (training, self.momentum, self.eps, self.axis)
        return batch_norm(x, *state, self.scale, self.bias, *options)


@dataclass(eq=False, repr=False)
class Dropout(Layer):
    """``dropout`` with a rate, which is configuration."""

    rate: float = static(default=0.5)
    takes_key: ClassVar[bool] = True

    def __call__(self, x: Any, key: Any = None, training: bool = True) -> Array:
        """Zeros at random places in training, else ``x``."""
        if not training:
            return x
        if key is None:
            raise UserError(
                "Dropout: expected a key in training, found none",
                origin=user_origin(),
                remedy="pass key=dlvm.random.key(0), or training=False to use a trained network",
            )
        return dropout(key, x, self.rate)
