"""Parts of neural networks: layers, convolutions, activations, probabilities, losses."""

from dlvm.dsl.trace.suggestions import reader

from . import initializers as initializers
from . import metrics as metrics
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
from .ctc import ctc_loss
from .dense import dense, embedding
from .distances import binary_cross_entropy_with_logits, huber_loss, kl_div, l1_loss, mse_loss
from .dropout import dropout
from .layers import BatchNorm, Dropout, Embedding, GroupNorm, LayerNorm, Linear, RMSNorm
from .losses import cross_entropy
from .margins import (
    cosine_distance,
    cosine_similarity,
    dice_loss,
    gaussian_nll_loss,
    hinge_loss,
    log_cosh,
    poisson_nll_loss,
    sigmoid_focal_loss,
    smooth_l1_loss,
)
from .networks import MLP, Lambda, MultiHeadAttention, Sequential
from .normalised import log_softmax, one_hot, softmax
from .norms import batch_norm, group_norm, layer_norm, rms_norm
from .pooling import avg_pool, max_pool
from .recurrent import gru, gru_cell, lstm, lstm_cell, rnn, rnn_cell
from .recurrent_layers import GRU, LSTM, RNN

swish = silu

__all__ = [
    "GRU",
    "LSTM",
    "MLP",
    "RNN",
    "BatchNorm",
    "Dropout",
    "Embedding",
    "GroupNorm",
    "Lambda",
    "LayerNorm",
    "Linear",
    "MultiHeadAttention",
    "RMSNorm",
    "Sequential",
    "avg_pool",
    "batch_norm",
    "binary_cross_entropy_with_logits",
    "conv",
    "conv_transpose",
    "cosine_distance",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dense",
    "dice_loss",
    "dot_product_attention",
    "dropout",
    "elu",
    "embedding",
    "gaussian_nll_loss",
    "gelu",
    "group_norm",
    "gru",
    "gru_cell",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "hinge_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "log_cosh",
    "log_sigmoid",
    "log_softmax",
    "lstm",
    "lstm_cell",
    "max_pool",
    "mse_loss",
    "multi_head_attention",
    "one_hot",
    "poisson_nll_loss",
    "relu",
    "relu6",
    "rms_norm",
    "rnn",
    "rnn_cell",
    "rotary",
    "selu",
    "sigmoid",
    "sigmoid_focal_loss",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softplus",
    "softsign",
    "swish",
]

__getattr__ = reader(__name__, __all__)
