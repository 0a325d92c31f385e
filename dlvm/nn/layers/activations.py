"""Activations as layers, by PyTorch's names; their options are configuration.

``Sequential`` takes the functions as they are: ``nn.relu`` and ``nn.ReLU()`` do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.words.namespace import xp
from dlvm.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
)
from dlvm.nn.initializers import constant
from dlvm.nn.normalised import log_softmax, softmax

from .basic import Linear, keys_of
from .shown import Layer


@dataclass(repr=False)
class ReLU(Layer):
    """``relu`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``relu`` of each element."""
        return relu(x)


@dataclass(repr=False)
class ReLU6(Layer):
    """``relu6`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``relu6`` of each element."""
        return relu6(x)


@dataclass(repr=False)
class LeakyReLU(Layer):
    """``leaky_relu`` as a layer."""

    negative_slope: float = static(default=0.01)

    def __call__(self, x: Any) -> Any:
        """``leaky_relu`` of each element."""
        return leaky_relu(x, self.negative_slope)


@dataclass(repr=False)
class ELU(Layer):
    """``elu`` as a layer."""

    alpha: float = static(default=1.0)

    def __call__(self, x: Any) -> Any:
        """``elu`` of each element."""
        return elu(x, self.alpha)


@dataclass(repr=False)
class CELU(Layer):
    """``celu`` as a layer."""

    alpha: float = static(default=1.0)

    def __call__(self, x: Any) -> Any:
        """``celu`` of each element."""
        return celu(x, self.alpha)


@dataclass(repr=False)
class SELU(Layer):
    """``selu`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``selu`` of each element."""
        return selu(x)


@dataclass(repr=False)
class GELU(Layer):
    """``gelu`` as a layer."""

    approximate: bool = static(default=True)

    def __call__(self, x: Any) -> Any:
        """``gelu`` of each element."""
        return gelu(x, self.approximate)


@dataclass(repr=False)
class SiLU(Layer):
    """``silu`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``silu`` of each element."""
        return silu(x)


@dataclass(repr=False)
class Mish(Layer):
    """``mish`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``mish`` of each element."""
        return mish(x)


@dataclass(repr=False)
class Sigmoid(Layer):
    """``sigmoid`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``sigmoid`` of each element."""
        return sigmoid(x)


@dataclass(repr=False)
class LogSigmoid(Layer):
    """``log_sigmoid`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``log_sigmoid`` of each element."""
        return log_sigmoid(x)


@dataclass(repr=False)
class Tanh(Layer):
    """``tanh`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``tanh`` of each element."""
        return xp.tanh(x)


@dataclass(repr=False)
class Softplus(Layer):
    """``softplus`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``softplus`` of each element."""
        return softplus(x)


@dataclass(repr=False)
class Softsign(Layer):
    """``softsign`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``softsign`` of each element."""
        return softsign(x)


@dataclass(repr=False)
class Hardtanh(Layer):
    """``hard_tanh`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``hard_tanh`` of each element."""
        return hard_tanh(x)


@dataclass(repr=False)
class Hardsigmoid(Layer):
    """``hard_sigmoid`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``hard_sigmoid`` of each element."""
        return hard_sigmoid(x)


@dataclass(repr=False)
class Hardswish(Layer):
    """``hard_silu`` as a layer."""

    def __call__(self, x: Any) -> Any:
        """``hard_silu`` of each element."""
        return hard_silu(x)


@dataclass(repr=False)
class Softmax(Layer):
    """``softmax`` as a layer."""

    axis: int = static(default=-1)

    def __call__(self, x: Any) -> Any:
        """Probabilities along the axis."""
        return softmax(x, self.axis)


@dataclass(repr=False)
class LogSoftmax(Layer):
    """``log_softmax`` as a layer."""

    axis: int = static(default=-1)

    def __call__(self, x: Any) -> Any:
        """Logarithms of probabilities along the axis."""
        return log_softmax(x, self.axis)


@dataclass(init=False, repr=False)
class PReLU(Layer):
    """``prelu``, whose slope below 0 is learnt: one number, or one for each feature."""

    weight: Any

    @facing_users
    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = "f32") -> None:
        """The first parameters."""
        self.weight = constant(init)(None, (num_parameters,), dtype)

    def __call__(self, x: Any) -> Any:
        """``x``, and below 0 the weight times ``x``."""
        return prelu(x, self.weight)


@dataclass(repr=False)
class GLU(Layer):
    """``glu``, which halves an axis: one half times the activation of the other."""

    axis: int = static(default=-1)
    activation: Callable[..., Any] = sigmoid

    def __call__(self, x: Any) -> Any:
        """The first half, times the activation of the second."""
        return glu(x, self.axis, self.activation)


@dataclass(init=False, repr=False)
class GatedMLP(Layer):
    """``down(activation(gate(x)) * up(x))``, the perceptron of Llama (Shazeer, 2020).

    With ``silu`` it is called SwiGLU, with ``gelu`` GEGLU and with ``relu`` ReGLU.
    """

    gate: Linear
    up: Linear
    down: Linear
    activation: Callable[..., Any]

    @facing_users
    def __init__(
        self,
        key: Any,
        features: int,
        hidden: int,
        activation: Callable[..., Any] = silu,
        bias: bool = False,
        dtype: Any = "f32",
    ) -> None:
        """The first parameters."""
        keys = keys_of(key, 3)
        self.gate = Linear(keys[0], features, hidden, bias, dtype)
        self.up = Linear(keys[1], features, hidden, bias, dtype)
        self.down = Linear(keys[2], hidden, features, bias, dtype)
        self.activation = activation

    def __call__(self, x: Any) -> Any:
        """Rows of features as rows of as many."""
        return self.down(xp.multiply(self.activation(self.gate(x)), self.up(x)))
