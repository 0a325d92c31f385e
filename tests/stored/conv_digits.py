"""What PyTorch's network of ``examples/conv_digits.py`` reads, kept in ``conv_digits.json``.

Run with PyTorch and scikit-learn installed, ``python -m tests.stored.conv_digits`` writes the file
anew: the same images, splits, layers, first values, optimiser and steps, with PyTorch's own draws.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_suffix(".json")
SEEDS, EPOCHS, BATCH = 3, 30, 64


def digits(split: int):
    """As in the example, channels first."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x = (images[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    y, test = labels[order], np.arange(len(x)) % 5 == split
    return (x[~test], y[~test]), (x[test], y[test])


def accuracy(seed: int, split: int) -> float:
    """The share of the test images of a split that a network trained by PyTorch reads."""
    import torch
    from torch import nn

    torch.manual_seed(10 * seed + split)
    (x, y), (x_test, y_test) = (tuple(map(torch.from_numpy, part)) for part in digits(split))
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding="same"),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding="same"),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(64, 10),
    )
    optimizer, loss = torch.optim.Adam(net.parameters(), 2e-3), nn.CrossEntropyLoss()
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * (len(x) // BATCH))
    for _ in range(EPOCHS):
        order = torch.randperm(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            optimizer.zero_grad()
            loss(net(x[chosen]), y[chosen]).backward()
            optimizer.step()
            decay.step()
    net.eval()
    with torch.no_grad():
        return float((net(x_test).argmax(-1) == y_test).float().mean())


def main() -> None:
    """Train on every split with every seed, write the file."""
    import torch

    found = [accuracy(seed, split) for seed in range(SEEDS) for split in range(5)]
    text = {"torch": torch.__version__, "epochs": EPOCHS, "seeds": SEEDS, "accuracy": found}
    FILE.write_text(json.dumps(text, indent=1) + "\n")
    sys.stdout.write(f"mean {np.mean(found):.4f}\n")


if __name__ == "__main__":
    main()
