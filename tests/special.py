"""Special values, all of their combinations, and what two answers must share on them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dlvm.ir import Array, DType
from dlvm.ops import Bitcast, NextAfter, StopGradient

SLOPE_BY_CONVENTION = (Bitcast, NextAfter, StopGradient)
"""Their derivatives are zero or one by decision, whatever their values do."""

FLOATS = (0.0, 1.0, 0.5, 2.0, 3.0, 1e-3, 700.0, np.inf)
"""Magnitudes that are tried of either sign, beside those that depend on the type."""


LARGEST = {
    "f16": 65504.0,
    "bf16": (2 - 2.0**-7) * 2.0**127,
    "f32": (2 - 2.0**-23) * 2.0**127,
    "f64": (2 - 2.0**-52) * 2.0**1023,
}


def special_values(dtype: DType) -> Array:
    """NaN, infinities, zeros, ones, the ends of the range, subnormals; of integers, the ends."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.is_integer:
        low, high = int(dtype.lowest), int(dtype.highest)
        found = {low, low + 1, 0, 1, 2, 3, dtype.bits - 1, high - 1, high}
        return np.array(sorted(found | ({-1, -2} if dtype.kind == "i" else set())), dtype.numpy)
    tiny = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 2.0**-1074}[dtype.name]
    normal = {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}[dtype.name]
    with np.errstate(all="ignore"):
        every = [*FLOATS, tiny, 3 * tiny, normal, LARGEST[dtype.name]]
        sizes = np.array(every, np.float64).astype(dtype.numpy)
    return np.concatenate([sizes, -sizes, np.array([np.nan], dtype.numpy)])


def combinations(pools: list[Array]) -> list[Array]:
    """One array for each pool, such that every combination of their values stands at one place."""
    columns = list(zip(*itertools.product(*(range(len(p)) for p in pools)), strict=True))
    return [p[np.array(c, np.int64)] for p, c in zip(pools, columns, strict=True)]


def kinds(x: Array) -> Any:
    """For each element: NaN, either infinity, either zero, or any other number."""
    if x.dtype.kind in "biu":
        return np.zeros(x.shape, np.int8)
    wide = x.astype(np.float64)
    sign = np.where(np.signbit(wide), -1, 1)
    names = np.select([np.isnan(wide), np.isinf(wide), wide == 0], [5, 2 * sign, sign], 0)
    return names.astype(np.int8)
