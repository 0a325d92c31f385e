"""Random numbers from a key: new keys, random bits, and distributions made from them.

Arithmetic on the bits is exact up to the last step, so numbers are the same everywhere.
"""

from __future__ import annotations

import math
from typing import Any

from dlvm.base.errors import DTypeError, UserError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.accidents import of_default
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.operands import known_dtype, plain, staged, strong
from dlvm.dsl.words.namespace import xp
from dlvm.ir import BF16, DTYPES, F16, F32, F64, DType, Expr

DIGITS = {F16: 11, BF16: 8, F32: 24, F64: 53}
"""Binary digits of a float of each type."""


@public("random.key")
def key(seed: Any) -> Any:
    """The key of a whole number, of which the lower 64 bits count."""
    seed = plain(seed)
    _check_whole("key", "seed", seed)
    return _two_words(xp.astype(seed % 2**64 if isinstance(seed, int) else strong(seed), "u64"))


@public("random.split")
def split(key: Any, num: Any = 2) -> Any:
    """Keys that are independent of one another, along a new first axis."""
    return _two_words(bits(key, num if isinstance(num, tuple) else (num,), "u64"))


@public("random.fold_in")
def fold_in(key: Any, data: Any) -> Any:
    """The key for a number, such as that of a step: ``split(key, n)[data]`` for any ``n`` above."""
    _check_whole("fold_in", "data", plain(data))
    return _two_words(xp.random_bits(key, (), "u64", data))


def _check_whole(name: str, what: str, given: Any) -> None:
    """Refuse a float, whose fraction would be lost: all seeds from 0 to 1 would be one."""
    if isinstance(given, int | Expr):
        return
    kind = known_dtype(xp.asarray(given).dtype)
    if kind.is_float:
        said = repr(given) if isinstance(given, float) else f"elements of type {kind}"
        raise DTypeError(
            f"{name}: expected a whole number as {what}, found {said}",
            remedy="give an integer, such as dlvm.random.key(0)",
        )


def _two_words(x: Any) -> Any:
    """The upper and the lower half of integers of 64 bits, along a new last axis."""
    return xp.stack([xp.astype(half, "u32") for half in (x >> 32, x)], -1)


@public("random.bits")
def bits(key: Any, shape: Any = (), dtype: Any = "u32") -> Any:
    """Unsigned integers, every bit of which is random."""
    return xp.random_bits(key, shape, dtype)


@public("random.uniform")
def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Floats from ``minval`` up to ``maxval``, evenly; where these are 0 and 1, never 1.

    They are of ``dlvm.default_dtype`` unless ``dtype`` says otherwise, as in ``normal`` and others.
    """
    target = float_type("uniform", dtype)
    count = DIGITS[target] - 1
    word = _word(max(target.bits, 32))
    parts = xp.astype(bits(key, shape, word) >> (word.bits - count), target) * 2.0**-count
    low, high = (xp.astype(v, target) for v in (minval, maxval))
    return of_default("uniform", dtype, xp.maximum(parts * (high - low) + low, low))


@public("random.normal")
def normal(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Floats of mean 0 and variance 1, normally distributed."""
    target = float_type("normal", dtype)
    least = -1 + 2.0 ** -DIGITS[target]
    found = xp.erfinv(uniform(key, shape, target, least)) * math.sqrt(2)
    return of_default("normal", dtype, found)


@public("random.exponential")
def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Waiting times of mean 1."""
    found = -xp.log1p(-uniform(key, shape, float_type("exponential", dtype)))
    return of_default("exponential", dtype, found)


@public("random.gumbel")
def gumbel(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """What to add to log-probabilities so that their largest is a sample."""
    target = float_type("gumbel", dtype)
    least = 2.0 ** -DIGITS[target]  # never 0, of which there is no logarithm
    found = -xp.log(-xp.log(uniform(key, shape, target, least)))
    return of_default("gumbel", dtype, found)


@public("random.bernoulli")
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Any:
    """True with a probability of ``p``, for each element of ``p`` or of a shape."""
    p = xp.asarray(p)
    target = known_dtype(p.dtype)
    drawn = uniform(
        key, xp.shape(p) if shape is None else shape, target if target.is_float else default_float()
    )
    return drawn < p


@public("random.randint")
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = "i64") -> Any:
    """Integers from ``minval`` up to, but not including, ``maxval``."""
    target = known_dtype(dtype)
    if not target.is_integer:
        raise DTypeError(
            f"randint: elements are integers, found {target}",
            remedy="dlvm.random.uniform gives floats",
        )
    word = _word(max(target.bits, 32))
    low, high = (xp.astype(v, target) for v in (minval, maxval))
    keys = split(key)
    upper, lower = (bits(keys[i], shape, word) for i in range(2))
    span = xp.astype(xp.astype(xp.where(high > low, high - low, 1), _word(target.bits)), word)
    half = xp.astype(1 << word.bits // 2, word) % span
    drawn = (upper % span * (half * half % span) + lower % span) % span
    return low + xp.astype(drawn, target)


@public("random.categorical")
def categorical(key: Any, logits: Any, axis: int = -1) -> Any:
    """A class for each example, with the probabilities of which the logits are logarithms."""
    kind = known_dtype(xp.asarray(logits).dtype)
    noise = gumbel(key, xp.shape(logits), kind if kind.is_float else default_float())
    return xp.argmax(logits + noise, axis)


@public("random.permutation")
def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The numbers below a whole number, or slices of an array, in a random order."""
    given = plain(x)
    if isinstance(given, int | Expr) and not isinstance(given, bool):
        return _order(key, given)
    if isinstance(given, bool | float) or not xp.shape(given):
        raise UserError(
            f"permutation: expected a whole number or an array with axes, found {x!r}",
            remedy="dlvm.random.permutation(key, 10) orders the numbers 0 to 9",
        )
    (axis,) = axes_of(staged(x), axis)
    return xp.take(x, _order(key, xp.shape(x)[axis]), axis=axis)


def _order(key: Any, count: Any) -> Any:
    """The numbers below another, in a random order."""
    return xp.argsort(bits(key, (count,), "u64"))


def _word(width: int) -> DType:
    """The unsigned integer type with this number of bits."""
    return DTYPES[f"u{width}"]


def float_type(name: str, dtype: Any) -> DType:
    """The element type of what is drawn: a float, the default one if none is given."""
    found = default_float() if dtype is None else known_dtype(dtype)
    if not found.is_float:
        raise DTypeError(
            f"{name}: elements are floats, found {found}",
            remedy="dlvm.random.randint gives integers",
        )
    return found
