"""Sorting by merging: in each pass runs of a length become runs of twice that, all at once.

Each element of two merged runs finds out by halving how many come from the first run, and from that
which element it is. The first runs are sorted by counting: an element's place in its run is how
many of the run come before it. Any length will do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dlvm.ir import (
    BOOL,
    I32,
    I64,
    U8,
    Builder,
    Dim,
    DType,
    Function,
    Op,
    Param,
    TensorType,
    Value,
    splat,
)
from dlvm.ir.rewrite import Env, transform
from dlvm.ir.sizes.dims import floordiv, maximum, minimum
from dlvm.ops import (
    Add,
    And,
    Broadcast,
    DimSize,
    Equal,
    Gather,
    Iota,
    Less,
    LessEqual,
    Maximum,
    Minimum,
    Neg,
    Not,
    Or,
    Pad,
    Reshape,
    Scan,
    Select,
    ShiftLeft,
    ShiftRight,
    Slice,
    Sort,
    Sub,
    Sum,
    Xor,
)
from dlvm.ops.elements.casting import Bitcast, Cast, converted
from dlvm.passes import function_pass

SHORT = 64
"""Elements, at most, that one thread sorts."""
COUNTED = 32
"""Elements of a run that is sorted by counting."""
LONGEST = 40
"""Passes over a row of open length, at most: no memory holds more than 2^40 elements."""


@function_pass
def merge_sorts(fn: Function) -> Function:
    """Sort rows of open length, or of more than a few elements, by merging."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Sort)
        n = op.x.shape[-1]
        if isinstance(n, int) and n <= SHORT:
            return None
        x = env.get(op.x, op.x)
        order = order_of(_key(x, op.descending))
        return _picked(x, order), converted(order, I64)

    return transform(fn, visit, on=Sort)


def order_of(key: Value) -> Value:
    """The places of the elements of each row of integers in ascending order; equals keep theirs."""
    n = key.type.shape[-1]
    place = I32 if isinstance(n, int) and n < 1 << 30 else I64
    start = _counted(key, place)
    key = _picked(key, start)
    count = passes(n)
    lengths = ShiftLeft(splat(COUNTED, TensorType(place, (count,))), Iota(count, place))
    keys, places = Param(key.type, "key"), Param(start.type, "place")
    length = Param(TensorType(place), "length")
    with (builder := Builder()):
        source = _merged(keys, length)
        results = _picked(keys, source), _picked(places, source)
    body = Function("merge", (keys, places, length), tuple(builder.ops), results)
    return Scan((key, start), (lengths,), (), body, count).results[1]


def passes(n: Dim) -> Dim:
    """How often runs are merged until one is left: the binary digits of (n - 1) / ``COUNTED``."""
    if isinstance(n, int):
        return (max(n - 1, 0) // COUNTED).bit_length()
    last = floordiv(maximum(n - 1, 0), COUNTED)
    return sum((minimum(1, floordiv(last, 1 << k)) for k in range(LONGEST)), 0)


def _key(x: Value, descending: bool) -> Value:
    """Integers in the same order: NaN, which has the largest bits, is last, and zeros are equal."""
    if x.dtype == BOOL:
        x = Cast(x, U8)
    if not x.dtype.is_float:
        return Not(x) if descending else x
    x = converted(x, x.dtype.compute)
    whole = _integer(x.dtype)
    positive = Neg(x) if descending else x
    bits = Bitcast(Add(positive, splat(0, x.type)), whole)
    below = Less(bits, splat(0, bits.type))
    return Select(below, Xor(bits, splat((1 << (whole.bits - 1)) - 1, bits.type)), bits)


def _integer(dtype: DType) -> DType:
    return I32 if dtype.bits == 32 else I64


def _along(x: Value, shape: tuple[Dim, ...]) -> Value:
    """A row, in all rows."""
    return Broadcast(x, shape, (len(shape) - 1,))


def _picked(x: Value, places: Value) -> Value:
    last = x.type.rank - 1
    return Gather(x, places, last, last, "clip")


def _counted(key: Value, place: DType) -> Value:
    """Where each element comes from when runs of ``COUNTED`` are sorted, the last one filled up."""
    *rows, n = key.type.shape
    runs = floordiv(n + (COUNTED - 1), COUNTED)
    flat, shape = (*rows, runs * COUNTED), (*rows, runs, COUNTED)
    none = (0,) * len(rows)
    filled = Pad(key, (*none, 0), (*none, runs * COUNTED - n))
    count = Broadcast(Cast(DimSize(n), place), flat, ())
    inside = Less(_along(Iota(runs * COUNTED, place), flat), count)
    last = splat(int(key.dtype.numpy.type(np.iinfo(key.dtype.numpy).max)), filled.type)
    run = Reshape(Select(inside, filled, last), shape)
    ours, others = _pairs(run)
    own, other = _pairs(_along(Iota(COUNTED, place), shape))
    before = Or(Less(others, ours), And(Equal(others, ours), Less(other, own)))
    axis = len(shape)
    ahead = Sum(Cast(before, place), (axis - 1,))
    _, theirs = _pairs(ahead)
    from_ = Sum(Select(Equal(theirs, own), other, splat(0, own.type)), (axis - 1,))
    starts = Iota(runs, place) * Broadcast(splat(COUNTED, TensorType(place)), (runs,), ())
    source = Reshape(from_ + Broadcast(starts, shape, (axis - 2,)), flat)
    return Slice(source, (0,) * len(flat), key.type.shape, (1,) * len(flat))


def _pairs(x: Value) -> tuple[Value, Value]:
    """Each element below all of its row: itself, and the other one.

    Neighbouring lanes then have neighbouring elements, and read the same other one.
    """
    shape = (*x.type.shape, x.type.shape[-1])
    *rows, other, own = range(len(shape))
    return Broadcast(x, shape, (*rows, own)), Broadcast(x, shape, (*rows, other))


@dataclass(frozen=True)
class _Pair:
    """Two runs for each element: keys, where the first starts, and how long both may be."""

    keys: Value
    base: Value
    length: Value

    def first(self, i: Value) -> Value:
        """The key at a place of the first run."""
        return _picked(self.keys, self.base + i)

    def second(self, i: Value) -> Value:
        """The key at a place of the second run."""
        return _picked(self.keys, self.base + self.length + i)


def _merged(keys: Value, length: Value) -> Value:
    """Where each element comes from when runs of a length are merged, two and two."""
    shape, n, place = keys.type.shape, keys.type.shape[-1], length.dtype
    whole = TensorType(place, shape)
    size = Broadcast(Cast(DimSize(n), place), shape, ())
    run = Broadcast(length, shape, ())
    zero, one = splat(0, whole), splat(1, whole)
    position = _along(Iota(n, place), shape)
    base = And(position, Neg(run + run))
    ahead = Sub(position, base)
    ours = Minimum(run, Sub(size, base))
    theirs = Maximum(Minimum(run, Sub(Sub(size, base), run)), zero)
    pair = _Pair(keys, base, run)
    low, high = Maximum(Sub(ahead, theirs), zero), Minimum(ahead, ours)
    for _ in range(n.bit_length() if isinstance(n, int) else LONGEST):
        middle = ShiftRight(low + high, one)
        open_ = Less(low, high)
        other = Sub(Sub(ahead, one), middle)
        before = LessEqual(pair.first(middle), pair.second(other))
        low = Select(And(open_, before), middle + one, low)
        high = Select(And(open_, Not(before)), middle, high)
    rest = Sub(ahead, low)
    before = Or(LessEqual(theirs, rest), LessEqual(pair.first(low), pair.second(rest)))
    return base + Select(And(Less(low, ours), before), low, run + rest)
