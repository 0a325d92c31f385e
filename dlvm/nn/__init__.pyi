"""Types for editors and type checkers, written by ``python -m tools.stubs``."""

from collections.abc import Callable
from collections.abc import Mapping
from dlvm.dsl.trace.typed import Array
from dlvm.dsl.trace.typed import Axis
from dlvm.dsl.trace.typed import Operand
from dlvm.nn import initializers as initializers
from dlvm.nn import metrics as metrics
from dlvm.nn.attention import Window
from dlvm.nn.layers.activations import CELU as CELU
from dlvm.nn.layers.activations import ELU as ELU
from dlvm.nn.layers.activations import GELU as GELU
from dlvm.nn.layers.activations import GLU as GLU
from dlvm.nn.layers.activations import GatedMLP as GatedMLP
from dlvm.nn.layers.activations import Hardsigmoid as Hardsigmoid
from dlvm.nn.layers.activations import Hardswish as Hardswish
from dlvm.nn.layers.activations import Hardtanh as Hardtanh
from dlvm.nn.layers.activations import LeakyReLU as LeakyReLU
from dlvm.nn.layers.activations import LogSigmoid as LogSigmoid
from dlvm.nn.layers.activations import LogSoftmax as LogSoftmax
from dlvm.nn.layers.activations import Mish as Mish
from dlvm.nn.layers.activations import PReLU as PReLU
from dlvm.nn.layers.activations import ReLU as ReLU
from dlvm.nn.layers.activations import ReLU6 as ReLU6
from dlvm.nn.layers.activations import SELU as SELU
from dlvm.nn.layers.activations import SiLU as SiLU
from dlvm.nn.layers.activations import Sigmoid as Sigmoid
from dlvm.nn.layers.activations import Softmax as Softmax
from dlvm.nn.layers.activations import Softplus as Softplus
from dlvm.nn.layers.activations import Softsign as Softsign
from dlvm.nn.layers.activations import Tanh as Tanh
from dlvm.nn.layers.around import LoRA as LoRA
from dlvm.nn.layers.around import Recompute as Recompute
from dlvm.nn.layers.around import SpectralNorm as SpectralNorm
from dlvm.nn.layers.around import WeightNorm as WeightNorm
from dlvm.nn.layers.basic import BatchNorm as BatchNorm
from dlvm.nn.layers.basic import Dropout as Dropout
from dlvm.nn.layers.basic import Embedding as Embedding
from dlvm.nn.layers.basic import EmbeddingBag as EmbeddingBag
from dlvm.nn.layers.basic import GroupNorm as GroupNorm
from dlvm.nn.layers.basic import InstanceNorm as InstanceNorm
from dlvm.nn.layers.basic import LayerNorm as LayerNorm
from dlvm.nn.layers.basic import Linear as Linear
from dlvm.nn.layers.basic import RMSNorm as RMSNorm
from dlvm.nn.layers.images import AdaptiveAvgPool as AdaptiveAvgPool
from dlvm.nn.layers.images import AdaptiveMaxPool as AdaptiveMaxPool
from dlvm.nn.layers.images import AvgPool as AvgPool
from dlvm.nn.layers.images import Conv as Conv
from dlvm.nn.layers.images import ConvTranspose as ConvTranspose
from dlvm.nn.layers.images import Flatten as Flatten
from dlvm.nn.layers.images import MaxPool as MaxPool
from dlvm.nn.layers.images import Upsample as Upsample
from dlvm.nn.layers.networks import Lambda as Lambda
from dlvm.nn.layers.networks import MLP as MLP
from dlvm.nn.layers.networks import Sequential as Sequential
from dlvm.nn.layers.recurrent import GRU as GRU
from dlvm.nn.layers.recurrent import LSTM as LSTM
from dlvm.nn.layers.recurrent import RNN as RNN
from dlvm.nn.layers.transformers import MultiHeadAttention as MultiHeadAttention
from dlvm.nn.layers.transformers import TransformerDecoderLayer as TransformerDecoderLayer
from dlvm.nn.layers.transformers import TransformerEncoderLayer as TransformerEncoderLayer
from dlvm.nn.norms import Axes
from dlvm.nn.summary import summary as summary
from numpy.typing import DTypeLike
from typing import Any

__all__ = ['CELU', 'ELU', 'GELU', 'GLU', 'GRU', 'LSTM', 'MLP', 'RNN', 'SELU', 'AdaptiveAvgPool', 'AdaptiveMaxPool', 'AvgPool', 'BatchNorm', 'Conv', 'ConvTranspose', 'Dropout', 'Embedding', 'EmbeddingBag', 'Flatten', 'GatedMLP', 'GroupNorm', 'Hardsigmoid', 'Hardswish', 'Hardtanh', 'InstanceNorm', 'Lambda', 'LayerNorm', 'LeakyReLU', 'Linear', 'LoRA', 'LogSigmoid', 'LogSoftmax', 'MaxPool', 'Mish', 'MultiHeadAttention', 'PReLU', 'RMSNorm', 'ReLU', 'ReLU6', 'Recompute', 'Sequential', 'SiLU', 'Sigmoid', 'Softmax', 'Softplus', 'Softsign', 'SpectralNorm', 'Tanh', 'TransformerDecoderLayer', 'TransformerEncoderLayer', 'Upsample', 'WeightNorm', 'adaptive_avg_pool', 'adaptive_max_pool', 'avg_pool', 'batch_norm', 'binary_cross_entropy_with_logits', 'celu', 'conv', 'conv_transpose', 'cosine_distance', 'cosine_similarity', 'cross_entropy', 'ctc_loss', 'dense', 'dice_loss', 'dot_product_attention', 'dropout', 'elu', 'embedding', 'embedding_bag', 'gaussian_nll_loss', 'gelu', 'glu', 'group_norm', 'gru', 'gru_cell', 'hard_sigmoid', 'hard_silu', 'hard_tanh', 'hinge_loss', 'huber_loss', 'interpolate', 'kl_div', 'l1_loss', 'layer_norm', 'leaky_relu', 'log_cosh', 'log_sigmoid', 'log_softmax', 'lstm', 'lstm_cell', 'max_pool', 'mish', 'mse_loss', 'multi_head_attention', 'one_hot', 'poisson_nll_loss', 'prelu', 'relu', 'relu6', 'rms_norm', 'rnn', 'rnn_cell', 'rotary', 'selu', 'sigmoid', 'sigmoid_focal_loss', 'silu', 'smooth_l1_loss', 'softmax', 'softplus', 'softsign', 'summary', 'swish']

def adaptive_avg_pool(x: Operand, output_size: Axis, layout: Any = 'channels_last') -> Array:
    """The means of ``output_size`` windows that cover each spatial axis, as PyTorch's."""

def adaptive_max_pool(x: Operand, output_size: Axis, layout: Any = 'channels_last') -> Array:
    """The largest elements of the windows of ``adaptive_avg_pool``; NaN if any is."""

def avg_pool(x: Operand, window: Axis, stride: Axis | None = None, padding: Any = 'VALID', count_include_pad: bool = True, layout: Any = 'channels_last') -> Array:
    """The mean of each window over the spatial axes; arguments are those of ``max_pool``."""

def batch_norm(x: Operand, mean: Operand, var: Operand, scale: Operand | None = None, bias: Operand | None = None, training: bool = False, momentum: Operand = 0.1, eps: float = 1e-05, axis: int = -1) -> tuple[Array, tuple[Array, Array]]:
    """Each channel less its mean, over the root of its variance; and the new ``(mean, var)``."""

def binary_cross_entropy_with_logits(logits: Operand, targets: Operand, *, weight: Operand | None = None, pos_weight: Operand | None = None, reduction: str = 'none') -> Array:
    """``-t * log(sigmoid(x)) - (1 - t) * log(sigmoid(-x))`` of logits x and truths t in 0 to 1."""

def celu(x: Operand, alpha: Operand = 1.0) -> Array:
    """``x``, and below 0 ``alpha * (e**(x / alpha) - 1)``, whose slope at 0 is 1."""

def conv(x: Operand, w: Operand, stride: Axis = 1, padding: Any = 'SAME', dilation: Axis = 1, input_dilation: Axis = 1, groups: int = 1, layout: Any = 'channels_last') -> Array:
    """Each window of the images ``x``, times the weights ``w``, summed: ``lax``'s convolution."""

def conv_transpose(x: Operand, w: Operand, stride: Axis = 1, padding: Any = 'SAME', dilation: Axis = 1, output_padding: Any = 0, groups: int = 1, layout: Any = 'channels_last', transpose_kernel: bool = False) -> Array:
    """A convolution that steps by ``1/stride``: it makes images larger where ``conv`` shrinks them."""

def cosine_distance(predictions: Operand, targets: Operand, *, epsilon: float = 0.0, axis: int = -1, reduction: str = 'none') -> Array:
    """``1 - cosine_similarity``: from 0 for the same direction to 2 for the opposite one."""

def cosine_similarity(predictions: Operand, targets: Operand, *, epsilon: float = 0.0, axis: int = -1) -> Array:
    """The cosine of the angle between vectors along ``axis``; 0 where one of them is 0."""

def cross_entropy(logits: Operand, labels: Operand, axis: int = -1, *, weight: Operand | None = None, ignore_index: int | None = None, label_smoothing: float = 0.0, reduction: str = 'none') -> Array:
    """For each example, minus the log-probability of its integer label, or of its probabilities."""

def ctc_loss(logits: Operand, logit_paddings: Operand, labels: Operand, label_paddings: Operand, *, blank_id: int = 0, log_epsilon: float = -100000.0, reduction: str = 'none') -> Array:
    """Minus the log-probability of the labels, summed over all alignments (Graves et al., 2006)."""

def dense(x: Operand, w: Operand, b: Operand | None = None) -> Array:
    """``x @ w + b``: rows of ``in`` features, a matrix of shape (in, out) and ``out`` numbers."""

def dice_loss(predictions: Operand, targets: Operand, *, class_weights: Operand | None = None, smooth: float = 1.0, alpha: float = 0.5, beta: float = 0.5, apply_softmax: bool = True, ignore_background: bool = False, axis: int | tuple[int, ...] | None = None, reduction: str = 'none') -> Array:
    """For each example, ``1 - overlap`` of probabilities and targets, averaged over classes."""

def dot_product_attention(query: Operand, key: Operand, value: Operand, bias: Operand | None = None, mask: Operand | None = None, *, scale: Operand | None = None, is_causal: bool = False, query_seq_lengths: Operand | None = None, key_value_seq_lengths: Operand | None = None, local_window_size: Window = None) -> Array:
    """``softmax(query @ key.T * scale + bias) @ value`` for each head of each example."""

def dropout(key: Operand, x: Operand, rate: Operand, training: bool = True) -> Array:
    """``x / (1 - rate)``, but 0 at random places with a probability of ``rate``; else ``x``."""

def elu(x: Operand, alpha: Operand = 1.0) -> Array:
    """``x``, and below 0 ``alpha * (e**x - 1)``."""

def embedding(table: Operand, ids: Operand, mode: str = 'error') -> Array:
    """The row of a table for each integer."""

def embedding_bag(table: Operand, ids: Operand, mode: str = 'mean', weights: Operand | None = None, lengths: Operand | None = None) -> Array:
    """The mean, the sum or the maximum of the rows of a table that bags (..., N) of integers name."""

def gaussian_nll_loss(predictions: Operand, targets: Operand, var: Operand, *, full: bool = False, eps: float = 1e-06, reduction: str = 'none') -> Array:
    """``(log(var) + d**2 / var) / 2`` of the difference d, with a variance of at least ``eps``."""

def gelu(x: Operand, approximate: bool = True) -> Array:
    """``x`` times the probability that a normal number is below it."""

def glu(x: Operand, axis: int = -1, activation: Callable[..., Any] = ...) -> Array:
    """``a * activation(b)`` of the halves a and b of an axis (Dauphin et al., 2017)."""

def group_norm(x: Operand, groups: int, scale: Operand | None = None, bias: Operand | None = None, eps: float = 1e-05, axis: int = -1) -> Array:
    """Mean 0 and variance 1 over each group of channels of each example."""

def gru(xs: Any, w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None, state: Any = None, *, reverse: bool = False, lengths: Operand | None = None) -> tuple[Array, Array]:
    """``gru_cell`` at each step of sequences (..., T, in): all h, (..., T, H), and the last."""

def gru_cell(x: Operand, h: Operand, w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None) -> Array:
    """``(1 - z) * n + z * h`` of the gates r, z, n, with ``n = tanh(x_n + r * h_n)``."""

def hard_sigmoid(x: Operand) -> Array:
    """``relu6(x + 3) / 6``."""

def hard_silu(x: Operand) -> Array:
    """``x * hard_sigmoid(x)``."""

def hard_tanh(x: Operand) -> Array:
    """``x``, no less than -1 and no more than 1."""

def hinge_loss(predictions: Operand, targets: Operand, *, reduction: str = 'none') -> Array:
    """``max(0, 1 - x * t)`` of scores x and targets t, which are -1 or 1."""

def huber_loss(predictions: Operand, targets: Operand, delta: float = 1.0, *, reduction: str = 'none') -> Array:
    """``d**2 / 2`` of differences up to ``delta``, and ``delta * (|d| - delta / 2)`` beyond."""

def interpolate(x: Operand, size: Axis | None = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool = False, layout: Any = 'channels_last') -> Array:
    """Resizes images to ``size`` places along each spatial axis, or ``scale_factor`` times as many."""

def kl_div(log_predictions: Operand, targets: Operand, *, log_target: bool = False, reduction: str = 'none') -> Array:
    """``p * (log(p) - q)`` of probabilities ``p`` and log-probabilities ``q``; 0 where p is 0."""

def l1_loss(predictions: Operand, targets: Operand, *, reduction: str = 'none') -> Array:
    """The absolute difference."""

def layer_norm(x: Operand, scale: Operand | None = None, bias: Operand | None = None, eps: float = 1e-05, axis: Axes = -1) -> Array:
    """Each example less its mean, over the root of its variance, along the features' axes."""

def leaky_relu(x: Operand, negative_slope: Operand = 0.01) -> Array:
    """``x``, and below 0 ``negative_slope * x``."""

def log_cosh(predictions: Operand, targets: Operand, *, reduction: str = 'none') -> Array:
    """``log(cosh(d))`` of the difference: ``d**2 / 2`` near 0, ``|d| - log(2)`` far from it."""

def log_sigmoid(x: Operand) -> Array:
    """``log(sigmoid(x))``."""

def log_softmax(x: Operand, axis: int = -1) -> Array:
    """``x - log(sum(exp(x)))`` along an axis."""

def lstm(xs: Any, w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None, state: Any = None, *, reverse: bool = False, lengths: Operand | None = None) -> tuple[Array, tuple[Array, Array]]:
    """``lstm_cell`` at each step of sequences (..., T, in): all h, (..., T, H), and the last state."""

def lstm_cell(x: Operand, state: tuple[Any, Any], w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None) -> tuple[Array, Array]:
    """The next ``(h, c)``: ``c = f * c + i * g`` and ``h = o * tanh(c)`` of the gates i, f, g, o."""

def max_pool(x: Operand, window: Axis, stride: Axis | None = None, padding: Any = 'VALID', dilation: Axis = 1, layout: Any = 'channels_last') -> Array:
    """The largest element of each window over the spatial axes; NaN if any is."""

def mish(x: Operand) -> Array:
    """``x * tanh(log(1 + e**x))`` (Misra, 2019)."""

def mse_loss(predictions: Operand, targets: Operand, *, reduction: str = 'none') -> Array:
    """The square of the difference."""

def multi_head_attention(params: Mapping[str, Any], query: Operand, key: Operand | None = None, value: Operand | None = None, bias: Operand | None = None, mask: Operand | None = None, *, is_causal: bool = False, positions: Operand | None = None, cache: Mapping[str, Any] | None = None, local_window_size: Window = None) -> Any:
    """Attention between projections of rows of features, projected back and added over heads."""

def one_hot(x: Operand, num_classes: int, dtype: DTypeLike | None = None, axis: int = -1) -> Array:
    """1 at the class that each number is equal to and 0 at the others, along a new axis."""

def poisson_nll_loss(predictions: Operand, targets: Operand, *, log_input: bool = True, full: bool = False, eps: float = 1e-08, reduction: str = 'none') -> Array:
    """``exp(x) - t * x`` of log-rates x and counts t; ``x - t * log(x + eps)`` of rates."""

def prelu(x: Operand, weight: Operand) -> Array:
    """``x``, and below 0 ``weight * x``; the weight has one number, or one for each feature."""

def relu(x: Operand) -> Array:
    """``max(x, 0)``; its derivative at 0 is 0, and NaN stays NaN."""

def relu6(x: Operand) -> Array:
    """``min(max(x, 0), 6)``; its derivative at 0 and 6 is 0."""

def rms_norm(x: Operand, scale: Operand | None = None, eps: float = 1e-06, axis: Axes = -1) -> Array:
    """``x / sqrt(mean(x**2) + eps) * scale`` along the features' axes; no mean is subtracted."""

def rnn(xs: Any, w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None, state: Any = None, *, nonlinearity: str = 'tanh', reverse: bool = False, lengths: Operand | None = None) -> tuple[Array, Array]:
    """``rnn_cell`` at each step of sequences (..., T, in): all h, (..., T, H), and the last."""

def rnn_cell(x: Operand, h: Operand, w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None, nonlinearity: str = 'tanh') -> Array:
    """``tanh(x @ w_ih + b_ih + h @ w_hh + b_hh)``, or ``relu`` of it."""

def rotary(x: Operand, positions: Operand, base: float = 10000.0) -> Array:
    """Each pair of features turned by an angle that grows with the position (Su et al., 2021)."""

def selu(x: Operand) -> Array:
    """``elu`` scaled so that layers keep mean 0 and variance 1 (Klambauer et al., 2017)."""

def sigmoid(x: Operand) -> Array:
    """``1 / (1 + exp(-x))``, which never overflows."""

def sigmoid_focal_loss(logits: Operand, labels: Operand, *, alpha: float | None = None, gamma: float = 2.0, reduction: str = 'none') -> Array:
    """Binary cross-entropy times ``(1 - p) ** gamma``, p the probability of the true label."""

def silu(x: Operand) -> Array:
    """``x * sigmoid(x)``, also called swish."""

def smooth_l1_loss(predictions: Operand, targets: Operand, beta: float = 1.0, *, reduction: str = 'none') -> Array:
    """``d**2 / (2 * beta)`` of differences up to ``beta``, and ``|d| - beta / 2`` beyond."""

def softmax(x: Operand, axis: int = -1) -> Array:
    """``exp(x) / sum(exp(x))`` along an axis."""

def softplus(x: Operand) -> Array:
    """``log(1 + e**x)``."""

def softsign(x: Operand) -> Array:
    """``x / (1 + |x|)``."""

def swish(x: Operand) -> Array:
    """``x * sigmoid(x)``, also called swish."""

