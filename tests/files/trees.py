"""A tree with a leaf of every kind, and how two trees are compared bit by bit."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

import dlvm
from dlvm.ir import NUMBERS


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Layer:
    qkv: Any
    bias: Any
    act: str = "relu"
    heads: dlvm.static[int] = 4


def model(seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    every = {str(t): np.frombuffer(rng.bytes(24), np.uint8) % 2 for t in NUMBERS}
    return {
        "blocks": [Layer(rng.normal(size=(3, 2)), None), Layer(np.ones(2, np.float16), 1.5)],
        "types": {str(t): every[str(t)].astype(t.numpy) for t in NUMBERS},
        "bits": np.frombuffer(rng.bytes(64), np.uint32).view(np.float32),  # NaN of all kinds
        "half": np.arange(65536, dtype=np.uint16).view(dlvm.bfloat16),
        "pair": Pair((), np.zeros((0, 3, 2))),
        "turned": rng.normal(size=(4, 3)).T[::2],
        "step": 2**53 + 1,
        "rate": 0.1,
        "flag": True,
        "key": dlvm.random.key(2**40 + 5),
        "scalar": np.array(3, np.int8),
        7: (np.float32(0.1),),
    }


def assert_equal_bits(found: Any, expected: Any) -> None:
    assert dlvm.tree.structure(found) == dlvm.tree.structure(expected)
    for x, y in zip(*map(dlvm.tree.leaves, (found, expected)), strict=True):
        if type(y) in (bool, int, float):
            assert type(x) is type(y) and x == y
        else:
            assert type(x) is np.ndarray and x.dtype == y.dtype and x.shape == y.shape
            assert x.tobytes() == y.tobytes()
