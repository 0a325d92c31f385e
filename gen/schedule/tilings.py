"""Which tiles a product has on a GPU, and which instruction of a warp multiplies them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dlvm.gen.loops.statements import Product
from dlvm.ir import F32, DType
from dlvm.ir.numerics import licensed
from dlvm.target import Target

from .transform import WHOLE
from .transforms.gpu.fragment_tiles import INSTRUCTIONS
from .transforms.gpu.tiles import Tiles

TILES = (
    Tiles(WHOLE, 128, 128, 8, 8, 8),
    Tiles(WHOLE, 64, 64, 16, 4, 4),
    Tiles(WHOLE, 32, 32, 16, 2, 4),
    Tiles(WHOLE, 8, 64, 16, 1, 4),
    Tiles(WHOLE, 64, 8, 16, 4, 1),
    Tiles(WHOLE, 8, 32, 16, 1, 2),
)
"""Tiles of products, the preferred ones first."""
FRAGMENTS = (Tiles(WHOLE, 128, 128, 32, 64, 32), Tiles(WHOLE, 64, 64, 32, 32, 32))
"""Tiles of products by an instruction of a warp."""
LEAST = 16
"""Rows, columns and k from which on such an instruction is worth it."""


def instructions_of(target: Target) -> dict[DType, str]:
    """The instruction that multiplies each type, which the processor has and the laws license."""
    return {
        how.dtype: name
        for name, how in INSTRUCTIONS.items()
        if target.capability >= how.since and licensed(how.law)
    }


def tiles_of(product: Product, instructions: Mapping[DType, str]) -> Tiles:
    """The first tiles that a product fills, or those that are least empty."""

    def empty(t: Tiles) -> int:
        sizes = ((product.m, t.rows), (product.n, t.columns))
        return sum(max(0, n - d) for d, n in sizes if isinstance(d, int))

    types = {x.buffer.dtype for x in (product.x, product.y)}
    sizes = (product.m, product.n, product.k)
    large = all(n >= LEAST for n in sizes if isinstance(n, int))
    word = instructions.get(types.pop()) if len(types) == 1 and large else None
    if word is not None and product.tile.dtype is F32:
        return replace(min(FRAGMENTS, key=empty), instruction=word)
    return min(TILES, key=empty)
