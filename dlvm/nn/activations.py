"""Activations: functions of one element, with the right value and slope far out, too.

A formula here never subtracts two numbers that are close, nor multiplies one that overflows by
one that vanishes. NaN stays NaN. Signatures are those of ``jax.nn``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

FLAT = 30.0
"""Beyond this size of x the tanh of the approximate gelu is 1 in every precision."""


def _float(x: Any) -> Any:
    """Integers as floats; floats, weak ones too, as they are."""
    return xp.multiply(x, 1.0)


@exported("nn.relu")
def relu(x: Any) -> Any:
    """``max(x, 0)``; its derivative at 0 is 0, and NaN stays NaN."""
    return xp.where(xp.less_equal(x, 0), 0, x)


@exported("nn.relu6")
def relu6(x: Any) -> Any:
    """``min(max(x, 0), 6)``; its derivative at 0 and 6 is 0."""
    return xp.where(xp.greater_equal(x, 6), 6, relu(x))


@exported("nn.leaky_relu")
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """``x``, and below 0 ``negative_slope * x``."""
    return xp.where(xp.less(x, 0), xp.multiply(x, negative_slope), x)


@exported("nn.elu")
def elu(x: Any, alpha: Any = 1.0) -> Any:
    """``x``, and below 0 ``alpha * (e**x - 1)``."""
    below = xp.multiply(alpha, xp.expm1(xp.where(xp.less(x, 0), x, 0)))
    return xp.where(xp.less(x, 0), below, x)


@exported("nn.selu")
def selu(x: Any) -> Any:
    """``elu`` scaled so that layers keep mean 0 and variance 1 (Klambauer et al., 2017)."""
    return xp.multiply(1.0507009873554804934193349852946, elu(x, 1.6732632423543772848170429916717))


@exported("nn.celu")
def celu(x: Any, alpha: Any = 1.0) -> Any:
    """``x``, and below 0 ``alpha * (e**(x / alpha) - 1)``, whose slope at 0 is 1."""
    below = xp.multiply(alpha, xp.expm1(xp.divide(xp.where(xp.less(x, 0), x, 0), alpha)))
    return xp.where(xp.less(x, 0), below, x)


@exported("nn.prelu")
def prelu(x: Any, weight: Any) -> Any:
    """``x``, and below 0 ``weight * x``; the weight has one number, or one for each feature."""
    return xp.where(xp.less(x, 0), xp.multiply(weight, x), x)


@exported("nn.sigmoid")
def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``, which never overflows."""
    return xp.sigmoid(x)


@exported("nn.log_sigmoid")
def log_sigmoid(x: Any) -> Any:
    """``log(sigmoid(x))``."""
    return xp.negative(softplus(xp.negative(x)))


@exported("nn.softplus")
def softplus(x: Any) -> Any:
    """``log(1 + e**x)``."""
    return xp.logaddexp(x, 0.0)


@exported("nn.silu")
def silu(x: Any) -> Any:
    """``x * sigmoid(x)``, also called swish."""
    return xp.multiply(x, sigmoid(x))


@exported("nn.mish")
def mish(x: Any) -> Any:
    """``x * tanh(log(1 + e**x))`` (Misra, 2019)."""
    return xp.multiply(x, xp.tanh(softplus(x)))


@exported("nn.glu")
def glu(x: Any, axis: int = -1, activation: Callable[..., Any] = sigmoid) -> Any:
    """``a * activation(b)`` of the halves a and b of an axis (Dauphin et al., 2017)."""
    shape = shape_of(plain(x))
    fits = -len(shape) <= axis < len(shape)
    if not fits or (isinstance(shape[axis], int) and shape[axis] % 2):
        raise ShapeError(
            f"glu: axis {axis} of x of shape {shown_shape(shape)} can't be halved",
            origin=user_origin(),
            remedy="pass an axis with an even number of features",
        )
    first, second = xp.split(x, 2, axis=axis)
    return xp.multiply(first, activation(second))


@exported("nn.softsign")
def softsign(x: Any) -> Any:
    """``x / (1 + |x|)``."""
    return xp.divide(x, xp.add(1, xp.abs(x)))


@exported("nn.gelu")
def gelu(x: Any, approximate: bool = True) -> Any:
    """``x`` times the probability that a normal number is below it.

    By default that is ``(1 + tanh(u)) / 2 = sigmoid(2 u)`` with ``u = sqrt(2/pi) * (x + 0.044715
    x**3)`` (Hendrycks and Gimpel, 2016); else ``erfc(-x / sqrt(2)) / 2``.
    """
    if not approximate:
        return xp.multiply(x, xp.multiply(0.5, xp.erfc(xp.multiply(x, -math.sqrt(0.5)))))
    near = xp.clip(_float(x), -FLAT, FLAT)
    inner = near + 0.044715 * near * near * near
    return xp.multiply(x, xp.sigmoid(2 * math.sqrt(2 / math.pi) * inner))


@exported("nn.hard_tanh")
def hard_tanh(x: Any) -> Any:
    """``x``, no less than -1 and no more than 1."""
    return xp.where(xp.greater_equal(x, 1), 1, xp.where(xp.less_equal(x, -1), -1, x))


@exported("nn.hard_sigmoid")
def hard_sigmoid(x: Any) -> Any:
    """``relu6(x + 3) / 6``."""
    return xp.divide(relu6(xp.add(x, 3.0)), 6)


@exported("nn.hard_silu")
def hard_silu(x: Any) -> Any:
    """``x * hard_sigmoid(x)``."""
    return xp.multiply(x, hard_sigmoid(x))
