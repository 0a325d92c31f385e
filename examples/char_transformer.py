"""Write text letter by letter with a transformer that has read Python's own help pages.

The text is that of ``help("topics")``, which comes with Python. A tenth of it is kept back: the
bits that a letter of it costs say how much the network has learnt. It ends below 2.2; who knows
only how frequent each letter is pays what the program prints first.

    python examples/char_transformer.py [--steps 3000] [--folder out]
"""

from __future__ import annotations

import argparse
import math
import re
import time
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
from pictures import curve

import dlvm
from dlvm import nn, optim

CONTEXT, WIDTH, HEADS, BLOCKS, BATCH = 64, 64, 4, 2, 16


@dataclass
class Block:
    """Attention to the letters before, then a perceptron; both are added to what came in."""

    first: nn.RMSNorm
    attention: nn.MultiHeadAttention
    second: nn.RMSNorm
    mlp: nn.MLP

    def __call__(self, x):
        """Rows (batch, time, width)."""
        x = x + self.attention(self.first(x), is_causal=True)
        return x + self.mlp(self.second(x))


@dataclass
class Transformer:
    """Scores of the next letter at each place."""

    letters: nn.Embedding
    places: Any
    blocks: list[Block]
    norm: nn.RMSNorm
    out: nn.Linear

    def __call__(self, ids):
        """Letters (batch, time) as scores (batch, time, letters)."""
        x = self.letters(ids) + self.places[: ids.shape[-1]]
        for block in self.blocks:
            x = block(x)
        return self.out(self.norm(x))


def block(key) -> Block:
    """The first parameters of a block."""
    keys = dlvm.random.split(key, 2)
    mlp = nn.MLP(keys[1], (WIDTH, 4 * WIDTH, WIDTH), nn.gelu)
    attention = nn.MultiHeadAttention(keys[0], HEADS, WIDTH)
    return Block(nn.RMSNorm(WIDTH), attention, nn.RMSNorm(WIDTH), mlp)


def transformer(key, kinds: int) -> Transformer:
    """The first parameters of all layers."""
    keys = dlvm.random.split(key, 3 + BLOCKS)
    places = nn.initializers.normal(1.0)(keys[0], (CONTEXT, WIDTH))
    blocks = [block(k) for k in keys[3:]]
    letters, out = nn.Embedding(keys[1], kinds, WIDTH), nn.Linear(keys[2], WIDTH, kinds)
    return Transformer(letters, places, blocks, nn.RMSNorm(WIDTH), out)


def bits(net, ids):
    """Mean bits of each letter, given those before it."""
    nats = nn.cross_entropy(net(ids[:, :-1]), ids[:, 1:], reduction="mean")
    return nats / math.log(2)


def windows(text):
    """Each stretch of letters that fits, and the letter after it."""
    return np.lib.stride_tricks.sliding_window_view(text, CONTEXT + 1)


def trained(net, text, key, steps: int):
    """The network after some steps, and the loss of each."""
    rate = optim.warmup_cosine_decay_schedule(0.0, 6e-3, min(100, steps // 2), steps)
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(rate))

    @dlvm.function(donate=("net", "state"))
    def step(net, state, ids):
        value, slope = dlvm.value_and_grad(bits)(net, ids)
        updates, state = optimizer.update(slope, state, net)
        return optim.apply(net, updates), state, value

    state, losses, start = optimizer.init(net), [], time.perf_counter()
    for ids in dlvm.batches(windows(text), BATCH, key, epochs=100, last="drop"):
        net, state, value = step(net, state, ids)
        losses.append(float(value))
        if len(losses) == 1:
            print(f"first step, compiling included: {time.perf_counter() - start:.1f} s")
        if len(losses) % 200 == 0:
            print(f"step {len(losses):5d}/{steps}   {np.mean(losses[-100:]):.2f} bits", flush=True)
        if len(losses) == steps:
            break
    return net, losses


@dlvm.function(static=("length",))
def written(net, start, key, length: int, temperature=0.7):
    """Letters after those of ``start``, each drawn from what the network expects."""

    def letter(ids, key):
        scores = net(ids[None])[0, -1] / temperature
        new = dlvm.random.categorical(key, scores)
        return dlvm.concat([ids[1:], new[None]]), new

    return dlvm.scan(letter, start, dlvm.random.split(key, length))[1]


def corpus():
    """The text as numbers, and the letters that they stand for, which are ASCII's."""
    whole = re.sub(" {2,}", " ", "\n".join(topics[name] for name in sorted(topics)))
    letters = sorted(c for c in set(whole) if c.isascii())
    return np.array([letters.index(c) for c in whole if c.isascii()]), letters


def main() -> None:
    """Train, say what a letter costs, write some."""
    parser = argparse.ArgumentParser(description=__doc__ and __doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--letters", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    text, letters = corpus()
    cut = len(text) * 9 // 10
    keys = dlvm.random.split(dlvm.random.key(0), 3)
    net = transformer(keys[0], len(letters))
    share = np.bincount(text) / len(text)
    alone = -(share * np.log2(share)).sum()
    print(f"{len(text):,} letters of {len(letters)} kinds: {alone:.2f} bits by their frequencies")
    net, losses = trained(net, text[:cut], keys[1], options.steps)
    held = windows(text[cut:])[::CONTEXT]
    print(f"{dlvm.function(bits)(net, held):.2f} bits for a letter of the text kept back")
    drawn = written(net, text[:CONTEXT], keys[2], options.letters)
    print("".join(letters[i] for i in drawn))
    (options.folder / "char_transformer.svg").write_text(curve(losses, "bits of a letter"))
    print(f"picture: {options.folder / 'char_transformer.svg'}")


if __name__ == "__main__":
    main()
