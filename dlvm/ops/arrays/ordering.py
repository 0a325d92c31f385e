"""Putting elements in order, and finding places among those that are in order.

Everything here works along the last axis and with one order: NaN comes after all numbers
(whichever way one sorts), -0 and +0 are equal, and equals keep their order. A sort gives the
sorted elements and the indices that they had, so that its derivative, which moves cotangents
along the same way, needs no second sort; a result that nobody reads is not computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ir import I64, Array, TensorType, Value, splat, zeros
from dlvm.ops.elements.casting import Cast
from dlvm.ops.elements.elementwise import Div, Neg
from dlvm.ops.families import Ordering, wide

from .indexing import Gather, ScatterAdd


class Sort(Ordering):
    """The elements along the last axis in order, and the index (i64) that each of them had.

    Stable, with NaN last either way: ``y[..., j] = x[..., i[..., j]]``. The cotangents of equal
    elements are shared evenly among them, which is the mean over all orders of the ties.
    """

    name = "sort"
    x: Value
    descending: bool = False

    def infer(self) -> tuple[TensorType, ...]:
        """The type of the operand, and indices of its shape."""
        x = self.x.type
        if x.dtype.kind not in "biuf":
            raise DTypeError(f"sort: not defined for {x}")
        if not x.rank:
            raise ShapeError(f"sort: expected at least one axis, found {x}")
        return x, TensorType(I64, x.shape)

    def reference(self, *operands: Array) -> Any:
        key = wide(operands[0])
        if self.descending:
            key = ~key if key.dtype.kind in "biu" else -key
        order = np.argsort(key, axis=-1, kind="stable").astype(np.int64)
        return np.take_along_axis(operands[0], order, -1), order

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        values, order = self.results
        last = values.type.rank - 1
        shared = mean_of_ties(Neg(values) if self.descending else values, dy[0])
        return (ScatterAdd(zeros(values.type), order, shared, last, last, "clip"),)


def mean_of_ties(values: Value, dy: Value) -> Value:
    """The mean of ``dy`` over each run of equal elements of rows in ascending order."""
    last, first = values.type.rank - 1, SearchSorted(values, values)
    wide = Cast(dy, dy.dtype.compute)
    total, count = (
        ScatterAdd(zeros(wide.type), first, x, last, last, "clip")
        for x in (wide, splat(1, wide.type))
    )
    shares = (Gather(x, first, last, last, "clip") for x in (total, count))
    return Cast(Div(*shares), dy.dtype)


class SearchSorted(Ordering):
    """How many elements of each row of ``a``, in ascending order, come before each of ``v``.

    With ``right`` also those that equal it. The leading axes of ``a`` are those of ``v``, whose
    others are free. Found by halving, from the largest power of two on: of elements that are not
    in order, that is the meaning.
    """

    name = "searchsorted"
    searched = (0,)
    nondifferentiable = "its result is an integer"
    a: Value
    v: Value
    right: bool = False

    def infer(self) -> TensorType:
        """An index for each element of ``v``."""
        a, v = self.a.type, self.v.type
        if a.dtype != v.dtype or a.dtype.kind not in "biuf":
            raise DTypeError(f"searchsorted: expected one element type, found {a} and {v}")
        if not a.rank or a.shape[:-1] != v.shape[: a.rank - 1]:
            raise ShapeError(f"searchsorted: the leading axes of {a} and {v} differ")
        return TensorType(I64, v.shape)

    def reference(self, *operands: Array) -> Any:
        a, v = (wide(x) for x in operands)
        lead, n = a.shape[:-1], a.shape[-1]
        keys = v.reshape(*lead, -1) if v.size else v.reshape(*lead, 0)
        found = np.zeros(keys.shape, np.int64)
        for step in (1 << k for k in reversed(range(n.bit_length()))):
            probe = found + step
            x = np.take_along_axis(a, np.minimum(probe, n) - 1, -1)
            passed = ~_before(keys, x) if self.right else _before(x, keys)
            found = np.where((probe <= n) & passed, probe, found)
        return found.reshape(v.shape)


def _before(x: Array, y: Array) -> Array:
    """Whether x comes strictly before y, NaN being last."""
    return (x < y) | ((y != y) & (x == x))
