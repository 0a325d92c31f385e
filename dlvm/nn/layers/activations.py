"""Activations as layers, by PyTorch's names; their options are configuration.

``Sequential`` takes the functions as they are: ``nn.relu`` and ``nn.ReLU()`` do the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

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

if TYPE_CHECKING:
    from dlvm.dsl.trace.typed import Array


class _Activation(Layer):
    """A function as a layer, whose fields are the function's options in their order."""

    run: ClassVar[Callable[..., Any]]

    def __call__(self, x: Any) -> Array:
        """The function of ``x``."""
        layer: Any = self
        return self.run(x, *(getattr(layer, option.name) for option in fields(layer)))


@dataclass(eq=False, repr=False)
class ReLU(_Activation):
    """``relu`` as a layer."""

    run = staticmethod(relu)


@dataclass(eq=False, repr=False)
class ReLU6(_Activation):
    """``relu6`` as a layer."""

    run = staticmethod(relu6)


@dataclass(eq=False, repr=False)
class LeakyReLU(_Activation):
    """``leaky_relu`` as a layer."""

    negative_slope: float = static(default=0.01)

    run = staticmethod(leaky_relu)


@dataclass(eq=False, repr=False)
class ELU(_Activation):
    """``elu`` as a layer."""

    alpha: float = static(default=1.0)

    run = staticmethod(elu)


@dataclass(eq=False, repr=False)
class CELU(_Activation):
    """``celu`` as a layer."""

    alpha: float = static(default=1.0)

    run = staticmethod(celu)


@dataclass(eq=False, repr=False)
class SELU(_Activation):
    """``selu`` as a layer."""

    run = staticmethod(selu)


@dataclass(eq=False, repr=False)
class GELU(_Activation):
    """``gelu`` as a layer."""

    approximate: bool = static(default=True)

    run = staticmethod(gelu)


@dataclass(eq=False, repr=False)
class SiLU(_Activation):
    """``silu`` as a layer."""

    run = staticmethod(silu)


@dataclass(eq=False, repr=False)
class Mish(_Activation):
    """``mish`` as a layer."""

    run = staticmethod(mish)


@dataclass(eq=False, repr=False)
class Sigmoid(_Activation):
    """``sigmoid`` as a layer."""

    run = staticmethod(sigmoid)


@dataclass(eq=False, repr=False)
class LogSigmoid(_Activation):
    """``log_sigmoid`` as a layer."""

    run = staticmethod(log_sigmoid)


@dataclass(eq=False, repr=False)
class Tanh(Layer):
    """``tanh`` as a layer."""

    def __call__(self, x: Any) -> Array:
        """``tanh`` of each element."""
        return xp.tanh(x)


@dataclass(eq=False, repr=False)
class Softplus(_Activation):
    """``softplus`` as a layer."""

    run = staticmethod(softplus)


@dataclass(eq=False, repr=False)
class Softsign(_Activation):
    """``softsign`` as a layer."""

    run = staticmethod(softsign)


@dataclass(eq=False, repr=False)
class Hardtanh(_Activation):
    """``hard_tanh`` as a layer."""

    run = staticmethod(hard_tanh)


@dataclass(eq=False, repr=False)
class Hardsigmoid(_Activation):
    """``hard_sigmoid`` as a layer."""

    run = staticmethod(hard_sigmoid)


@dataclass(eq=False, repr=False)
class Hardswish(_Activation):
    """``hard_silu`` as a layer."""

    run = staticmethod(hard_silu)


@dataclass(eq=False, repr=False)
class Softmax(_Activation):
    """``softmax`` as a layer."""

    axis: int = static(default=-1)

    run = staticmethod(softmax)


@dataclass(eq=False, repr=False)
class LogSoftmax(_Activation):
    """``log_softmax`` as a layer."""

    axis: int = static(default=-1)

    run = staticmethod(log_softmax)


@dataclass(init=False, eq=False, repr=False)
class PReLU(_Activation):
    """``prelu``, whose slope below 0 is learnt: one number, or one for each feature."""

    weight: Any

    @facing_users
    def __init__(self, num_parameters: int = 1, init: float = 0.25, dtype: Any = "f32") -> None:
        """Sets the initial parameters."""
        self.weight = constant(init)(None, (num_parameters,), dtype)

    run = staticmethod(prelu)


@dataclass(eq=False, repr=False)
class GLU(_Activation):
    """``glu``, which halves an axis: one half times the activation of the other."""

    axis: int = static(default=-1)
    activation: Callable[..., Any] = sigmoid

    run = staticmethod(glu)


@dataclass(init=False, eq=False, repr=False)
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
        """Sets the initial parameters."""
        keys = keys_of(key, 3)
        self.gate = Linear(keys[0], features, hidden, bias, dtype)
        self.up = Linear(keys[1], features, hidden, bias, dtype)
        self.down = Linear(keys[2], hidden, features, bias, dtype)
        self.activation = activation

    def __call__(self, x: Any) -> Array:
        """Rows of features as rows of as many."""
        return self.down(xp.multiply(self.activation(self.gate(x)), self.up(x)))
