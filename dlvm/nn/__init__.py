"""Parts of neural networks: activations, probabilities and losses, on staged and plain arrays."""

from dlvm.dsl.trace.suggestions import reader

from .activations import (
    elu,
    gelu,
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softsign,
)
from .losses import cross_entropy
from .normalised import log_softmax, one_hot, softmax

swish = silu

__all__ = [
    "cross_entropy",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "one_hot",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "swish",
]

__getattr__ = reader(__name__, __all__)
