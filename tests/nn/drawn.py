"""Arguments of the layers that are compared with other libraries; a seed for each case.

A case is a dict of arrays. Those of floats are differentiated, other ones and what ``OPTIONS`` of
the comparing file says are not.
"""

from __future__ import annotations

import zlib

import numpy as np

SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "dense": {"x": (2, 3, 4), "w": (4, 5), "b": (5,)},
    "embedding": {"table": (6, 3)},
    "layer_norm": {"x": (3, 2, 5), "scale": (5,), "bias": (5,)},
    "layer_norm_of_two_axes": {"x": (3, 2, 5), "scale": (2, 5), "bias": (2, 5)},
    "rms_norm": {"x": (3, 2, 5), "scale": (5,)},
    "group_norm": {"x": (2, 6, 4), "scale": (6,), "bias": (6,)},
    **{
        f"batch_norm_{way}": {
            "x": (4, 3, 2),
            "mean": (3,),
            "var": (3,),
            "scale": (3,),
            "bias": (3,),
        }
        for way in ("training", "evaluating")
    },
    "attention": {"q": (2, 3, 4, 5), "k": (2, 6, 4, 5), "v": (2, 6, 4, 5)},
    "attention_causal": {"q": (2, 4, 2, 3), "k": (2, 4, 2, 3), "v": (2, 4, 2, 3)},
    "attention_masked": {
        "q": (2, 3, 4, 5),
        "k": (2, 6, 4, 5),
        "v": (2, 6, 4, 5),
        "bias": (4, 3, 6),
    },
    "attention_shared": {"q": (2, 3, 6, 5), "k": (2, 4, 2, 5), "v": (2, 4, 2, 5)},
    "attention_of_one": {"q": (3, 2, 5), "k": (4, 2, 5), "v": (4, 2, 5)},
    "attention_blind": {"q": (1, 3, 2, 5), "k": (1, 4, 2, 5), "v": (1, 4, 2, 5)},
    "multi_head": {
        "x": (2, 5, 6),
        "in_weight": (18, 6),
        "in_bias": (18,),
        "out_weight": (6, 6),
        "out_bias": (6,),
    },
    **{
        f"{name}{way}": {
            "xs": (2, 5, 3),
            "h": (2, 4),
            **({"c": (2, 4)} if name == "lstm" else {}),
            "w_ih": (gates * 4, 3),
            "w_hh": (gates * 4, 4),
            "b_ih": (gates * 4,),
            "b_hh": (gates * 4,),
        }
        for name, gates in (("rnn", 1), ("gru", 3), ("lstm", 4))
        for way in ("", "_cell")
    },
    "cross_entropy": {"logits": (5, 4)},
    "cross_entropy_of_all": {"logits": (5, 4), "weight": (4,)},
    "cross_entropy_mean": {"logits": (5, 4), "weight": (4,)},
    "cross_entropy_of_probabilities": {"logits": (5, 4), "weight": (4,), "p": (5, 4)},
    "mse_loss": {"x": (3, 4), "t": (3, 4)},
    "l1_loss": {"x": (3, 4), "t": (3, 4)},
    "huber_loss": {"x": (3, 4), "t": (3, 4)},
    "kl_div": {"q": (3, 4), "p": (3, 4)},
    "kl_div_of_logarithms": {"q": (3, 4), "p": (3, 4)},
    "binary_cross_entropy": {"x": (3, 4), "t": (3, 4), "weight": (4,), "pos_weight": (4,)},
}
"""The shape of each float argument of each case."""
TRAINED: dict[str, dict[str, tuple[int, ...]]] = {
    "lstm": {
        **{"w_ih": (16, 3), "w_hh": (16, 4), "b_ih": (16,), "b_hh": (16,)},
        **{"w": (2, 4), "b": (2,)},
    },
    "transformer": {
        **{"table": (7, 6), "in_weight": (18, 6), "in_bias": (18,)},
        **{"out_weight": (6, 6), "out_bias": (6,), "scale": (6,), "bias": (6,)},
        **{"w1": (8, 6), "b1": (8,), "w2": (7, 8), "b2": (7,)},
    },
}
"""The shape of each parameter of two networks, trained for ``STEPS`` steps of ``RATE``."""
STEPS, RATE = 50, 0.3
SEQUENCES = np.sin(np.arange(90.0) ** 2).reshape(6, 5, 3)
CLASSES = np.array([0, 1, 1, 0, 1, 0])
TEXT = np.arange(24).reshape(4, 6) ** 2 % 7
POSITIVE = {"var", "weight", "pos_weight", "p"}
SHARES = {("binary_cross_entropy", "t")}

IDS = np.array([[0, 5, 2], [2, 2, 1]])
LABELS = np.array([3, 0, 2, 2, 1])
MASK = np.array([[True, False, True, True, False, True]] * 3) & ~np.eye(3, 6, dtype=bool)


def arguments(name: str) -> dict[str, np.ndarray]:
    """The float arguments of a case."""
    dice = np.random.default_rng(zlib.crc32(name.encode()))
    return {a: _drawn(dice, name, a, shape) for a, shape in SHAPES[name].items()}


def parameters(name: str) -> dict[str, np.ndarray]:
    """The first parameters of a network that is trained."""
    dice = np.random.default_rng(zlib.crc32(name.encode()))
    return {a: dice.normal(size=shape) * 0.5 for a, shape in TRAINED[name].items()}


def _drawn(dice: np.random.Generator, name: str, word: str, shape: tuple[int, ...]) -> np.ndarray:
    x = dice.normal(size=shape)
    if (name, word) in SHARES:
        return np.abs(np.tanh(x))
    if name == "kl_div_of_logarithms":
        return x
    return np.abs(x) + 0.2 if word in POSITIVE else x


def cotangent(shape: tuple[int, ...]) -> np.ndarray:
    """A number for each element of a result, by which it is multiplied before all are added."""
    return np.cos(np.arange(np.prod(shape, dtype=int)) * 1.7 + 0.3).reshape(shape)
