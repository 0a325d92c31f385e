"""The cases of ``drawn`` by dlvm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm import nn

from .drawn import CLASSES, IDS, LABELS, MASK, SEQUENCES, TEXT


def flat(found: Any) -> tuple[Any, ...]:
    """Results and states as one tuple."""
    if not isinstance(found, tuple):
        return (found,)
    return tuple(leaf for part in found for leaf in flat(part))


def recurrent(name: str, **a: Any) -> Any:
    """A sequence or its first step, with PyTorch's weights."""
    xs, h, c = a["xs"], a["h"], a.get("c")
    state = h if c is None else (h, c)
    weights = (a["w_ih"].T, a["w_hh"].T, a["b_ih"], a["b_hh"])
    f = getattr(nn, name)
    return f(xs[:, 0], state, *weights) if name.endswith("_cell") else f(xs, *weights, state)


def multi_head(x: Any, in_weight: Any, in_bias: Any, out_weight: Any, out_bias: Any) -> Any:
    """Three heads of two, with the parameters of PyTorch's layer."""
    params: dict[str, Any] = {"out": {"kernel": out_weight.T.reshape(3, 2, 6), "bias": out_bias}}
    for i, part in enumerate(("query", "key", "value")):
        kernel = in_weight[6 * i : 6 * i + 6].T.reshape(6, 3, 2)
        params[part] = {"kernel": kernel, "bias": in_bias[6 * i : 6 * i + 6].reshape(3, 2)}
    return nn.multi_head_attention(params, x, is_causal=True)


def batch_norm(training: bool) -> Callable[..., Any]:
    return lambda x, mean, var, scale, bias: nn.batch_norm(
        x, mean, var, scale, bias, training, axis=1
    )


def lstm_loss(w: Any, b: Any, **lstm: Any) -> Any:
    """The class of a sequence, from the last hidden state."""
    weights = (lstm["w_ih"].T, lstm["w_hh"].T, lstm["b_ih"], lstm["b_hh"])
    _, (h, _) = nn.lstm(SEQUENCES, *weights)
    return nn.cross_entropy(nn.dense(h, w.T, b), CLASSES, reduction="mean")


def transformer_loss(table: Any, scale: Any, bias: Any, **p: Any) -> Any:
    """The next number of each, by one block of attention and a perceptron."""
    x = nn.embedding(table, TEXT[:, :-1])
    attention = {a: p[a] for a in ("in_weight", "in_bias", "out_weight", "out_bias")}
    x = x + multi_head(nn.layer_norm(x, scale, bias), **attention)
    logits = nn.dense(nn.gelu(nn.dense(x, p["w1"].T, p["b1"])), p["w2"].T, p["b2"])
    return nn.cross_entropy(logits, TEXT[:, 1:], label_smoothing=0.1, reduction="mean")


attend = nn.dot_product_attention
LAYERS: dict[str, Callable[..., Any]] = {
    "dense": nn.dense,
    "embedding": lambda table: nn.embedding(table, IDS),
    "layer_norm": nn.layer_norm,
    "layer_norm_of_two_axes": lambda x, scale, bias: nn.layer_norm(x, scale, bias, axis=(1, 2)),
    "rms_norm": nn.rms_norm,
    "group_norm": lambda x, scale, bias: nn.group_norm(x, 3, scale, bias, axis=1),
    "batch_norm_training": batch_norm(True),
    "batch_norm_evaluating": batch_norm(False),
    "attention": lambda q, k, v: attend(q, k, v, scale=0.3),
    "attention_causal": lambda q, k, v: attend(q, k, v, is_causal=True),
    "attention_masked": lambda q, k, v, bias: attend(q, k, v, bias, MASK),
    "attention_shared": lambda q, k, v: attend(q, k, v, is_causal=True),
    "attention_of_one": lambda q, k, v: attend(q, k, v),
    "attention_blind": lambda q, k, v: attend(q, k, v, mask=np.zeros((1, 1, 3, 4), bool)),
    "multi_head": multi_head,
    **{
        f"{name}{way}": lambda name=f"{name}{way}", **a: recurrent(name, **a)
        for name in ("rnn", "gru", "lstm")
        for way in ("", "_cell")
    },
    "cross_entropy": lambda logits: nn.cross_entropy(logits, LABELS),
    "cross_entropy_of_all": lambda logits, weight: nn.cross_entropy(
        logits, LABELS, weight=weight, ignore_index=2, label_smoothing=0.1
    ),
    "cross_entropy_mean": lambda logits, weight: nn.cross_entropy(
        logits, LABELS, weight=weight, ignore_index=2, label_smoothing=0.1, reduction="mean"
    ),
    "cross_entropy_of_probabilities": lambda logits, weight, p: nn.cross_entropy(
        logits,
        p / p.sum(-1, keepdims=True),
        weight=weight,
        label_smoothing=0.1,
        reduction="mean",
    ),
    "mse_loss": lambda x, t: nn.mse_loss(x, t, reduction="mean"),
    "l1_loss": lambda x, t: nn.l1_loss(x, t, reduction="sum"),
    "huber_loss": lambda x, t: nn.huber_loss(x, t, 0.7),
    "kl_div": lambda q, p: nn.kl_div(q, p, reduction="batchmean"),
    "kl_div_of_logarithms": lambda q, p: nn.kl_div(q, p, log_target=True),
    "binary_cross_entropy": lambda x, t, weight, pos_weight: nn.binary_cross_entropy_with_logits(
        x, t, weight=weight, pos_weight=pos_weight
    ),
}
"""Functions of the arguments of ``drawn``, by case."""


def call(name: str) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """A case as a function of the dict of its arguments."""
    return lambda given: flat(LAYERS[name](**given))
