"""Writes what PyTorch and JAX give for the cases of ``drawn``, values and gradients in f64.

    python -m venv elsewhere && elsewhere/bin/pip install numpy torch jax
    elsewhere/bin/python -m tests.nn.oracle

The suite reads ``stored.npz`` only. A result is kept as ``case/out/0`` and the gradient of all
results times their ``cotangent`` as ``case/grad/x``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
from jax import numpy as jnp
from torch.nn import functional

from tests.nn.drawn import (
    CLASSES,
    IDS,
    LABELS,
    MASK,
    RATE,
    SEQUENCES,
    SHAPES,
    STEPS,
    TEXT,
    arguments,
    cotangent,
    parameters,
)

STORED = Path(__file__).with_name("stored.npz")
jax.config.update("jax_enable_x64", True)
torch.set_default_dtype(torch.float64)
CONSTANT = ("mean", "var", "weight", "pos_weight")
"""Arguments with respect to which PyTorch has no derivatives."""


def of(array: np.ndarray) -> Any:
    """An array without derivatives as a tensor."""
    return torch.from_numpy(np.ascontiguousarray(array))


def batch_norm(x: Any, mean: Any, var: Any, scale: Any, bias: Any, training: bool) -> Any:
    """PyTorch's, which moves the running statistics in place."""
    moved = mean.clone(), var.clone()
    y = functional.batch_norm(x, *(moved if training else (mean, var)), scale, bias, training)
    return y, *moved


def module(cls: Any, hidden: int = 4, **options: Any) -> Callable[..., Any]:
    """A recurrent layer of PyTorch as a function of its weights."""

    def call(xs: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, c: Any = None) -> Any:
        layer = cls(xs.shape[-1], hidden, batch_first=True, **options)
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        state = h[None] if c is None else (h[None], c[None])
        weights = dict(zip(names, (w_ih, w_hh, b_ih, b_hh), strict=True))
        ys, last = torch.func.functional_call(layer, weights, (xs, state))
        return (ys, last[0]) if c is None else (ys, last[0][0], last[1][0])

    return call


def cell(name: str) -> Callable[..., Any]:
    """A cell of PyTorch on the first step."""

    def call(xs: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, c: Any = None) -> Any:
        state = h if c is None else (h, c)
        return getattr(torch, f"{name}_cell")(xs[:, 0], state, w_ih, w_hh, b_ih, b_hh)

    return call


def multi_head(x: Any, in_weight: Any, in_bias: Any, out_weight: Any, out_bias: Any) -> Any:
    """PyTorch's, of three heads that see what came before."""
    rows, hidden = x.swapaxes(0, 1), torch.ones(5, 5).triu(1).bool()
    given = (6, 3, in_weight, in_bias, None, None, False, 0.0, out_weight, out_bias)
    found, _ = functional.multi_head_attention_forward(
        rows, rows, rows, *given, attn_mask=hidden, need_weights=False
    )
    return found.swapaxes(0, 1)


TORCH: dict[str, Callable[..., Any]] = {
    "dense": lambda x, w, b: functional.linear(x, w.T, b),
    "embedding": lambda table: functional.embedding(of(IDS), table),
    "layer_norm": lambda x, scale, bias: functional.layer_norm(x, (5,), scale, bias),
    "layer_norm_of_two_axes": lambda x, scale, bias: functional.layer_norm(x, (2, 5), scale, bias),
    "rms_norm": lambda x, scale: functional.rms_norm(x, (5,), scale, 1e-6),
    "group_norm": lambda x, scale, bias: functional.group_norm(x, 3, scale, bias),
    "batch_norm_training": lambda **a: batch_norm(**a, training=True),
    "batch_norm_evaluating": lambda **a: batch_norm(**a, training=False),
    "multi_head": multi_head,
    "rnn": module(torch.nn.RNN),
    "gru": module(torch.nn.GRU),
    "lstm": module(torch.nn.LSTM),
    "rnn_cell": cell("rnn_tanh"),
    "gru_cell": cell("gru"),
    "lstm_cell": cell("lstm"),
    "cross_entropy": lambda logits: functional.cross_entropy(logits, of(LABELS), reduction="none"),
    "cross_entropy_of_all": lambda logits, weight: functional.cross_entropy(
        logits, of(LABELS), weight, ignore_index=2, label_smoothing=0.1, reduction="none"
    ),
    "cross_entropy_mean": lambda logits, weight: functional.cross_entropy(
        logits, of(LABELS), weight, ignore_index=2, label_smoothing=0.1
    ),
    "cross_entropy_of_probabilities": lambda logits, weight, p: functional.cross_entropy(
        logits, p / p.sum(-1, keepdim=True), weight, label_smoothing=0.1
    ),
    "mse_loss": lambda x, t: functional.mse_loss(x, t),
    "l1_loss": lambda x, t: functional.l1_loss(x, t, reduction="sum"),
    "huber_loss": lambda x, t: functional.huber_loss(x, t, reduction="none", delta=0.7),
    "kl_div": lambda q, p: functional.kl_div(q, p, reduction="batchmean"),
    "kl_div_of_logarithms": lambda q, p: functional.kl_div(q, p, reduction="none", log_target=True),
    "binary_cross_entropy": lambda x, t, weight, pos_weight: (
        functional.binary_cross_entropy_with_logits(
            x, t, weight, pos_weight=pos_weight, reduction="none"
        )
    ),
}
attend = jax.nn.dot_product_attention


def attend_by_torch(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """PyTorch's attention, which has heads in front of positions."""
    heads = (x.swapaxes(-3, -2) for x in (q, k, v))
    return functional.scaled_dot_product_attention(*heads, **options).swapaxes(-3, -2)


TORCH |= {
    "attention": lambda q, k, v: attend_by_torch(q, k, v, scale=0.3),
    "attention_causal": lambda q, k, v: attend_by_torch(q, k, v, is_causal=True),
    "attention_masked": lambda q, k, v, bias: attend_by_torch(
        q, k, v, attn_mask=torch.where(of(MASK), bias, -torch.inf)
    ),
    "attention_shared": lambda q, k, v: attend_by_torch(
        q, k, v, attn_mask=torch.ones(3, 4).tril().bool(), enable_gqa=True
    ),
    "attention_of_one": attend_by_torch,
}
JAX: dict[str, Callable[..., Any]] = {
    "attention": lambda q, k, v: attend(q, k, v, scale=0.3),
    "attention_causal": lambda q, k, v: attend(q, k, v, is_causal=True),
    "attention_masked": lambda q, k, v, bias: attend(q, k, v, bias, MASK),
    "attention_shared": lambda q, k, v: attend(q, k, v, is_causal=True),
    "attention_of_one": lambda q, k, v: attend(q, k, v),
    "attention_blind": lambda q, k, v: attend(q, k, v, mask=jnp.zeros((1, 1, 3, 4), bool)),
}


def lstm_loss(w: Any, b: Any, **lstm: Any) -> Any:
    """The class of a sequence, from the last hidden state."""
    h = torch.zeros(6, 4)
    _, h, _ = TORCH["lstm"](xs=of(SEQUENCES), h=h, c=h, **lstm)
    return functional.cross_entropy(functional.linear(h, w, b), of(CLASSES))


def transformer_loss(table: Any, scale: Any, bias: Any, **p: Any) -> Any:
    """The next number of each, by one block of attention and a perceptron."""
    x = functional.embedding(of(TEXT[:, :-1]), table)
    attention = {a: p[a] for a in ("in_weight", "in_bias", "out_weight", "out_bias")}
    x = x + multi_head(functional.layer_norm(x, (6,), scale, bias), **attention)
    hidden = functional.gelu(functional.linear(x, p["w1"], p["b1"]), approximate="tanh")
    logits = functional.linear(hidden, p["w2"], p["b2"])
    return functional.cross_entropy(
        logits.reshape(-1, 7), of(TEXT[:, 1:].reshape(-1)), label_smoothing=0.1
    )


def trained(name: str, loss: Callable[..., Any]) -> dict[str, np.ndarray]:
    """The losses of each step of gradient descent, and the last parameters."""
    params = {a: of(x).requires_grad_() for a, x in parameters(name).items()}
    optimiser, losses = torch.optim.SGD(params.values(), RATE), []
    for _ in range(STEPS):
        optimiser.zero_grad()
        value = loss(**params)
        value.backward()
        optimiser.step()
        losses.append(value.item())
    last = {f"trained/{name}/last/{a}": x.detach().numpy() for a, x in params.items()}
    return {f"trained/{name}/losses": np.array(losses), **last}


def by_torch(name: str) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Results and gradients of a case by PyTorch."""
    given = {a: of(x) for a, x in arguments(name).items()}
    wrt = {a: x.requires_grad_() for a, x in given.items() if a not in CONSTANT}
    found = TORCH[name](**given)
    results = found if isinstance(found, tuple) else (found,)
    total = sum((r * of(cotangent(tuple(r.shape)))).sum() for r in results)
    grads = (g.numpy() for g in torch.autograd.grad(total, list(wrt.values())))
    return [r.detach().numpy() for r in results], dict(zip(wrt, grads, strict=True))


def by_jax(name: str) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Results and gradients of a case by JAX."""
    given = arguments(name)

    def total(given: dict[str, Any]) -> Any:
        found = JAX[name](**given)
        return (found * cotangent(found.shape)).sum()

    grads = jax.grad(total)({a: jnp.asarray(x) for a, x in given.items()})
    return [np.asarray(JAX[name](**given))], {a: np.asarray(g) for a, g in grads.items()}


def in_f32_by_jax() -> dict[str, np.ndarray]:
    """JAX's initialisers, dropout, and attention, of which it computes parts in f32 always."""
    key, shape = jax.random.key(7), (5, 4, 6)
    made = jax.nn.initializers
    names = "glorot_uniform glorot_normal he_uniform he_normal lecun_uniform lecun_normal"
    inits = {n: getattr(made, n)() for n in names.split()}
    inits |= {"uniform": made.uniform(0.5), "normal": made.normal(0.5)}
    inits |= {"truncated_normal": made.truncated_normal(0.5, lower=-1.0, upper=1.5)}
    found = {f"init/{n}": np.asarray(f(key, shape, jnp.float32)) for n, f in inits.items()}
    kept = jax.random.bernoulli(key, jnp.float32(1 - 0.3), (40,))
    rounded = {f"f32/{name}": by_jax(name)[0][0] for name in JAX}
    return {**found, **rounded, "dropout/kept": np.asarray(kept)}


def main() -> None:
    """Write the file."""
    stored = in_f32_by_jax()
    stored |= trained("lstm", lstm_loss) | trained("transformer", transformer_loss)
    for name in SHAPES:
        results, grads = by_torch(name) if name in TORCH else by_jax(name)
        stored |= {f"{name}/out/{i}": r for i, r in enumerate(results)}
        stored |= {f"{name}/grad/{a}": g for a, g in grads.items()}
    np.savez_compressed(STORED, **stored)


if __name__ == "__main__":
    main()
