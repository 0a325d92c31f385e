"""Draw handwritten digits with a variational autoencoder that has seen some.

The network gives a bound from below (ELBO) of the log-probability of an image, whose grey levels
are taken as probabilities of ink (Kingma and Welling, 2014). The bound of new images stands beside
what they cost where each place of the paper has its own mean and knows nothing of the others.

    python examples/vae.py [--epochs 100] [--folder out]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pictures import curve, images
from sklearn.datasets import load_digits

import dlvm
from dlvm import nn, optim

PLACES, HIDDEN, CODE, BATCH = 64, 256, 8, 100


@dataclass
class Autoencoder:
    """A code for each image, as a mean and a spread, and an image for each code."""

    encoder: nn.MLP
    decoder: nn.MLP

    def code(self, x):
        """The mean and the log-variance of the codes of images (batch, places)."""
        both = self.encoder(x)
        return both[:, :CODE], both[:, CODE:]


def autoencoder(key) -> Autoencoder:
    """The first parameters."""
    first, second = dlvm.random.split(key, 2)
    return Autoencoder(
        nn.MLP(first, (PLACES, HIDDEN, 2 * CODE), nn.silu),
        nn.MLP(second, (CODE, HIDDEN, PLACES), nn.silu),
    )


def elbo(net, x, key):
    """For each image, what a code drawn from ``q(z | x)`` says of it, less what the code costs."""
    mean, variance = net.code(x)
    z = mean + dlvm.exp(variance / 2) * dlvm.random.normal(key, mean.shape, "f32")
    seen = -nn.binary_cross_entropy_with_logits(net.decoder(z), x).sum(-1)
    cost = (mean**2 + dlvm.exp(variance) - 1 - variance).sum(-1) / 2
    return seen - cost


@dlvm.function
def drawn(net, key):
    """The images of 60 codes that are drawn from the prior."""
    return nn.sigmoid(net.decoder(dlvm.random.normal(key, (60, CODE), "f32")))


@dlvm.function
def bound(net, x, key):
    """The mean bound of images."""
    return elbo(net, x, key).mean()


optimizer = optim.adam(1e-3)


@dlvm.function(donate=("net", "state"))
def step(net, state, x, key):
    """One step of Adam up the bound."""
    value, slope = dlvm.value_and_grad(lambda net: -elbo(net, x, key).mean())(net)
    updates, state = optimizer.update(slope, state, net)
    return optim.apply(net, updates), state, value


def trained(net, x, test, key, epochs: int):
    """The network after some epochs, and the loss of each step."""
    state, losses, start = optimizer.init(net), [], time.perf_counter()
    batches = dlvm.batches(x, BATCH, key, epochs, last="drop")
    each = len(batches) // epochs
    for i, xs in enumerate(batches, 1):
        net, state, value = step(net, state, xs, dlvm.random.fold_in(key, i))
        losses.append(float(value))
        if i == 1:
            print(f"first step, compiling included: {time.perf_counter() - start:.1f} s")
        if i % (10 * each) == 0 or i == len(batches):
            print(f"epoch {i // each:4d}/{epochs}   ELBO {bound(net, test, key):.2f}", flush=True)
    return net, losses


def main() -> None:
    """Train, say what new images cost, draw some."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    pixels, _ = load_digits(return_X_y=True)
    x = np.asarray(pixels / 16, np.float32)
    x = x[np.random.default_rng(0).permutation(len(x))]
    x, test = x[:1500], x[1500:]
    keys = dlvm.random.split(dlvm.random.key(0), 3)
    net = autoencoder(keys[0])
    before = float(bound(net, test, keys[2]))
    mean = np.clip(x.mean(0), 1e-4, 1 - 1e-4)
    alone = float((test * np.log(mean) + (1 - test) * np.log(1 - mean)).sum(-1).mean())
    net, losses = trained(net, x, test, keys[1], options.epochs)
    after = float(bound(net, test, keys[2]))
    print(f"ELBO of {len(test)} new images: {after:.2f}; before training {before:.2f}, ", end="")
    print(f"places by themselves {alone:.2f}")
    (options.folder / "vae.svg").write_text(curve(losses, "minus ELBO of each step"))
    (options.folder / "vae_digits.svg").write_text(images(drawn(net, keys[2]).reshape(-1, 8, 8)))
    print(f"pictures: {options.folder / 'vae.svg'}, {options.folder / 'vae_digits.svg'}")


if __name__ == "__main__":
    main()
