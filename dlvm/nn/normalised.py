"""Probabilities from scores, which are shifted so that the largest is 0.

A shift changes no probability, so no derivative flows through it. Without it the logarithm of
the sum would carry the rounding error of the largest score. Half precisions are computed in f32 and
rounded once: in f16 a sum over 65,520 classes would overflow.
"""

from __future__ import annotations

from typing import Any

from dlvm.dsl.arrays.creation import below
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.accidents import of_default
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.words.namespace import xp

from .precision import float_of, wide


def shifted(x: Any, axis: int) -> Any:
    """``x - max(x)`` along an axis."""
    return xp.subtract(x, xp.stop_gradient(xp.max(x, axis=axis, keepdims=True)))


def log_total(rest: Any, axis: int, keepdims: bool = True) -> Any:
    """``log(sum(exp(rest)))`` of shifted scores, among which there is a 0."""
    return xp.log(xp.sum(xp.exp(rest), axis=axis, keepdims=keepdims))


@exported("nn.log_softmax")
def log_softmax(x: Any, axis: int = -1) -> Any:
    """``x - log(sum(exp(x)))`` along an axis."""
    kind = float_of(x)
    rest = shifted(wide(x, kind), axis)
    return xp.astype(xp.subtract(rest, log_total(rest, axis)), kind)


@exported("nn.softmax")
def softmax(x: Any, axis: int = -1) -> Any:
    """``exp(x) / sum(exp(x))`` along an axis."""
    kind = float_of(x)
    powers = xp.exp(shifted(wide(x, kind), axis))
    shares = xp.multiply(powers, xp.divide(1, xp.sum(powers, axis=axis, keepdims=True)))
    return xp.astype(shares, kind)


@exported("nn.one_hot")
def one_hot(x: Any, num_classes: int, dtype: Any = None, axis: int = -1) -> Any:
    """1 at the class that each number is equal to and 0 at the others, along a new axis.

    It is of ``dlvm.default_dtype`` unless ``dtype`` says otherwise. A number that is no class, such
    as -1 or 0.5, has zeros only.
    """
    found = xp.equal(xp.expand_dims(x, -1), below(num_classes))
    found = xp.astype(found, default_float() if dtype is None else dtype)
    found = found if axis == -1 else xp.moveaxis(found, -1, axis)
    return of_default("one_hot", dtype, found)
