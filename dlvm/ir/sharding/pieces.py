"""Arrays cut into the pieces of ranks, and made whole again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.ir.types import Array

from .mesh import Mesh, Sharding


def part(x: Array, axis: int, index: int, size: int, fill: Any = 0) -> Array:
    """The ``index``-th part of this size along an axis; what lies beyond the end is ``fill``."""
    n = x.shape[axis]
    low = min(n, index * size)
    high = min(n, low + size)
    found = np.take(x, range(low, high), axis)
    width = [(0, size - (high - low) if a == axis else 0) for a in range(x.ndim)]
    if not any(w for _, w in width):
        return found
    out = np.full([n + w for n, (_, w) in zip(found.shape, width, strict=True)], fill, x.dtype)
    out[tuple(map(slice, found.shape))] = found
    return out


def piece_of(mesh: Mesh, x: Array, sharding: Sharding, rank: int, fill: Any = 0) -> Array:
    """The piece of a rank, which begins a new array."""
    for axis, names in enumerate(sharding):
        if names:
            local = int(mesh.local(x.shape[axis], names))
            x = part(x, axis, mesh.index(rank, names), local, fill)
    return np.array(x, order="C")


def place(mesh: Mesh, shape: Sequence[int], sharding: Sharding, rank: int) -> tuple[slice, ...]:
    """Where the piece of a rank lies in the whole array, without what lies beyond its end."""
    at: list[slice] = []
    for n, names in zip(shape, sharding, strict=True):
        size = int(mesh.local(n, names))
        low = min(n, mesh.index(rank, names) * size)
        at.append(slice(low, min(n, low + size)))
    return tuple(at)


def whole(mesh: Mesh, pieces: Sequence[Array], sharding: Sharding, shape: Sequence[int]) -> Array:
    """The array of which each rank has a piece."""
    out = np.empty(tuple(shape), pieces[0].dtype)
    for rank, found in enumerate(pieces):
        at = place(mesh, shape, sharding, rank)
        out[at] = found[tuple(slice(s.stop - s.start) for s in at)]
    return out
