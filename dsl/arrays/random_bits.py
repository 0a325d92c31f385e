"""Random bits that are a function of a key and a position: no state, and the same on every target.

Threefry-2x32 of twenty rounds (Salmon, Moraes, Dror and Shaw, 2011) encrypts the position of each
element. So the bits of an element depend neither on how many others are drawn, nor on threads or
batches, and ``vmap`` over keys needs no rule. They are those of ``jax.random``.
"""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.trace.operands import element, fresh, known_dtype, shown_shape, staged, strong
from dlvm.dsl.trace.tensor import Tensor
from dlvm.ir import U8, U16, U32, U64
from dlvm.ir.sizes.dims import product
from dlvm.ops import Iota

from .shapes import reshape, sizes

ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = 0x1BD11BDA
KEY = "make one with dlvm.random.key(0), and more with dlvm.random.split(key)"


@public("random_bits")
def random_bits(key: Any, shape: Any = (), dtype: Any = "u64", start: Any = 0) -> Any:
    """Unsigned integers of random bits: the stream of a key, from element ``start`` on."""
    target = known_dtype(dtype)
    if target not in (U8, U16, U32, U64):
        raise DTypeError(
            f"random_bits: elements are unsigned integers, found {target}",
            remedy="dlvm.random.uniform gives floats, dlvm.random.randint other integers",
        )
    high, low = _words(_checked(key), sizes(shape), strong(start))
    if target is U64:
        return _as(high, U64) << 32 | _as(low, U64)
    return _as(high ^ low, target)


def _checked(key: Any) -> Tensor:
    """A key, which is two words."""
    key = staged(key)
    if key.element is not U32:
        raise DTypeError(f"a key has elements of type u32, found {key.element}", remedy=KEY)
    if key.type.shape != (2,):
        raise ShapeError(
            f"a key has the shape (2,), found {shown_shape(key.type.shape)}",
            remedy="dlvm.vmap draws for several keys" if key.ndim > 1 else KEY,
        )
    return key


def _words(key: Tensor, shape: Any, start: Tensor) -> tuple[Tensor, Tensor]:
    """Two words for each element: its position in the stream of the key, encrypted."""
    position = reshape(fresh(Iota(product(shape), U64)), shape) + _as(start, U64)
    keys = key[0], key[1], key[0] ^ key[1] ^ PARITY
    x = _as(position >> 32, U32) + keys[0]
    y = _as(position, U32) + keys[1]
    for i in range(5):
        for turn in ROTATIONS[i % 2]:
            x = x + y
            y = (y << turn | y >> (32 - turn)) ^ x
        x = x + keys[(i + 1) % 3]
        y = y + keys[(i + 2) % 3] + (i + 1)
    return x, y


def _as(x: Tensor, dtype: Any) -> Tensor:
    return fresh(element(x, dtype))
