"""Arrays that a recipe makes, with the same bits wherever it is followed.

A hash of each element's number is the element: NumPy promises the streams of its generators for one
version only. A recipe is ("real", shape, type, seed) or ("index", shape, top, seed).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def hashed(count: int, seed: int) -> Any:
    """So many words of 32 random bits: the finaliser of MurmurHash3 of each number."""
    x = np.arange(count, dtype=np.uint32)
    x += np.uint32(seed * 0x9E3779B9 % (1 << 32))
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    x ^= x >> np.uint32(16)
    return x


def drawn(recipe: Any) -> Any:
    """The array of a recipe: numbers from -1 to 1, or indices below ``top``; of bf16 the bits."""
    kind, shape, what, seed = recipe
    words = hashed(math.prod(shape), seed)
    if kind == "index":
        return (words % np.uint32(what)).astype("i8").reshape(shape)
    words >>= np.uint32(8)
    x = words.astype("f4")
    x *= np.float32(2**-23)
    x -= np.float32(1)
    return rounded(x, what).reshape(shape)


def rounded(x: Any, dtype: str) -> Any:
    """Numbers of f32 in another type."""
    if dtype != "bf16":
        return x.astype(dtype, copy=False)
    bits = x.view("u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("u2")


def widened(x: Any, dtype: str) -> Any:
    """Elements as numbers that NumPy compares: those of bf16 are bits until here."""
    return (x.astype("u4") << 16).view("f4") if dtype == "bf16" else x
