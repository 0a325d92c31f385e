"""The parts of networks in the words of each library: NumPy, dlvm, JAX, PyTorch.

Models are written once, in ``training``, and ask for these parts. Each library answers with its
own function where it has one, so that it runs as its users would write it; arrays are laid out
alike: channels and features last, weights (in, out), heads as (batch, steps, heads, features).
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import dlvm


def words_of(xp: Any) -> Any:
    """The words of a library, by the name of its namespace."""
    return {"numpy": Numpy, "dlvm": Dlvm, "jax.numpy": Jax, "torch": Torch}[xp.__name__](xp)


class Numpy:
    """Formulas: the reference, and JAX's words where it has no function of its own."""

    def __init__(self, xp: Any) -> None:
        self.xp, self.exp = xp, xp.exp

    def relu(self, x: Any) -> Any:
        return self.xp.maximum(x, 0)

    def silu(self, x: Any) -> Any:
        return x / (1 + self.xp.exp(-x))

    def gelu(self, x: Any) -> Any:
        return 0.5 * x * (1 + self.xp.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x)))

    def conv(self, x: Any, w: Any, padding: int) -> Any:
        x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
        return np.einsum("nyxchw,hwco->nyxo", windows, w, optimize=True)

    def max_pool(self, x: Any) -> Any:
        n, height, width, channels = x.shape
        return x.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        x = x - self.xp.mean(x, axis=-1, keepdims=True)
        return x / self.xp.sqrt(self.xp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale + bias

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        scores = np.einsum("btnh,bsnh->bnts", q, k) / q.shape[-1] ** 0.5
        scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("bnts,bsnh->btnh", e / e.sum(-1, keepdims=True), v)

    def last_of_lstm(self, xs: Any, w_ih: Any, w_hh: Any, b: Any) -> Any:
        h = c = np.zeros((xs.shape[0], w_hh.shape[0]), xs.dtype)
        for t in range(xs.shape[1]):
            h, c = self._lstm_step(xs[:, t] @ w_ih + b, w_hh, h, c)
        return h

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        rest = logits - self.xp.max(logits, axis=-1, keepdims=True)
        total = self.xp.log(self.xp.sum(self.xp.exp(rest), axis=-1))
        picked = self.xp.take_along_axis(rest, labels[:, None], -1)[:, 0]
        return self.xp.mean(total - picked)

    def ink(self, logits: Any, x: Any) -> Any:
        """The sum of binary cross-entropies."""
        return self.xp.sum(self.xp.logaddexp(logits, 0.0) - x * logits)

    def _lstm_step(self, inputs: Any, w_hh: Any, h: Any, c: Any) -> tuple[Any, Any]:
        i, f, g, o = self.xp.split(inputs + h @ w_hh, 4, -1)
        c = self._sigmoid(f) * c + self._sigmoid(i) * self.xp.tanh(g)
        return self._sigmoid(o) * self.xp.tanh(c), c

    def _sigmoid(self, x: Any) -> Any:
        return 1 / (1 + self.xp.exp(-x))


class Dlvm:
    """Those of ``dlvm.nn``."""

    def __init__(self, xp: Any) -> None:
        self.exp = xp.exp
        self.relu, self.silu, self.gelu = dlvm.nn.relu, dlvm.nn.silu, dlvm.nn.gelu
        self.layer_norm = dlvm.nn.layer_norm

    def conv(self, x: Any, w: Any, padding: int) -> Any:
        return dlvm.nn.conv(x, w, padding=padding)

    def max_pool(self, x: Any) -> Any:
        return dlvm.nn.max_pool(x, 2)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return dlvm.nn.dot_product_attention(q, k, v, is_causal=True)

    def last_of_lstm(self, xs: Any, w_ih: Any, w_hh: Any, b: Any) -> Any:
        return dlvm.nn.lstm(xs, w_ih, w_hh, b)[1][0]

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        return dlvm.nn.cross_entropy(logits, labels, reduction="mean")

    def ink(self, logits: Any, x: Any) -> Any:
        """The sum of binary cross-entropies."""
        return dlvm.nn.binary_cross_entropy_with_logits(logits, x, reduction="sum")


class Jax(Numpy):
    """Those of ``jax.nn`` and ``jax.lax``; losses and norms are formulas, as JAX has none."""

    def __init__(self, xp: Any) -> None:
        super().__init__(xp)
        jax = importlib.import_module("jax")
        self.jax: Any = jax
        self.relu, self.silu, self.gelu = jax.nn.relu, jax.nn.silu, jax.nn.gelu
        self._sigmoid = jax.nn.sigmoid

    def conv(self, x: Any, w: Any, padding: int) -> Any:
        pairs, layout = [(padding, padding)] * 2, ("NHWC", "HWIO", "NHWC")
        return self.jax.lax.conv_general_dilated(x, w, (1, 1), pairs, dimension_numbers=layout)

    def max_pool(self, x: Any) -> Any:
        lax, window = self.jax.lax, (1, 2, 2, 1)
        return lax.reduce_window(x, -np.inf, lax.max, window, window, "VALID")

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        return self.jax.nn.dot_product_attention(q, k, v, is_causal=True)

    def last_of_lstm(self, xs: Any, w_ih: Any, w_hh: Any, b: Any) -> Any:
        def step(state: Any, inputs: Any) -> Any:
            return self._lstm_step(inputs, w_hh, *state), None

        zeros = self.xp.zeros((xs.shape[0], w_hh.shape[0]), xs.dtype)
        inputs = self.xp.moveaxis(xs @ w_ih + b, 1, 0)
        return self.jax.lax.scan(step, (zeros, zeros), inputs)[0][0]


class Torch:
    """Those of ``torch.nn.functional``, on views that put axes where PyTorch wants them."""

    def __init__(self, xp: Any) -> None:
        self.torch, self.exp = xp, xp.exp
        functional: Any = importlib.import_module("torch.nn.functional")
        self.nn = functional
        self.relu, self.silu = functional.relu, functional.silu
        self.cross_entropy = functional.cross_entropy
        # As in ``torch.nn.LSTM``, which ``torch.compile`` leaves alone.
        self._lstm = xp.compiler.disable(xp.lstm)

    def gelu(self, x: Any) -> Any:
        return self.nn.gelu(x, approximate="tanh")

    def conv(self, x: Any, w: Any, padding: int) -> Any:
        found = self.nn.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=padding)
        return found.permute(0, 2, 3, 1)

    def max_pool(self, x: Any) -> Any:
        return self.nn.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        return self.nn.layer_norm(x, scale.shape, scale, bias)

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        q, k, v = (a.transpose(1, 2) for a in (q, k, v))
        return self.nn.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    def last_of_lstm(self, xs: Any, w_ih: Any, w_hh: Any, b: Any) -> Any:
        zeros = xs.new_zeros(1, xs.shape[0], w_hh.shape[0])
        weights = [w_ih.T, w_hh.T, b, self.torch.zeros_like(b)]
        how = (True, 1, 0.0, True, False, True)  # biases, layers, dropout, train, both ways, batch
        return self._lstm(xs, (zeros, zeros), weights, *how)[1][0]

    def ink(self, logits: Any, x: Any) -> Any:
        """The sum of binary cross-entropies."""
        return self.nn.binary_cross_entropy_with_logits(logits, x, reduction="sum")
