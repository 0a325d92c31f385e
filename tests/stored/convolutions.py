"""Convolutions and pooling by PyTorch and JAX, with gradients, kept in ``convolutions.json``.

Run with both installed, ``python -m tests.stored.convolutions`` writes the file anew; the suite
reads it and needs neither. Each case says the function and the options in our words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_suffix(".json")
FIRST = "channels_first"
Case = tuple[str, str, tuple[tuple[int, ...], ...], dict[str, Any]]

TORCH: list[Case] = [
    ("torch", "conv", ((2, 3, 7), (4, 3, 3)), {"padding": "VALID"}),
    ("torch", "conv", ((2, 3, 7), (4, 3, 3)), {"padding": 2, "stride": 2, "dilation": 2}),
    ("torch", "conv", ((2, 4, 6), (6, 2, 3)), {"padding": 1, "groups": 2}),
    ("torch", "conv", ((2, 3, 6, 5), (4, 3, 3, 2)), {"padding": "VALID"}),
    ("torch", "conv", ((2, 4, 6, 5), (4, 2, 3, 2)), {"padding": [1, 2], "groups": 2}),
    ("torch", "conv", ((1, 2, 7, 8), (3, 2, 2, 3)), {"padding": 0, "stride": [2, 3]}),
    ("torch", "conv", ((1, 3, 6, 6), (3, 1, 3, 3)), {"padding": 1, "groups": 3}),
    ("torch", "conv", ((1, 2, 3, 4, 3), (2, 2, 2, 2, 3)), {"padding": [0, 1, 1]}),
    ("torch", "conv_transpose", ((2, 3, 4), (3, 2, 3)), {"stride": 2, "padding": 1}),
    ("torch", "conv_transpose", ((1, 2, 3, 4), (2, 3, 3, 2)), {"stride": 2, "padding": 0}),
    (
        "torch",
        "conv_transpose",
        ((1, 4, 3, 3), (4, 1, 3, 3)),
        {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2},
    ),
    ("torch", "conv_transpose", ((1, 2, 4), (2, 2, 3)), {"dilation": 2, "padding": 1}),
    ("torch", "conv_transpose", ((1, 1, 2, 3, 2), (1, 2, 2, 2, 2)), {"stride": 2, "padding": 0}),
    ("torch", "max_pool", ((2, 3, 7),), {"window": 3, "stride": 2, "padding": 1}),
    ("torch", "max_pool", ((2, 3, 6, 6),), {"window": 2}),
    ("torch", "max_pool", ((1, 2, 7, 8),), {"window": [2, 3], "stride": 1, "dilation": 2}),
    ("torch", "max_pool", ((1, 1, 4, 4, 4),), {"window": 2, "padding": 1}),
    ("torch", "avg_pool", ((2, 3, 7),), {"window": 3, "stride": 2, "padding": 1}),
    ("torch", "avg_pool", ((1, 2, 5, 6),), {"window": [2, 3], "stride": 1, "padding": 1}),
    (
        "torch",
        "avg_pool",
        ((1, 2, 5, 6),),
        {"window": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    ),
    ("torch", "avg_pool", ((1, 1, 4, 4, 4),), {"window": 2}),
]
JAX: list[Case] = [
    ("jax", "conv", ((2, 7, 3), (3, 3, 4)), {"padding": "SAME"}),
    ("jax", "conv", ((2, 7, 8, 3), (3, 2, 3, 4)), {"padding": "SAME", "stride": [2, 3]}),
    ("jax", "conv", ((2, 7, 8, 3), (4, 2, 3, 4)), {"padding": "SAME_LOWER", "stride": 2}),
    (
        "jax",
        "conv",
        ((1, 4, 5, 4), (3, 2, 2, 6)),
        {"groups": 2, "input_dilation": [2, 3], "padding": [[1, 1], [0, 1]]},
    ),
    (
        "jax",
        "conv",
        ((1, 5, 5, 2), (2, 2, 2, 2)),
        {"padding": [[3, -1], [-1, 2]], "dilation": [2, 1]},
    ),
    ("jax", "conv", ((1, 3, 4, 3, 2), (2, 2, 2, 2, 3)), {"padding": "SAME", "stride": 2}),
    ("jax", "conv", ((2, 5, 4), (3, 1, 8)), {"groups": 4}),
    ("jax", "conv_transpose", ((2, 4, 3), (3, 3, 2)), {"stride": 2, "padding": "SAME"}),
    ("jax", "conv_transpose", ((2, 4, 3), (3, 3, 2)), {"stride": 4, "padding": "VALID"}),
    ("jax", "conv_transpose", ((1, 3, 4, 2), (2, 5, 2, 3)), {"stride": [3, 2], "padding": "SAME"}),
    (
        "jax",
        "conv_transpose",
        ((1, 3, 4, 2), (2, 3, 3, 2)),
        {"stride": 2, "padding": "SAME", "transpose_kernel": True},
    ),
    ("jax", "conv_transpose", ((2, 4, 3), (3, 3, 2)), {"dilation": 2, "padding": "VALID"}),
]
CASES = TORCH + JAX


def drawn(shape: tuple[int, ...], seed: float) -> Any:
    """Numbers that are the same everywhere, no two of them alike."""
    return np.sin(np.arange(np.prod(shape)) * 1.7 + seed).reshape(shape)


def arrays(case: Case) -> list[Any]:
    """The operands."""
    return [drawn(shape, i + 0.3) for i, shape in enumerate(case[2])]


def by_torch(case: Case) -> list[Any]:
    """The result, and the gradients of its products with ``drawn`` numbers."""
    import torch
    import torch.nn.functional as F

    _, name, _, given = case
    xs = [torch.tensor(a, requires_grad=True) for a in arrays(case)]
    options = {"kernel_size" if k == "window" else k: v for k, v in given.items()}
    if options.get("padding") == "VALID":
        options["padding"] = 0
    f = getattr(F, f"{name}{xs[0].ndim - 2}d")
    if name == "avg_pool" and xs[0].ndim == 3:
        options = {k: (v,) if k != "count_include_pad" else v for k, v in options.items()}
    y = f(*xs, **options)
    seed = torch.tensor(drawn(tuple(y.shape), 0.1))
    found = torch.autograd.grad((y * seed).sum(), xs)
    return [y.detach().numpy(), *(g.numpy() for g in found)]


def by_jax(case: Case) -> list[Any]:
    """The same."""
    import jax

    jax.config.update("jax_enable_x64", True)
    _, name, shapes, given = case
    count = len(shapes[0]) - 2
    space = "DHW"[3 - count :]
    options: dict[str, Any] = {"padding": "SAME", **given}
    if not isinstance(options["padding"], str):
        options["padding"] = [tuple(p) for p in options["padding"]]
    for key in ("stride", "dilation", "input_dilation"):
        n = options.pop(key, 1)
        options[key] = (n,) * count if isinstance(n, int) else tuple(n)
    words = {"stride": "window_strides", "dilation": "rhs_dilation"}
    words |= {"input_dilation": "lhs_dilation", "groups": "feature_group_count"}
    f: Any = jax.lax.conv_general_dilated
    if name == "conv_transpose":
        f, words["stride"] = jax.lax.conv_transpose, "strides"
        del options["input_dilation"]
    options = {words.get(k, k): v for k, v in options.items()}
    options["dimension_numbers"] = (f"N{space}C", f"{space}IO", f"N{space}C")
    y, back = jax.vjp(lambda *xs: f(*xs, **options), *arrays(case))
    return [np.asarray(a) for a in (y, *back(drawn(y.shape, 0.1)))]


def main() -> None:
    """Write the file."""
    rows: list[str] = []
    for case in CASES:
        found = (by_torch if case[0] == "torch" else by_jax)(case)
        rows.append(json.dumps([[a.shape, a.ravel().tolist()] for a in found]))
    FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n", "utf8")


if __name__ == "__main__":
    main()
