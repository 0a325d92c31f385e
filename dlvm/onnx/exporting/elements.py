"""Functions of elements in ONNX: the nodes for them, and compositions for those it lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dlvm import ops
from dlvm.exporting.foreign import floats_only, names_of
from dlvm.exporting.inlining import TypedName
from dlvm.ir import BOOL, I64, Op, TensorType, Value, splat, zeros

from .nodes import Nodes

OF_BOOLS = ("Not", "And", "Or", "Xor", "Equal")


def has(op: Op) -> bool:
    """Whether an element-wise operation is written here."""
    if floats_only(op):
        return op.operands[0].dtype.is_float
    if isinstance(op, ops.FloorDiv):
        return op.type.dtype.is_integer
    if isinstance(op, ops.Select):
        return op.type.dtype.kind != "b"
    if isinstance(op, ops.Cast):
        return True
    name = _name(op)
    return name in OF_BOOLS or (name != "" and op.operands[0].dtype.kind != "b")


def _name(op: Op) -> str:
    """The name of the one node for an operation; empty where there is none."""
    name = names_of(op).onnx
    of_bools = name != "" and op.operands[0].dtype.kind == "b"
    return name.removeprefix("Bitwise") if of_bools else name


def written(n: Nodes, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """The node, or nodes, of an operation."""
    name = _name(op)
    return n.one(name, xs, op.type) if name else FORMS[type(op)](n, op, xs)


def select(n: Nodes, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """One of two by a condition."""
    return n.one("Where", xs, op.type)


def fmod(n: Nodes, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """The rest of a division that is truncated."""
    return n.one("Mod", xs, op.type, fmod=1)


def trunc(n: Nodes, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """Up below zero, down above."""
    (x,) = xs
    below = compared(n, "Less", x, n.number(0, x.type.dtype))
    return n.one("Where", (below, n.one("Ceil", xs, x.type), n.one("Floor", xs, x.type)), x.type)


def compared(n: Nodes, kind: str, x: TypedName, y: TypedName) -> TypedName:
    """A comparison with a scalar, or of two of one shape."""
    return n.one(kind, (x, y), x.type.with_dtype(BOOL))


def floordiv(n: Nodes, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """``x // y`` of integers; 0 where y is 0. Division by -1 is a negation, which wraps."""
    (x, y), t = xs, op.type
    zero, one = n.number(0, t.dtype), n.number(1, t.dtype)
    nothing = compared(n, "Equal", y, zero)
    if t.dtype.kind == "u":
        found = n.one("Div", (x, n.one("Where", (nothing, one, y), t)), t)
        return n.one("Where", (nothing, zero, found), t)
    turned = compared(n, "Equal", y, n.number(-1, t.dtype))
    special = n.one("Or", (nothing, turned), nothing.type)
    found = _rounded_down(n, x, n.one("Where", (special, one, y), t))
    found = n.one("Where", (turned, n.one("Neg", (x,), t), found), t)
    return n.one("Where", (nothing, zero, found), t)


def _rounded_down(n: Nodes, x: TypedName, y: TypedName) -> TypedName:
    """ONNX divides towards zero: one less where that left a rest of the other sign."""
    t, zero = x.type, n.number(0, x.type.dtype)
    found = n.one("Div", (x, y), t)
    rest = n.one("Sub", (x, n.one("Mul", (found, y), t)), t)
    whole = compared(n, "Equal", rest, zero)
    across = n.one("Xor", [compared(n, "Less", v, zero) for v in (rest, y)], whole.type)
    down = n.one("And", (n.one("Not", (whole,), whole.type), across), whole.type)
    less = n.one("Sub", (found, n.number(1, t.dtype)), t)
    return n.one("Where", (down, less, found), t)


def cast(n: Nodes, op: Op, xs: Sequence[TypedName]) -> TypedName:
    """Another element type; floats that an integer can't hold saturate, and NaN gives 0."""
    (x,) = xs
    if x.type.dtype.is_float and op.type.dtype.is_integer:
        return _saturated(n, n.cast(x, x.type.dtype.compute), op.type)
    return n.cast(x, op.type.dtype)


def _saturated(n: Nodes, x: TypedName, t: TensorType) -> TypedName:
    low, high = int(t.dtype.lowest), int(t.dtype.highest)
    source = x.type.dtype
    below = compared(n, "Less", x, n.number(low, source))
    above = compared(n, "LessOrEqual", n.filled(high + 1, x.type), x)
    unknown = n.one("IsNaN", (x,), below.type)
    outside = n.one("Or", (below, n.one("Or", (above, unknown), below.type)), below.type)
    safe = n.one("Where", (outside, n.number(0, source), x), x.type)
    wide = I64 if t.dtype.bits < 64 else t.dtype  # runtimes select few types of integers
    found = n.cast(safe, wide)
    found = n.one("Where", (above, n.number(high, wide), found), found.type)
    return n.cast(n.one("Where", (below, n.number(low, wide), found), found.type), t.dtype)


FORMS: dict[type[Op], Callable[[Nodes, Op, Sequence[TypedName]], TypedName]] = {
    ops.Select: select,
    ops.Fmod: fmod,
    ops.Trunc: trunc,
    ops.FloorDiv: floordiv,
    ops.Cast: cast,
}


# -- compositions of functions that ONNX lacks ----------------------------------------------------


def expm1(op: ops.Expm1) -> Value:
    """tanh(x/2) (exp(x) + 1), which keeps the digits near 0."""
    return ops.Tanh(op.x * 0.5) * (ops.Exp(op.x) + 1.0)


def log1p(op: ops.Log1p) -> Value:
    """log(u) x / (u - 1) for the rounded u = 1 + x (Kahan), where that is no quotient of zeros."""
    u, one = op.x + 1.0, splat(1.0, op.type)
    endless = ops.Equal(u, splat(math.inf, op.type))
    plain = ops.Or(ops.Equal(u, one), endless)
    rest = ops.Select(plain, one, u - one)
    found = ops.Log(u) * (op.x / rest)
    return ops.Select(plain, op.x, found)


def cbrt(op: ops.Cbrt) -> Value:
    """A power of the magnitude, and one step of Newton's iteration."""
    size = ops.Abs(op.x)
    y = ops.Pow(size, splat(1 / 3, op.type))
    usual = ops.And(ops.Less(zeros(op.type), y), ops.IsFinite(y))
    safe = ops.Select(usual, y, splat(1.0, op.type))
    better = safe - (safe - size / (safe * safe)) * (1 / 3)
    return ops.CopySign(ops.Select(usual, better, y), op.x)


def copysign(op: ops.CopySign) -> Value:
    """The sign of a zero is that of its inverse."""
    zero, size = zeros(op.type), ops.Abs(op.x)
    below = ops.And(ops.Equal(op.y, zero), ops.Less(1.0 / op.y, zero))
    return ops.Select(ops.Or(ops.Less(op.y, zero), below), -size, size)


ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
"""Of the Chebyshev fit of erfc in Numerical Recipes, 6.2: a relative error of 1.2e-7."""


def erfc(op: ops.Erfc) -> Value:
    """t exp(-x*x + p(t)) with t = 1/(1 + |x|/2), and 2 less that below 0."""
    size = ops.Abs(op.x)
    t = 1.0 / (size * 0.5 + 1.0)
    p: Value = splat(ERFC[0], op.type)
    for c in ERFC[1:]:
        p = p * t + c
    found = t * ops.Exp(p - size * size)
    return ops.Select(ops.Less(op.x, zeros(op.type)), 2.0 - found, found)


def both(op: Any) -> Value:
    """Of bools: what arithmetic words and selections mean in logic."""
    if isinstance(op, ops.Select):
        c, x, y = op.operands
        return ops.Or(ops.And(c, x), ops.And(ops.Not(c), y))
    if isinstance(op, ops.Less):
        return ops.And(ops.Not(op.x), op.y)
    if isinstance(op, ops.LessEqual):
        return ops.Or(ops.Not(op.x), op.y)
    if isinstance(op, ops.Abs):
        return op.x
    return ops.Or(*op.operands) if isinstance(op, ops.Maximum) else ops.And(*op.operands)


OWN: dict[type[Op], Callable[[Any], Value | tuple[Value, ...]]] = {
    ops.Expm1: expm1,
    ops.Log1p: log1p,
    ops.Cbrt: cbrt,
    ops.CopySign: copysign,
    ops.Erfc: erfc,
    **dict.fromkeys((ops.Select, ops.Less, ops.LessEqual, ops.Abs), both),
    **dict.fromkeys((ops.Maximum, ops.Minimum), both),
}
