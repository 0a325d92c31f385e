"""Conversion between element types, each defined on every input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError
from dlvm.ir import BOOL, I16, I32, I64, Array, DType, TensorType, Value, rewrite
from dlvm.ir.interpret import Interpreter
from dlvm.ir.properties import Of, Properties
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise


class Cast(Elementwise):
    """Another element type: to float rounds to nearest even, float to integer truncates.

    Out of range saturates and NaN gives 0; integers wrap to narrower integers and go to half
    precision by way of f32; anything but zero (NaN included) is true.
    """

    name = "cast"
    accepts = "biuf"
    x: Value
    dtype_to: DType

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """The same shape with the new element type."""
        if "t" in (self.x.dtype.kind, self.dtype_to.kind):
            raise DTypeError(f"cast: a tape holds no numbers, found {self.x.type}")
        return self.x.type.with_dtype(self.dtype_to)

    def properties(self, of: Of) -> Properties:
        """Those that rounding leaves; integers may wrap."""
        kept = of(self.x) & {"symmetric", "lower", "upper", "diagonal", "identity", "nonnegative"}
        return kept if self.dtype.is_float else kept - {"nonnegative"}

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        """A narrower type rounds what is small and negative to -0."""
        return holds(self.x) and not (self.x.dtype.is_float and self.x.dtype != self.dtype_to)

    def reference(self, *operands: Array) -> Any:
        (x,) = operands
        to = self.dtype_to
        if not (to.is_integer and x.dtype.kind not in "iub"):
            return _to_float(x, to)
        low, high = int(to.lowest), int(to.highest)
        whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=1e300, neginf=-1e300))
        inside = (whole > float(low) - 1) & (whole < float(high + 1))
        clipped = np.where(inside, whole, 0).astype(to.numpy)
        limit = np.where(whole > 0, np.array(high, to.numpy), np.array(low, to.numpy))
        return np.where(inside, clipped, limit)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        if not (self.x.dtype.is_float and self.dtype_to.is_float):
            return (None,)
        return (Cast(dy[0], self.x.dtype),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.cast(x[0], self.dtype_to)


def _to_float(x: Array, to: DType) -> Array:
    if to is BOOL:
        return x != 0
    if to.is_float and to.bits == 16 and x.dtype == np.float64:
        x = _round_to_odd(x)
    elif to.is_float and to.bits == 16:
        x = x.astype(np.float32)
    return x.astype(to.numpy)


def _round_to_odd(x: Array) -> Array:
    """f64 to f32 so that a second rounding to half precision is right (Boldo, Melquiond 2008)."""
    near = np.asarray(x.astype(np.float32))
    even = (near.view(np.uint32) & 1) == 0
    inexact = np.isfinite(x) & (near.astype(np.float64) != x)
    towards = np.where(near.astype(np.float64) < x, np.float32(np.inf), np.float32(-np.inf))
    return np.where(inexact & even, np.nextafter(near, towards), near)


def converted(x: Value, dtype: DType) -> Value:
    """The value in an element type; itself where it has that one."""
    return x if x.dtype == dtype else Cast(x, dtype)


WHOLE: dict[int, DType] = {16: I16, 32: I32, 64: I64}


class Bitcast(Elementwise):
    """The bits of ``x`` as an element type of the same width; of NaN those of the positive one.

    Which NaN an operation gives differs between processors, so that its other bits mean nothing.
    """

    name = "bitcast"
    typed = "it reads the bits of one type as another"
    nondifferentiable = "it moves in steps, as bits do"
    x: Value
    dtype_to: DType

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """The same shape with the new element type, which has as many bits."""
        x, to = self.x.dtype, self.dtype_to
        if x.kind not in self.accepts or to.kind not in self.accepts or x.bits != to.bits:
            raise DTypeError(
                f"bitcast: expected two types of numbers with as many bits, found {x} and {to}"
            )
        return self.x.type.with_dtype(to)

    def properties(self, of: Of) -> Properties:
        """Equal elements stay equal, but their signs don't."""
        return of(self.x) & {"symmetric"}

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """In half precision too: the bits of f32 are others."""
        return (np.asarray(self.reference(*operands)),)

    def reference(self, *operands: Array) -> Any:
        (x,) = operands
        to = self.dtype_to.numpy
        if x.dtype.kind in "iu":
            return x.view(to)
        nan = np.array(nan_bits(self.x.dtype), WHOLE[self.x.dtype.bits].numpy)
        return np.where(np.isnan(x), nan, x.view(nan.dtype)).view(to)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        source, to = self.x.dtype, self.dtype_to
        if not source.is_float:
            return _as_bits(s, x[0], to)
        number, whole = s.cast(x[0], source), WHOLE[source.bits]
        known = s.binary("eq", number, number)
        bits = s.select(known, s.reinterpret(number, whole), s.constant(nan_bits(source), whole))
        return _as_bits(s, bits, to)


def nan_bits(dtype: DType) -> int:
    """The bits of the quiet NaN without sign whose other bits are 0."""
    return (
        int(np.array(np.nan, dtype.numpy).view(WHOLE[dtype.bits].numpy)) & 2 ** (dtype.bits - 1) - 1
    )


def _as_bits(s: Scalars[S], x: S, dtype: DType) -> S:
    return x if s.dtype(x) == dtype else s.reinterpret(x, dtype)


@rewrite(Bitcast, example=lambda x: Bitcast(x, x.dtype), given=("i[M,N]",))
def bitcast_to_itself(op: Bitcast) -> Value | None:
    """bitcast(x) = x, if the element type is the same and no float, of which NaN may have bits"""
    return op.x if op.dtype_to == op.x.dtype and not op.dtype_to.is_float else None


@rewrite(Cast, example=lambda x: Cast(x, x.dtype))
def cast_to_itself(op: Cast) -> Value | None:
    """A cast to the type that it already has does nothing."""
    return op.x if op.x.dtype == op.dtype_to else None
