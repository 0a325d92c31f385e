"""Functions of elements: words of StableHLO and CHLO as operations of the language."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dlvm import ops
from dlvm.exporting.foreign import NAMES
from dlvm.ir import BOOL, DTYPES, DType, Op, Value, zeros

from .table import Place, Results, filled, reads, whole
from .tree import Node, unreadable

KINDS: dict[str, type[Op]] = {
    name if "." in name else f"stablehlo.{name}": kind
    for kind, names in NAMES.items()
    for name in (names.stablehlo, names.only_read)
    if name
}
OF_BOOLS: dict[type[Op], type[Op]] = {ops.Add: ops.Or, ops.Mul: ops.And}
"""What arithmetic on bools means."""


@reads(*KINDS)
def word(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """An operation that the language has; those that mean more have a reader below."""
    kind = KINDS[node.name]
    if xs[0].dtype == BOOL:
        kind = OF_BOOLS.get(kind, kind)
    return kind(*xs)


@reads("stablehlo.divide")
def divide(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Integers are divided towards zero."""
    x, y = xs
    if x.dtype.is_float:
        return ops.Div(x, y)
    down = ops.FloorDiv(x, y)
    if x.dtype.kind == "u":
        return down
    zero = zeros(x.type)
    inexact = ops.Not(ops.Equal(down * y, x))
    across = ops.Xor(ops.Less(x, zero), ops.Less(y, zero))
    return ops.Select(ops.And(inexact, across), down + whole(1, x.type), down)


@reads("stablehlo.power")
def power(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Of floats and of integers."""
    return ops.Pow(*xs) if xs[0].dtype.is_float else ops.IntegerPower(*xs)


@reads("stablehlo.rsqrt")
def rsqrt(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """1 / sqrt(x)."""
    return 1.0 / ops.Sqrt(xs[0])


@reads("stablehlo.round_nearest_afz")
def round_away(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Halves go away from zero; what is above the half is exact."""
    size = ops.Abs(xs[0])
    down = ops.Floor(size)
    up = ops.LessEqual(whole(0.5, size.type), size - down)
    return ops.CopySign(ops.Select(up, down + 1.0, down), xs[0])


@reads("chlo.square")
def square(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """x * x."""
    return xs[0] * xs[0]


@reads("stablehlo.compare")
def compare(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A comparison; in the total order NaN comes last."""
    x, y = xs
    total = node.attributes.get("compare_type") == "TOTALORDER" and x.dtype.is_float
    less = _before if total else ops.Less
    forms: dict[str, Callable[[], Value]] = {
        "EQ": lambda: ops.Equal(x, y),
        "NE": lambda: ops.Not(ops.Equal(x, y)),
        "LT": lambda: less(x, y),
        "GT": lambda: less(y, x),
        "LE": lambda: ops.LessEqual(x, y),
        "GE": lambda: ops.LessEqual(y, x),
    }
    return forms[node.attributes["comparison_direction"]]()


def _before(x: Value, y: Value) -> Value:
    last = ops.And(ops.Not(ops.Equal(y, y)), ops.Equal(x, x))
    return ops.Or(ops.Less(x, y), last)


@reads("stablehlo.select")
def select(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """One of two, by a bool for each element or for all."""
    condition, x, y = xs
    if condition.shape != x.shape:
        condition = filled(condition, x.type.with_dtype(BOOL))
    return ops.Select(condition, x, y)


@reads("stablehlo.clamp")
def clamp(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Between two bounds, which may be scalars."""
    low, x, high = xs
    low, high = (b if b.shape == x.shape else filled(b, x.type) for b in (low, high))
    return ops.Minimum(ops.Maximum(x, low), high)


@reads("stablehlo.convert")
def convert(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Another element type."""
    (x,), (t,) = xs, node.types
    return x if x.dtype == t.dtype else ops.Cast(x, t.dtype)


@reads("stablehlo.shift_right_logical", "stablehlo.shift_right_arithmetic")
def shift_right(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Shifts as unsigned or as signed integers."""
    dtype = xs[0].dtype
    kind = "u" if node.name.endswith("logical") else "i"
    moved = DTYPES[f"{kind}{dtype.bits}"]
    found = ops.ShiftRight(*(_as(x, moved) for x in xs))
    return _as(found, dtype)


def _as(x: Value, dtype: DType) -> Value:
    return x if x.dtype == dtype else ops.Cast(x, dtype)


@reads("stablehlo.popcnt", "stablehlo.count_leading_zeros")
def counted_bits(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Ones among the bits; leading zeros are the bits above all ones."""
    dtype = xs[0].dtype
    x = _as(xs[0], DTYPES[f"u{dtype.bits}"])
    one = whole(1, x.type)
    if node.name.endswith("popcnt"):
        bits = [ops.And(_moved(x, k), one) for k in range(dtype.bits)]
        return _as(_sum(bits), dtype)
    for k in (1, 2, 4, 8, 16, 32):
        if k < dtype.bits:
            x = ops.Or(x, _moved(x, k))
    ones = _sum([ops.And(_moved(x, k), one) for k in range(dtype.bits)])
    return _as(whole(dtype.bits, x.type) - ones, dtype)


def _moved(x: Value, places: int) -> Value:
    return ops.ShiftRight(x, whole(places, x.type))


def _sum(values: Sequence[Value]) -> Value:
    found = values[0]
    for value in values[1:]:
        found = found + value
    return found


@reads("stablehlo.bitcast_convert")
def bitcast(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """Bits as another type of the same width."""
    (x,), (t,) = xs, node.types
    if x.shape != t.shape:
        raise unreadable(node.name, "it changes the shape")
    return x if x.dtype == t.dtype else ops.Bitcast(x, t.dtype)
