"""Softmax in one pass over memory: a maximum and a sum of exponentials as one fold of pairs.

    m = max(x),  s = sum(exp(x - m))

is the fold of the pairs (x, 1) by

    (m, s) + (n, t) = (k, s exp(m - k) + t exp(n - k)),  k = max(m, n)

(Milakov and Gimelshein, 2018). Where both maxima are the same infinity the factor is 1; the
sum of a row whose maximum is infinite is made NaN again in the end, as inf - inf is.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm.ir import Builder, DType, Function, Op, Param, TensorType, Value, literal, splat
from dlvm.ir.rewrite import Env, transform
from dlvm.ops import (
    Broadcast,
    Cast,
    Constant,
    Equal,
    Exp,
    Fold,
    Log,
    LogSumExp,
    Max,
    Maximum,
    Select,
    Sub,
    Sum,
)
from dlvm.passes import function_pass

Along = tuple[Value, tuple[int, ...]]


@function_pass
def stream_softmax(fn: Function) -> Function:
    """Fold a maximum and the sum of exponentials below it together, in one pass.

    Fires on ``max(x)`` with ``sum(exp(x - max(x)))`` or ``logsumexp(x)`` over the same axes of
    the same tensor; half precision is folded in f32. A law over the reals: it changes roundings.
    """
    pairs = _pairs(fn)
    folded: dict[Along, tuple[Value, Value]] = {}

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        along = pairs.get(op)
        if along is None:
            return None
        if along not in folded:
            folded[along] = _fold(env.get(along[0], along[0]), along[1])
        top, total = folded[along]
        match op:
            case Max():
                return (_as(op.dtype, top),)
            case LogSumExp():
                return (_as(op.dtype, top + Log(total)),)
            case _:
                undefined = top - top  # 0, and NaN where the maximum is infinite
                return (_as(op.result_types[0].dtype, total + undefined),)

    return transform(fn, visit)


def _pairs(fn: Function) -> dict[Op, Along]:
    """Each operation that takes part, and what it runs over."""
    tops = {(op.x, op.axes): op for op in fn.ops if isinstance(op, Max) and op.axes}
    found: dict[Op, Along] = {}
    for op in fn.ops:
        along = _exponentials(op)
        if along in tops:
            found[op] = along
            found[tops[along]] = along
    return found


def _exponentials(op: Op) -> Along | None:
    """What an operation sums the exponentials of, and over which axes."""
    match op:
        case LogSumExp(x, axes):
            return x, axes
        case Sum(Exp(Sub(x, Broadcast(Max(y, over), _, kept))), axes) if x is y and over == axes:
            left = tuple(i for i in range(x.type.rank) if i not in axes)
            return (x, axes) if kept == left else None
        case _:
            return None


def _fold(x: Value, axes: tuple[int, ...]) -> tuple[Value, Value]:
    wide = _as(x.dtype.compute, x)
    ones = splat(1.0, wide.type)
    fold = Fold((wide, ones), (wide.dtype.lowest, 0.0), _combine(wide.dtype), axes)
    top, total = fold.results
    return top, total


def _as(dtype: DType, x: Value) -> Value:
    return x if x.dtype == dtype else Cast(x, dtype)


def _combine(dtype: DType) -> Function:
    params = [Param(TensorType(dtype), name) for name in ("m", "s", "n", "t")]
    m, s, n, t = params
    with (builder := Builder()):
        k = Maximum(m, n)
        total = s * _decay(m, k) + t * _decay(n, k)
    return Function("combine", tuple(params), tuple(builder.ops), (k, total))


def _decay(m: Value, k: Value) -> Value:
    """exp(m - k), and 1 where both are the same infinity."""
    return Select(Equal(m, k), Constant(literal(1.0, m.dtype)), Exp(m - k))
