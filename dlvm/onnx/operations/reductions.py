"""Operations along axes: reductions, cumulative sums and products, softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.nn import log_softmax, softmax
from dlvm.onnx.sizes import integers
from dlvm.onnx.table import Call, operation

from .operands import axes_of, axis_of, given, is_float, kind, like, product, rank, shape

Fold = Callable[..., Any]


def _largest(x: Any, **options: Any) -> Any:
    """The largest element; of none it is the least number."""
    if kind(x).kind == "b":
        return xp.any(x, **options)
    return xp.max(x, initial=lowest(kind(x)) if _is_empty(x) else None, **options)


def _least(x: Any, **options: Any) -> Any:
    if kind(x).kind == "b":
        return xp.all(x, **options)
    return xp.min(x, initial=highest(kind(x)) if _is_empty(x) else None, **options)


def _is_empty(x: Any) -> bool:
    return any(isinstance(n, int) and n == 0 for n in shape(x))


def lowest(dtype: np.dtype[Any]) -> Any:
    """The least number of an element type."""
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf


def highest(dtype: np.dtype[Any]) -> Any:
    """The largest number of an element type."""
    return int(np.iinfo(dtype).max) if dtype.kind in "iu" else np.inf


def _log_sum_exp(x: Any, **options: Any) -> Any:
    return xp.logsumexp(x if is_float(x) else xp.astype(x, np.float64), **options)


def _sum_of_sizes(x: Any, **options: Any) -> Any:
    return xp.sum(xp.abs(x), **options)


def _sum_of_squares(x: Any, **options: Any) -> Any:
    return xp.sum(x * x, **options)


def _length(x: Any, **options: Any) -> Any:
    return xp.sqrt(_sum_of_squares(x, **options))


def _log_of_sum(x: Any, **options: Any) -> Any:
    return xp.log(xp.sum(x, **options))


FOLDS: dict[str, Fold] = {
    "ReduceSum": xp.sum,
    "ReduceMean": xp.mean,
    "ReduceMax": _largest,
    "ReduceMin": _least,
    "ReduceProd": xp.prod,
    "ReduceL1": _sum_of_sizes,
    "ReduceL2": _length,
    "ReduceLogSum": _log_of_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": _sum_of_squares,
}
POINTWISE: dict[str, Callable[[Any], Any]] = {
    "ReduceL1": xp.abs,
    "ReduceL2": xp.abs,
    "ReduceLogSum": xp.log,
    "ReduceSumSquare": lambda x: x * x,
}
"""What a reduction of no axis still does to each element."""


def _reduction(name: str, fold: Fold) -> Fold:
    def run(call: Call, x: Any, axes: Any = None) -> Any:
        wanted = given(axes, call.get("axes"))
        if not wanted and call.get("noop_with_empty_axes", 0):
            return POINTWISE.get(name, lambda x: x)(x)
        where = axes_of(wanted or range(rank(x)), rank(x))
        return like(fold(x, axis=where, keepdims=bool(call.get("keepdims", 1))), x)

    return run


for _name, _fold in FOLDS.items():
    operation(_name, known=(1,))(_reduction(_name, _fold))


@operation("CumSum", known=(1,))
def _cumsum(call: Call, x: Any, axis: Any) -> Any:
    return _cumulative(call, x, axis, xp.cumsum, 0)


@operation("CumProd", known=(1,))
def _cumprod(call: Call, x: Any, axis: Any) -> Any:
    return _cumulative(call, x, axis, xp.cumprod, 1)


def _cumulative(call: Call, x: Any, axis: Any, fold: Fold, neutral: int) -> Any:
    """From the front or the back; an exclusive one leaves out the element itself."""
    (at,) = axes_of(integers(axis), rank(x))
    x = xp.flip(x, axis=at) if call.get("reverse", 0) else x
    if call.get("exclusive", 0):
        size = shape(x)[at]
        before = xp.full((*shape(x)[:at], 1, *shape(x)[at + 1 :]), neutral, dtype=kind(x))
        rest = x[tuple(slice(0, size - 1) if k == at else slice(None) for k in range(rank(x)))]
        x = xp.concat([before, rest], axis=at)
    found = like(fold(x, axis=at), x)
    return xp.flip(found, axis=at) if call.get("reverse", 0) else found


@operation("Softmax")
def _softmax(call: Call, x: Any) -> Any:
    return _along_rows(call, x, softmax)


@operation("LogSoftmax")
def _log_softmax(call: Call, x: Any) -> Any:
    return _along_rows(call, x, log_softmax)


def _along_rows(call: Call, x: Any, fn: Fold) -> Any:
    """Along an axis; before version 13 along all axes from one on, as one."""
    if call.version >= 13:
        return fn(x, axis=call.get("axis", -1))
    axis = axis_of(call.get("axis", 1), rank(x))
    rows = xp.reshape(x, (product(shape(x)[:axis]), product(shape(x)[axis:])))
    return xp.reshape(fn(rows, axis=-1), shape(x))
