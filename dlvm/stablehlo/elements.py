"""Functions of elements in StableHLO: those with a word of its own, and conversions and shifts.

StableHLO leaves open what integers divided by zero, shifts by too much and conversions of floats
that are out of range give. The language defines all of them, so they are guarded here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlvm import ops
from dlvm.exporting.foreign import floats_only, names_of
from dlvm.exporting.inlining import TypedName
from dlvm.ir import BOOL, DType, Op, TensorType
from dlvm.ops.elements.casting import WHOLE, nan_bits

from .text import Text


def has(op: Op) -> bool:
    """Whether an element-wise operation is written here."""
    if floats_only(op):
        return op.type.dtype.is_float
    if isinstance(op, ops.Abs):
        return op.type.dtype.kind in "if"
    if isinstance(op, ops.FloorDiv):
        return op.type.dtype.is_integer
    return has_word(op) or type(op) in FORMS


def has_word(op: Op) -> bool:
    """Whether one operation of StableHLO or CHLO is the whole of it."""
    return names_of(op).stablehlo != ""


def word(t: Text, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """An operation with a word of its own."""
    return t.one(names_of(op).stablehlo, xs, op.type)


def compared(t: Text, relation: str, x: TypedName, y: TypedName) -> TypedName:
    """A comparison: EQ, NE, LT, LE, GT or GE."""
    kind = {"f": "FLOAT", "i": "SIGNED"}.get(x.type.dtype.kind, "UNSIGNED")
    said = {
        "comparison_direction": f"#stablehlo<comparison_direction {relation}>",
        "compare_type": f"#stablehlo<comparison_type {kind}>",
    }
    return t.one("compare", (x, y), x.type.with_dtype(BOOL), said)


def selected(t: Text, condition: TypedName, x: TypedName, y: TypedName) -> TypedName:
    """An element of x or of y."""
    return t.one("select", (condition, x, y), x.type)


def _compare(relation: str) -> Any:
    def compare(t: Text, op: Op, xs: Sequence[TypedName]) -> TypedName:
        return compared(t, relation, *xs)

    return compare


def select(t: Text, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """One of two by a condition."""
    return selected(t, *xs)


def trunc(t: Text, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """Up below zero, down above."""
    (x,) = xs
    below = compared(t, "LT", x, t.filled(0, x.type))
    return selected(t, below, t.one("ceil", xs, x.type), t.one("floor", xs, x.type))


def copysign(t: Text, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """The sign is that of the bits of y taken as an integer."""
    x, y = xs
    whole = x.type.with_dtype(WHOLE[x.type.dtype.bits])
    bits = t.one("bitcast_convert", (y,), whole)
    negative = compared(t, "LT", bits, t.filled(0, whole))
    size = t.one("abs", (x,), x.type)
    return selected(t, negative, t.one("negate", (size,), x.type), size)


def floordiv(t: Text, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """``x // y`` of integers: 0 where y is 0, and MIN where MIN is divided by -1."""
    x, y = xs
    zero, one = t.filled(0, x.type), t.filled(1, x.type)
    nothing = compared(t, "EQ", y, zero)
    signed = x.type.dtype.kind == "i"
    turned = compared(t, "EQ", y, t.filled(-1, x.type)) if signed else nothing
    special = t.one("or", (nothing, turned), nothing.type) if signed else nothing
    safe = selected(t, special, one, y)
    found = t.one("divide", (x, safe), x.type)
    if signed:
        found = _rounded_down(t, x, safe, found)
        found = selected(t, turned, t.one("negate", (x,), x.type), found)
    return selected(t, nothing, zero, found)


def _rounded_down(t: Text, x: TypedName, y: TypedName, quotient: TypedName) -> TypedName:
    zero = t.filled(0, x.type)
    rest = t.one("remainder", (x, y), x.type)
    left = compared(t, "NE", rest, zero)
    signs = [compared(t, "LT", v, zero) for v in (rest, y)]
    across = t.one("and", (left, t.one("xor", signs, left.type)), left.type)
    less = t.one("subtract", (quotient, t.filled(1, x.type)), x.type)
    return selected(t, across, less, quotient)


def _shift(left: bool) -> Any:
    def shift(t: Text, op: Op, xs: Sequence[TypedName]) -> TypedName:
        x, y = xs
        dtype = x.type.dtype
        arithmetic = not left and dtype.kind == "i"
        name = "shift_left" if left else f"shift_right_{'arithmetic' if arithmetic else 'logical'}"
        most = t.filled(dtype.bits - 1, x.type)
        fits = compared(t, "LE", y, most)
        if dtype.kind == "i":
            above = compared(t, "LE", t.filled(0, x.type), y)
            fits = t.one("and", (fits, above), fits.type)
        if arithmetic:  # by too much, the sign alone is left
            return t.one(name, (x, selected(t, fits, y, most)), x.type)
        moved = t.one(name, (x, selected(t, fits, y, t.filled(0, x.type))), x.type)
        return selected(t, fits, moved, t.filled(0, x.type))

    return shift


def cast(t: Text, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """Another element type; floats that an integer can't hold saturate, and NaN gives 0."""
    (x,) = xs
    to: DType = op.type.dtype
    if to.kind == "b":
        return compared(t, "NE", x, t.filled(0, x.type))
    if x.type.dtype.is_float and to.is_integer:
        return _saturated(t, x, op.type)
    return converted(t, x, to)


def converted(t: Text, x: TypedName, to: DType) -> TypedName:
    """A conversion that StableHLO defines; integers become halves by way of f32."""
    if x.type.dtype == to:
        return x
    if to.compute != to and not x.type.dtype.is_float:
        x = t.one("convert", (x,), x.type.with_dtype(to.compute))
    return t.one("convert", (x,), x.type.with_dtype(to))


def _saturated(t: Text, x: TypedName, result: TensorType) -> TypedName:
    x = converted(t, x, x.type.dtype.compute)
    low, high = int(result.dtype.lowest), int(result.dtype.highest)
    below = compared(t, "LT", x, t.filled(low, x.type))
    above = compared(t, "GE", x, t.filled(high + 1, x.type))
    inside = compared(t, "EQ", x, x)
    for out in (below, above):
        inside = t.one("and", (inside, t.one("not", (out,), out.type)), out.type)
    safe = selected(t, inside, x, t.filled(0, x.type))
    found = t.one("convert", (safe,), result)
    found = selected(t, above, t.filled(high, result), found)
    return selected(t, below, t.filled(low, result), found)


def bitcast(t: Text, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """The bits as another type; those of NaN are stated."""
    (x,) = xs
    if x.type.dtype == op.type.dtype and not op.type.dtype.is_float:
        return x
    if not x.type.dtype.is_float:
        return t.one("bitcast_convert", xs, op.type)
    whole = x.type.with_dtype(WHOLE[x.type.dtype.bits])
    bits = t.one("bitcast_convert", xs, whole)
    nan = t.filled(nan_bits(x.type.dtype), whole)
    bits = selected(t, compared(t, "EQ", x, x), bits, nan)
    return bits if whole == op.type else t.one("bitcast_convert", (bits,), op.type)


FORMS: dict[type[Op], Any] = {
    ops.Equal: _compare("EQ"),
    ops.Less: _compare("LT"),
    ops.LessEqual: _compare("LE"),
    ops.Select: select,
    ops.Trunc: trunc,
    ops.CopySign: copysign,
    ops.FloorDiv: floordiv,
    ops.ShiftLeft: _shift(True),
    ops.ShiftRight: _shift(False),
    ops.Cast: cast,
    ops.Bitcast: bitcast,
}
