"""Softmax as one maximum, one sum and one exponential for each element.

    logsumexp(x) = m + log s,   s = sum(exp(x - m)),   m = max(x)
    exp(x - logsumexp(x)) = exp(x - m) / s

A row that is swept more than once is in cache from the first sweep on, so what costs are the
exponentials: these are computed once, and kept where the result will be. The fold of pairs
(m, s) in one sweep (Milakov and Gimelshein, 2018) computes two for each element, one after the
other, and a third for the result; it was four times as slow. Where the maximum is infinite,
0 is taken in its place, as the reference does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dlvm.ir import Function, Op, Value, splat
from dlvm.ir.numerics import ROUNDING, licensed
from dlvm.ir.rewrite import Env, transform
from dlvm.ops import Abs, Broadcast, Equal, Exp, Log, LogSumExp, Max, Select, Sub, Sum
from dlvm.ops.elements.casting import converted
from dlvm.passes import function_pass


@dataclass(frozen=True)
class ShiftedExponentials:
    """The exponentials of a tensor below its maximum, and their sum."""

    top: Value
    exponentials: Value
    total: Value


@function_pass
def open_softmax(fn: Function) -> Function:
    """Say ``logsumexp(x)``, and ``exp(x - logsumexp(x))``, by a maximum and a sum.

    Half precision is computed in f32. The first says what the reference computes, by another
    tree, and is always done. The second is a law of the class ``ROUNDING``.
    """
    shared = licensed(ROUNDING)
    written: dict[Op, ShiftedExponentials] = {}

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        match op:
            case LogSumExp(x, axes):
                o = written[op] = _open(env.get(x, x), axes)
                return (converted(o.top + Log(o.total), op.dtype),)
            case Exp(Sub(x, Broadcast(LogSumExp(y, axes) as norm, _, kept))) if (
                shared and x is y and norm in written and kept == _left(x, axes)
            ):
                o = written[norm]
                share = o.exponentials * _spread(splat(1.0, o.total.type) / o.total, x, axes)
                return (converted(share, op.dtype),)
            case _:
                return None

    return transform(fn, visit)


def _open(x: Value, axes: tuple[int, ...]) -> ShiftedExponentials:
    wide = converted(x, x.dtype.compute)
    highest = Max(wide, axes)
    infinite = Equal(Abs(highest), splat(float("inf"), highest.type))
    top = Select(infinite, splat(0.0, highest.type), highest)
    exponentials = Exp(wide - _spread(top, wide, axes))
    return ShiftedExponentials(top, exponentials, Sum(exponentials, axes))


def _left(x: Value, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(i for i in range(x.type.rank) if i not in axes)


def _spread(row: Value, like: Value, axes: tuple[int, ...]) -> Value:
    return Broadcast(row, like.shape, _left(like, axes))
