"""Write text letter by letter with a GPT that has read Python's own help pages.

The text is that of ``help("topics")``. What a letter of a part that is kept back costs says how
much was learnt. A cache of keys and values makes a new letter one row of work.

    python examples/gpt.py [--steps 2000] [--folder out]
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from pictures import curve, save

import dlvm
from dlvm import nn, optim, random

CONTEXT, WIDTH, HEADS, BLOCKS, BATCH, PROMPT = 96, 64, 4, 2, 16, 16


@dataclass
class GPT:
    """Scores of the next letter at each place; a block is attention, then a perceptron."""

    letters: nn.Embedding
    blocks: list[tuple[nn.RMSNorm, nn.MultiHeadAttention, nn.RMSNorm, nn.MLP]]
    norm: nn.RMSNorm
    out: nn.Linear

    def __call__(self, ids, caches=(None,) * BLOCKS):
        """Scores for letters (batch, time), which follow those of the caches, and new caches."""
        x, after = self.letters(ids), []
        for (first, attention, second, mlp), cache in zip(self.blocks, caches, strict=True):
            found = attention(first(x), is_causal=cache is None, cache=cache)
            more, cache = (found, None) if cache is None else found
            x = x + more
            x = x + mlp(second(x))
            after.append(cache)
        return self.out(self.norm(x)), after


def gpt(key, kinds: int) -> GPT:
    """The first parameters of all layers."""
    ends, blocks = random.split(key), []
    for now, then in random.split(random.fold_in(key, 1), (BLOCKS, 2)):
        attention = nn.MultiHeadAttention(now, HEADS, WIDTH, rotary=True)
        mlp = nn.MLP(then, (WIDTH, 4 * WIDTH, WIDTH), nn.gelu)
        blocks.append((nn.RMSNorm(WIDTH), attention, nn.RMSNorm(WIDTH), mlp))
    letters = nn.Embedding(ends[0], kinds, WIDTH)
    return GPT(letters, blocks, nn.RMSNorm(WIDTH), nn.Linear(ends[1], WIDTH, kinds))


@dlvm.function
def bits(net, ids):
    """Mean bits of each letter that follows at least as many as a prompt has."""
    nats = nn.cross_entropy(net(ids[:, :-1])[0], ids[:, 1:])[:, PROMPT - 1 :]
    return nats.mean() / math.log(2)


def trained(net, windows, key, steps: int):
    """The network after some steps, and the loss of each."""
    optimizer = optim.adamw(optim.warmup_cosine_decay_schedule(0.0, 6e-3, steps // 20, steps))

    @dlvm.function(donate=("net", "state"))
    def step(net, state, ids):
        value, slope = dlvm.value_and_grad(bits)(net, ids)
        updates, state = optimizer.update(slope, state, net)
        return optim.apply(net, updates), state, value

    state, losses = optimizer.init(net), []
    for _, ids in zip(range(steps), dlvm.batches(windows, BATCH, key, epochs=100), strict=False):
        net, state, value = step(net, state, ids)
        losses.append(float(value))
    return net, losses


@dlvm.function
def written(net, prompts, keys, temperature=0.7):
    """Prompts with a letter more for each key, and the mean bits that these have cost."""

    def letter(state, key):
        scores, caches = state
        new = random.categorical(key, scores / temperature)
        after, caches = net(new[:, None], caches)
        return (after[:, 0], caches), (new, nn.cross_entropy(scores, new))

    empty = [attention.init_cache(len(prompts), CONTEXT) for _, attention, _, _ in net.blocks]
    scores, caches = net(prompts, empty)
    letters, nats = dlvm.scan(letter, (scores[:, -1], caches), keys)[1]
    return dlvm.concat([prompts, letters.T], axis=1), nats.mean() / math.log(2)


def main() -> None:
    """Train, say what a letter costs, write some."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--folder", type=Path, default=Path("out"))
    options = parser.parse_args()
    whole = re.sub("[^\n -~]| {2,}", " ", "\n".join(topics[name] for name in sorted(topics)))
    kinds, text = np.unique(list(map(ord, whole)), return_inverse=True)
    share, cut = np.bincount(text) / len(text), len(text) * 9 // 10
    print(f"{-(share * np.log2(share)).sum():.2f} bits by the frequencies of {len(kinds)} letters")
    windows = np.lib.stride_tricks.sliding_window_view(text, CONTEXT + 1)
    seen, held = windows[: cut - CONTEXT], windows[cut::CONTEXT]
    net, losses = trained(gpt(random.key(0), len(kinds)), seen, random.key(1), options.steps)
    print(f"{bits(net, held):.2f} bits for a letter of the text kept back")
    texts, cost = written(net, held[:4, :PROMPT], random.split(random.key(2), CONTEXT - PROMPT))
    print(*("".join(map(chr, kinds[ids])) for ids in texts), sep="\n---\n")
    print(f"{cost:.4f} bits for a letter as written, {bits(net, texts):.4f} as read again")
    save(options.folder / "gpt.svg", curve(losses, "bits of a letter"))


if __name__ == "__main__":
    main()
