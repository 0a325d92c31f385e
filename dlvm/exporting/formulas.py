"""Scalar formulas as operations on whole tensors.

An element-wise operation states the formula of one element, a reduction its monoid. Here these
formulas become operations of the language, so that a format needs no more than the operations
that have a word of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dlvm import ops
from dlvm.ir import OPS, Builder, Dim, DType, Function, Param, TensorType, Value, as_tuple, splat
from dlvm.ops import Bitcast, Cast, Elementwise, Reduction, Select

WORDS = {
    **{word: word for word in ("add", "sub", "mul", "div", "floordiv", "pow", "copysign", "fmod")},
    **{word: word for word in ("and", "or", "xor")},
    **{"max": "maximum", "min": "minimum", "shl": "shift_left", "shr": "shift_right"},
    **{"lt": "less", "le": "less_equal", "eq": "equal"},
}
"""The operation for each scalar function of two numbers."""


@dataclass(frozen=True)
class Formula:
    """The scalar functions as operations on tensors of one shape; see ``dlvm.ir.scalar``."""

    shape: tuple[Dim, ...]

    def constant(self, number: float | int | bool, dtype: DType) -> Value:
        """A number of the given type, everywhere."""
        return splat(number, TensorType(dtype, self.shape))

    def dtype(self, x: Value) -> DType:
        """The type of the elements."""
        return x.dtype

    def unary(self, word: str, x: Value) -> Value:
        """The operation of the same name."""
        return OPS[word](x)

    def binary(self, word: str, x: Value, y: Value) -> Value:
        """The operation for the word."""
        if word == "ne":
            return ops.Not(ops.Equal(x, y))
        return OPS[WORDS[word]](x, y)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """An element of one or the other."""
        return Select(condition, x, y)

    def cast(self, x: Value, dtype: DType) -> Value:
        """The elements in another type."""
        return x if x.dtype == dtype else Cast(x, dtype)

    def reinterpret(self, x: Value, dtype: DType) -> Value:
        """The bits in another type."""
        return Bitcast(x, dtype)


def written_out(op: Elementwise) -> tuple[Value, ...]:
    """The results of an element-wise operation by its formula; halves are computed in f32."""
    s = Formula(op.operands[0].shape)
    found = as_tuple(op.scalar(s, *(s.cast(x, x.dtype.compute) for x in op.operands)))
    pairs = zip(found, op.result_types, strict=True)
    return tuple(s.cast(x, t.dtype) for x, t in pairs)


def region(name: str, params: Sequence[Param], results: Sequence[Value], b: Builder) -> Function:
    """A closed function of what a builder has collected."""
    return Function(name, tuple(params), tuple(b.ops), tuple(results))


def combining(op: Reduction) -> Function:
    """The monoid of a reduction as a function of two states over scalars."""
    states = op.states()
    params = [Param(TensorType(t), f"{side}{i}") for side in "ab" for i, t in enumerate(states)]
    half = len(states)
    with (builder := Builder()):
        found = op.combine(Formula(()), tuple(params[:half]), tuple(params[half:]))
    return region("combine", params, found, builder)


def identities(op: Reduction) -> tuple[float, ...]:
    """The numbers from which a reduction starts."""
    with Builder():
        found = op.identity(Formula(()))
    values = [ops.scalar_value(v) for v in found]
    return tuple(v.item() if v.dtype.kind in "biu" else float(np.float64(v)) for v in values)
