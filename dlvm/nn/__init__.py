"""Parts of neural networks: layers, convolutions, activations, probabilities, losses."""

from dlvm.dsl.trace.suggestions import reader

from . import initializers as initializers
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
from .attention import dot_product_attention, multi_head_attention, rotary
from .convolution import conv, conv_transpose
from .dense import dense, embedding
from .distances import binary_cross_entropy_with_logits, huber_loss, kl_div, l1_loss, mse_loss
from .dropout import dropout
from .layers.basic import BatchNorm, Dropout, Embedding, GroupNorm, LayerNorm, Linear, RMSNorm
from .layers.images import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    Flatten,
    MaxPool,
    Upsample,
)
from .layers.networks import MLP, Lambda, MultiHeadAttention, Sequential
from .layers.recurrent import GRU, LSTM, RNN
from .losses import cross_entropy
from .normalised import log_softmax, one_hot, softmax
from .norms import batch_norm, group_norm, layer_norm, rms_norm
from .pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool
from .recurrent import gru, gru_cell, lstm, lstm_cell, rnn, rnn_cell
from .resizing import interpolate

swish = silu

__all__ = [
    "GRU",
    "LSTM",
    "MLP",
    "RNN",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "AvgPool",
    "BatchNorm",
    "Conv",
    "ConvTranspose",
    "Dropout",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Lambda",
    "LayerNorm",
    "Linear",
    "MaxPool",
    "MultiHeadAttention",
    "RMSNorm",
    "Sequential",
    "Upsample",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "avg_pool",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "conv",
    "conv_transpose",
    "cross_entropy",
    "dense",
    "dot_product_attention",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "group_norm",
    "gru",
    "gru_cell",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "huber_loss",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "lstm",
    "lstm_cell",
    "max_pool",
    "mse_loss",
    "multi_head_attention",
    "one_hot",
    "relu",
    "relu6",
    "rms_norm",
    "rnn",
    "rnn_cell",
    "rotary",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "swish",
]

__getattr__ = reader(__name__, __all__)
