"""Parts of neural networks, on staged and plain arrays: activations, convolutions, losses."""

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
from .convolution import conv, conv_transpose
from .losses import cross_entropy
from .normalised import log_softmax, one_hot, softmax
from .pooling import avg_pool, max_pool

swish = silu

__all__ = [
    "avg_pool",
    "conv",
    "conv_transpose",
    "cross_entropy",
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "max_pool",
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
