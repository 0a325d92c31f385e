"""Operations that few formats have, written in other operations of the language.

A composition is asked for only where a format has no word for the operation. Those of arrays stand
in ``rearranged``; here are functions of elements, folds and running scans.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dlvm import ops
from dlvm.ir import I64, Builder, Function, Op, Param, TensorType, Value, as_tuple, splat, zeros
from dlvm.ir.sizes.dims import product
from dlvm.ops import Cast, Reduction, Running, scalar_region

from .formulas import Formula, combining, identities, region
from .rearranged import REARRANGED

Composition = Callable[[Any], "Value | tuple[Value, ...]"]


def composed(op: Op) -> tuple[Value, ...] | None:
    """The results of an operation in others; None where nothing is known of it."""
    for kind in type(op).__mro__:
        if (found := COMPOSITIONS.get(kind) or REARRANGED.get(kind)) is not None:
            return as_tuple(found(op))
    return None


# -- functions of elements -----------------------------------------------------------------------


def exp2(op: ops.Exp2) -> Value:
    """2 to the x as a power, which is exact at integers."""
    return ops.Pow(splat(2.0, op.type), op.x)


def log2(op: ops.Log2) -> Value:
    """log(x) / log(2)."""
    return ops.Log(op.x) * (1 / math.log(2))


def log10(op: ops.Log10) -> Value:
    """log(x) / log(10)."""
    return ops.Log(op.x) * (1 / math.log(10))


def sinh(op: ops.Sinh) -> Value:
    """With e = expm1(|x|) it is (e + e/(e+1))/2; of large x the half of exp, in two factors."""
    size = ops.Abs(op.x)
    e, half = ops.Expm1(size), ops.Exp(size * 0.5)
    small = (e + e / (e + 1.0)) * 0.5
    large = ops.Less(splat(20.0, op.type), size)
    return ops.CopySign(ops.Select(large, half * 0.5 * half, small), op.x)


def cosh(op: ops.Cosh) -> Value:
    """(h*h + 1/(h*h))/2 with h = exp(|x|/2), in an order in which nothing overflows early."""
    half = ops.Exp(ops.Abs(op.x) * 0.5)
    inverse = 1.0 / half
    return half * 0.5 * half + inverse * 0.5 * inverse


def asin(op: ops.Asin) -> Value:
    """2 atan2(x, 1 + sqrt((1-x)(1+x)))."""
    root = ops.Sqrt((1.0 - op.x) * (op.x + 1.0))
    return ops.Atan2(op.x, root + 1.0) * 2.0


def acos(op: ops.Acos) -> Value:
    """2 atan2(sqrt(1-x), sqrt(1+x))."""
    return ops.Atan2(ops.Sqrt(1.0 - op.x), ops.Sqrt(op.x + 1.0)) * 2.0


def atan(op: ops.Atan) -> Value:
    """atan2(x, 1)."""
    return ops.Atan2(op.x, splat(1.0, op.type))


# -- folds and running scans ---------------------------------------------------------------------


def as_fold(op: Reduction) -> tuple[Value, ...]:
    """A reduction as a fold of the states of its elements with its own monoid."""
    (first, *_), shape = op.operands, op.operands[0].shape
    s = Formula(shape)
    wide = (s.cast(x, x.dtype.compute) for x in op.operands)
    index = _positions(first.type, op.axes)
    states = op.lift(s, index, *wide)
    kept = tuple(d for i, d in enumerate(shape) if i not in op.axes)
    fold = ops.Fold(states, identities(op), combining(op), op.axes)
    results = op.project(Formula(kept), fold.results)
    pairs = zip(results, op.result_types, strict=True)
    return tuple(Formula(kept).cast(x, t.dtype) for x, t in pairs)


def _positions(t: TensorType, axes: tuple[int, ...]) -> Value:
    """The position of each element along some axes, in row-major order."""
    found = zeros(t.with_dtype(I64))
    for n, axis in enumerate(axes):
        count = ops.Broadcast(ops.Iota(t.shape[axis]), t.shape, (axis,))
        stride = product(tuple(t.shape[a] for a in axes[n + 1 :]))
        step = ops.Broadcast(ops.DimSize(stride), t.shape, ())
        found = found + count * step
    return found


def in_f32(op: Any) -> Value:
    """A reduction of halves as one of f32, rounded once."""
    wide = op.rebuild((Cast(op.x, op.x.dtype.compute),))
    return Cast(wide, op.dtype)


def fold_in_steps(op: ops.Fold) -> tuple[Value, ...]:
    """A fold as a scan over the elements, for formats whose folds have no region."""
    shape = op.xs[0].shape
    kept = [i for i in range(len(shape)) if i not in op.axes]
    rest = tuple(shape[i] for i in kept)
    count = product(tuple(shape[a] for a in op.axes))
    moved = [ops.Permute(x, (*op.axes, *kept)) for x in op.xs]
    xs = tuple(ops.Reshape(x, (count, *rest)) for x in moved)
    init = tuple(splat(e, x.type.with_shape(rest)) for e, x in zip(op.identities, xs, strict=True))
    params = [Param(x.type, f"p{i}") for i, x in enumerate((*init, *init))]
    with (builder := Builder()):
        out = scalar_region(Formula(rest), op.combine_region, tuple(params))
    body = region("step", params, out, builder)
    return ops.Scan(init, xs, (), body, count).results


def running(op: Running) -> Value:
    """A running scan as a scan over slices, with the state of every step stacked."""
    t, axis = op.result_types[0], op.axis
    order = (axis, *(i for i in range(t.rank) if i != axis))
    rest = tuple(t.shape[i] for i in order[1:])
    s = Formula(rest)
    xs = tuple(ops.Permute(s.cast(x, x.dtype.compute), order) for x in op.operands)
    init = op.identity(s)
    body, counted = _running_body(op, s, init, xs)
    counts = (ops.Iota(t.shape[axis]),) if counted else ()
    scan = ops.Scan(init, (*counts, *xs), (), body, t.shape[axis], op.reverse)
    stacked = s.cast(scan.results[len(init)], t.dtype)
    return ops.Permute(stacked, tuple(order.index(i) for i in range(t.rank)))


def _running_body(
    op: Running, s: Formula, init: tuple[Value, ...], xs: tuple[Value, ...]
) -> tuple[Function, bool]:
    """One step, and whether it asks where it is."""
    states = [Param(v.type, f"s{i}") for i, v in enumerate(init)]
    slices = [Param(x.type.with_shape(s.shape), f"x{i}") for i, x in enumerate(xs)]
    place = Param(TensorType(I64), "i")
    with (asked := Builder()):
        index = ops.Broadcast(place, s.shape, ())
    with (builder := Builder()):
        after = op.step(s, index, tuple(states), *slices)
        given = op.project(s, tuple(states) if op.exclusive else after)
    counted = any(index in step.operands for step in builder.ops)
    if counted:
        builder.ops = [*asked.ops, *builder.ops]
    params = [*states, *([place] if counted else []), *slices]
    return region("step", params, (*after, given), builder), counted


COMPOSITIONS: dict[type, Composition] = {
    ops.Exp2: exp2,
    ops.Log2: log2,
    ops.Log10: log10,
    ops.Sinh: sinh,
    ops.Cosh: cosh,
    ops.Asin: asin,
    ops.Acos: acos,
    ops.Atan: atan,
    ops.Fold: fold_in_steps,
    ops.Sum: in_f32,
    ops.Prod: in_f32,
    ops.Max: in_f32,
    ops.Min: in_f32,
    Reduction: as_fold,
    Running: running,
}
