"""Operations of single elements: arithmetic, comparisons, functions, activations, conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.exporting.foreign import NAMES
from dlvm.nn import elu, gelu, hard_silu, relu, softplus, softsign
from dlvm.onnx.table import Call, operation
from dlvm.onnx.tensors import dtype_of

from .operands import is_float, kind, like, rank, shape

Unary = Callable[[Any], Any]


def _reciprocal(x: Any) -> Any:
    return like(1 / x, x)


def _named(operands: int) -> dict[str, Callable[..., Any]]:
    """The users' functions of operations that ONNX has, by its names for them."""
    return {
        names.onnx: getattr(xp, kind.public or kind.name)
        for kind, names in NAMES.items()
        if names.onnx and sum(slot.kind == "operand" for slot in kind.layout) == operands
    }


UNARY: dict[str, Unary] = {
    **_named(1),
    **{"Not": xp.logical_not, "Reciprocal": _reciprocal, "Identity": lambda x: x},
    **{"Relu": relu, "Softplus": softplus, "Softsign": softsign, "HardSwish": hard_silu},
}
"""Operations of one operand that a function of dlvm computes as it is."""


def _lined_up(call: Call, x: Any, y: Any) -> Any:
    """The second operand for the rule of version 6, where ``axis`` says where its axes lie."""
    if call.version >= 7 or not call.get("broadcast") or call.get("axis") is None:
        return y
    behind = rank(x) - call.get("axis") % rank(x) - rank(y)
    return xp.reshape(y, shape(y) + (1,) * behind)


def _divided(x: Any, y: Any) -> Any:
    """Integers are divided towards zero, not down."""
    if is_float(x):
        return xp.divide(x, y)
    down = xp.floor_divide(x, y)
    if kind(x).kind == "u":
        return down
    off = xp.logical_and(down * y != x, (x < 0) != (y < 0))
    return down + xp.astype(off, kind(x))


def _power(x: Any, y: Any) -> Any:
    """A power has the element type of its base."""
    found = xp.power(x, like(y, x) if is_float(x) else y)
    return like(found, x)


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    **_named(2),
    **{"And": xp.logical_and, "Or": xp.logical_or, "Xor": xp.logical_xor},
    **{"Greater": xp.greater, "GreaterOrEqual": xp.greater_equal, "Div": _divided, "Pow": _power},
}
"""Operations of two operands, which broadcast."""


def _register() -> None:
    def unary(fn: Unary) -> Callable[..., Any]:
        def run(call: Call, x: Any) -> Any:
            return fn(x)

        return run

    def binary(fn: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def run(call: Call, x: Any, y: Any) -> Any:
            return fn(x, _lined_up(call, x, y))

        return run

    for name, fn in UNARY.items():
        operation(name)(unary(fn))
    for name, fn in BINARY.items():
        operation(name)(binary(fn))


_register()


@operation("Max")
def _max(call: Call, *xs: Any) -> Any:
    return reduce(xp.maximum, xs)


@operation("Min")
def _min(call: Call, *xs: Any) -> Any:
    return reduce(xp.minimum, xs)


@operation("Sum")
def _sum(call: Call, *xs: Any) -> Any:
    return reduce(xp.add, xs)


@operation("Mean")
def _mean(call: Call, *xs: Any) -> Any:
    return reduce(xp.add, xs) / len(xs)


@operation("Mod")
def _mod(call: Call, x: Any, y: Any) -> Any:
    return xp.fmod(x, y) if call.get("fmod", 0) else xp.remainder(x, y)


@operation("BitShift")
def _bit_shift(call: Call, x: Any, y: Any) -> Any:
    left = call["direction"] == "LEFT"
    return xp.bitwise_left_shift(x, y) if left else xp.bitwise_right_shift(x, y)


@operation("Where")
def _where(call: Call, condition: Any, x: Any, y: Any) -> Any:
    return xp.where(condition, x, y)


@operation("Cast")
def _cast(call: Call, x: Any) -> Any:
    return xp.astype(x, dtype_of(call["to"]))


@operation("BitCast")
def _bitcast(call: Call, x: Any) -> Any:
    """Bools are the numbers 0 and 1 of 8 bits."""
    to = np.dtype(dtype_of(call["to"]))
    x = xp.astype(x, np.uint8) if xp.asarray(x).dtype == np.bool_ else x
    return xp.astype(x, np.bool_) if to == np.bool_ else xp.bitcast(x, to)


@operation("CastLike")
def _cast_like(call: Call, x: Any, y: Any) -> Any:
    return like(x, y)


@operation("Clip")
def _clip(call: Call, x: Any, low: Any = None, high: Any = None) -> Any:
    low = call.get("min") if low is None else low
    high = call.get("max") if high is None else high
    x = x if low is None else like(xp.maximum(x, low), x)
    return x if high is None else like(xp.minimum(x, high), x)


@operation("IsInf")
def _is_inf(call: Call, x: Any) -> Any:
    above, below = call.get("detect_positive", 1), call.get("detect_negative", 1)
    if above and below:
        return xp.isinf(x)
    if not above and not below:
        return xp.zeros(shape(x), dtype=np.bool_)
    return xp.isposinf(x) if above else xp.isneginf(x)


# -- activations -----------------------------------------------------------------------------------


@operation("Elu")
def _elu(call: Call, x: Any) -> Any:
    return elu(x, call.get("alpha", 1.0))


@operation("Celu")
def _celu(call: Call, x: Any) -> Any:
    alpha = call.get("alpha", 1.0)
    return xp.maximum(x, 0) + xp.minimum(alpha * xp.expm1(xp.minimum(x, 0) / alpha), 0)


@operation("Selu")
def _selu(call: Call, x: Any) -> Any:
    alpha, gamma = call.get("alpha", 1.6732632), call.get("gamma", 1.050701)
    return gamma * xp.where(x > 0, x, alpha * xp.expm1(xp.minimum(x, 0)))


@operation("LeakyRelu")
def _leaky_relu(call: Call, x: Any) -> Any:
    return xp.where(x < 0, call.get("alpha", 0.01) * x, x)


@operation("ThresholdedRelu")
def _thresholded_relu(call: Call, x: Any) -> Any:
    return xp.where(x > call.get("alpha", 1.0), x, xp.zeros_like(x))


@operation("PRelu")
def _prelu(call: Call, x: Any, slope: Any) -> Any:
    if call.version < 9 and rank(slope) == 1 and rank(x) > 2:
        slope = xp.reshape(slope, (-1, *(1,) * (rank(x) - 2)))
    return xp.where(x < 0, x * slope, x)


@operation("HardSigmoid")
def _hard_sigmoid(call: Call, x: Any) -> Any:
    return xp.clip(call.get("alpha", 0.2) * x + call.get("beta", 0.5), 0, 1)


@operation("Swish")
def _swish(call: Call, x: Any) -> Any:
    return x * xp.sigmoid(call.get("alpha", 1.0) * x)


@operation("Mish")
def _mish_of(call: Call, x: Any) -> Any:
    return x * xp.tanh(softplus(x))


@operation("Gelu", "com.microsoft::Gelu")
def _gelu(call: Call, x: Any) -> Any:
    return gelu(x, approximate=call.get("approximate", "none") == "tanh")


@operation("Shrink")
def _shrink(call: Call, x: Any) -> Any:
    edge, bias = call.get("lambd", 0.5), call.get("bias", 0.0)
    found = xp.where(x < -edge, x + bias, xp.where(x > edge, x - bias, xp.zeros_like(x)))
    return like(found, x)


@operation("SwiGLU")
def _swiglu(call: Call, gate: Any, x: Any) -> Any:
    return gate * xp.sigmoid(call.get("alpha", 1.0) * gate) * x
