"""Training steps of five networks: the loss and its gradient with respect to every parameter.

Each is a small function of shared arrays, in words that every library has (``network_words``).
The optimiser is left out: it is a race of its own (``Adam`` in ``cases``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cases import Case, normal
from .network_words import words_of


@dataclass(frozen=True)
class Training(Case):
    """A network and its loss; PyTorch runs it also compiled."""

    def words(self, xp: Any) -> Any:
        """The parts of networks in the words of a library."""
        return words_of(xp)


class LeNet(Training):
    """Two convolutions of 5 by 5, each with a pool, and three dense layers."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        *weights, x, labels = arguments
        return xp.cross_entropy(lenet(xp, x, *weights), labels)


class LeNetScores(Training):
    """The scores of the same network, without a gradient."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        *weights, x = arguments
        return lenet(xp, x, *weights)


def lenet(xp: Any, x: Any, *weights: Any) -> Any:
    """The scores that LeNet gives images."""
    w1, b1, w2, b2, w3, b3, w4, b4, w5, b5 = weights
    x = xp.max_pool(xp.relu(xp.conv(x, w1, 2) + b1))
    x = xp.max_pool(xp.relu(xp.conv(x, w2, 0) + b2))
    x = xp.relu(x.reshape(-1, 400) @ w3 + b3)
    return xp.relu(x @ w4 + b4) @ w5 + b5


class Mlp(Training):
    """Three dense layers with cross-entropy."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        w1, b1, w2, b2, w3, b3, x, labels = arguments
        x = xp.relu(xp.relu(x @ w1 + b1) @ w2 + b2)
        return xp.cross_entropy(x @ w3 + b3, labels)


class Block(Training):
    """A transformer block, normalised first, with causal attention of heads of 32."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        n1, c1, wq, wk, wv, wo, n2, c2, w1, b1, w2, b2, x, y = arguments
        heads = (*x.shape[:2], x.shape[2] // 32, 32)
        z = xp.layer_norm(x, n1, c1)
        seen = xp.attention(*((z @ w).reshape(heads) for w in (wq, wk, wv)))
        x = x + seen.reshape(x.shape) @ wo
        x = x + xp.gelu(xp.layer_norm(x, n2, c2) @ w1 + b1) @ w2 + b2
        return ((x - y) * (x - y)).mean()


class Lstm(Training):
    """An LSTM over sequences, and a dense layer that answers from its last state."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        w_ih, w_hh, b, w, c, xs, y = arguments
        error = xp.last_of_lstm(xs, w_ih, w_hh, b) @ w + c - y
        return (error * error).mean()


class Vae(Training):
    """A variational autoencoder with a hidden layer on either side; noise is an argument."""

    def run(self, xp: Any, *arguments: Any) -> Any:
        w1, b1, w2, b2, w3, b3, w4, b4, x, noise = arguments
        both, size = xp.silu(x @ w1 + b1) @ w2 + b2, noise.shape[1]
        mean, variance = both[:, :size], both[:, size:]
        spread = xp.exp(variance / 2)
        logits = xp.silu((mean + spread * noise) @ w3 + b3) @ w4 + b4
        cost = (mean * mean + spread * spread - 1 - variance).sum() / 2
        return (xp.ink(logits, x) + cost) / x.shape[0]


def training(quick: bool) -> Iterator[Training]:
    """Every network; the quick ones are smaller."""
    yield from _lenet(16 if quick else 64)
    yield _mlp(32 if quick else 128)
    yield _block(*((4, 32, 64) if quick else (8, 64, 128)))
    yield _lstm(*((16, 10, 64) if quick else (32, 40, 128)))
    yield _vae(32 if quick else 128)


def _lenet(batch: int) -> Iterator[Training]:
    weights = _layers((5, 5, 1, 6), (5, 5, 6, 16), (400, 120), (120, 84), (84, 10))
    data = (normal(batch, 28, 28, 1), _labels(batch))
    macs = [batch * n for n in (784 * 150, 100 * 2400, 48000, 10080, 840)]
    yield _case(LeNet, "LeNet", f"{batch}x28x28", macs, weights, data)
    given = (*weights, data[0])
    read = sum(a.nbytes for a in given)
    yield LeNetScores("scores of LeNet", f"{batch}x28x28", 2 * sum(macs), read, given)


def _mlp(batch: int) -> Training:
    sizes = ((784, 512), (512, 256), (256, 10))
    data = (normal(batch, 784), _labels(batch))
    macs = [batch * i * o for i, o in sizes]
    return _case(Mlp, "MLP", f"{batch}x784x512x256x10", macs, _layers(*sizes), data)


def _block(batch: int, steps: int, width: int) -> Training:
    ones, inner = np.ones(width, np.float32), (width, width)
    norms = (ones, normal(width, scale=0.1))
    heads = tuple(normal(*inner, scale=width**-0.5, seed=i) for i in range(4))
    dense = _layers((width, 4 * width), (4 * width, width))
    data = tuple(normal(batch, steps, width, seed=i) for i in (8, 9))
    # The first products' operands depend on the scale before them, so none has only one factor's.
    macs = [0, batch * steps * (12 * width**2 + steps * width)]
    weights = (*norms, *heads, *norms, *dense)
    return _case(Block, "transformer block", f"{batch}x{steps}x{width}", macs, weights, data)


def _lstm(batch: int, steps: int, width: int) -> Training:
    w_ih, b = _layers((32, 4 * width))
    w_hh, _ = _layers((width, 4 * width))
    data = (normal(batch, steps, 32, seed=8), normal(batch, 1, seed=9))
    macs = [batch * steps * 128 * width, batch * steps * 4 * width**2]
    weights = (w_ih, w_hh, b, *_layers((width, 1)))
    return _case(Lstm, "LSTM", f"{batch}x{steps}x32x{width}", macs, weights, data)


def _vae(batch: int) -> Training:
    sizes = ((784, 256), (256, 32), (16, 256), (256, 784))
    images = 1 / (1 + np.exp(-normal(batch, 784)))
    macs = [batch * i * o for i, o in sizes]
    data = (images, normal(batch, 16, seed=1))
    return _case(Vae, "VAE", f"{batch}x784x256x16", macs, _layers(*sizes), data)


def _case(
    kind: type[Training],
    name: str,
    size: str,
    macs: Sequence[int],
    weights: Sequence[Any],
    data: Sequence[Any],
) -> Training:
    """Each product is taken three times, that with the data twice; parameters become gradients."""
    flops = 2 * (3 * sum(macs) - macs[0])
    read = 2 * sum(w.nbytes for w in weights) + sum(x.nbytes for x in data)
    wrt = tuple(range(len(weights)))
    return kind(f"training step: {name}", size, flops, read, (*weights, *data), wrt=wrt)


def _layers(*shapes: tuple[int, ...]) -> tuple[Any, ...]:
    """Weights and biases in turn, as large as keeps the size of what goes through."""
    found: list[Any] = []
    for i, shape in enumerate(shapes):
        scale = float(np.prod(shape[:-1])) ** -0.5
        found += [normal(*shape, scale=scale, seed=i), normal(shape[-1], scale=scale, seed=i)]
    return tuple(found)


def _labels(batch: int) -> Any:
    return np.random.default_rng(batch).integers(0, 10, batch)
