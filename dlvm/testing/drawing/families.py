"""Places operations in a draft, with one function for each family.

An operation is placed by the function of the nearest class above it, so a new element-wise
operation or reduction joins the random programs by itself. Operations that no function here
can place are holes in the table of ``test_registry``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm import ops
from dlvm.ir import BOOL, I64, NUMBERS, Function, Op, TensorType, Value, literal, splat
from dlvm.ir.core import Builder, Param
from dlvm.ir.sizes import dims
from dlvm.ops.factorisations.triangles import diagonal_of
from dlvm.ops.flow.effects import Outgoing

from .domains import definite, dominant, separated, tamed
from .drafts import Draft

Placing = Callable[[Draft, Any], "Op | None"]
PLACING: dict[type[Op], Placing] = {}
MAX_DEPTH = 2


def places(*classes: type[Op]) -> Callable[[Placing], Placing]:
    """Register how operations of these classes, and of classes below them, are placed."""

    def register(function: Placing) -> Placing:
        PLACING.update(dict.fromkeys(classes, function))
        return function

    return register


def place(d: Draft) -> Op | None:
    """One more operation of a class that the draft may use."""
    cls = d.choose(d.ops)
    return place_class(d, cls)


def place_class(d: Draft, cls: type[Op]) -> Op | None:
    """One more operation of this class, or None if the draft has no operands for it."""
    placing = placing_of(cls)
    return None if placing is None else placing(d, cls)


def placing_of(cls: type[Op]) -> Placing | None:
    """The function that places operations of this class."""
    return next((PLACING[base] for base in cls.__mro__ if base in PLACING), None)


# -- element-wise ---------------------------------------------------------------------------


@places(ops.Elementwise)
def _elementwise(d: Draft, cls: type[ops.Elementwise]) -> Op | None:
    first = d.value(cls.accepts)
    others = [d.like(first.type) for s in cls.layout[1:] if s.kind == "operand"]
    extra = (
        {"dtype_to": d.choose(d.dtypes)} if any(s.name == "dtype_to" for s in cls.layout) else {}
    )
    if any(s.name == "order" for s in cls.layout):
        extra = {"order": d.integer(1, 3)}
    return cls(*tamed(cls, [first, *others]), **extra)


@places(ops.Bitcast)
def _bitcast(d: Draft, cls: type[ops.Bitcast]) -> Op:
    x = d.value(cls.accepts)
    return cls(x, d.choose([t for t in NUMBERS if t.bits == x.dtype.bits and t is not BOOL]))


@places(ops.Select)
def _select(d: Draft, cls: type[ops.Select]) -> Op:
    x = d.value()
    return cls(d.like(x.type.with_dtype(BOOL)), x, d.like(x.type))


# -- creation -------------------------------------------------------------------------------


@places(ops.Constant)
def _constant(d: Draft, cls: type[ops.Constant]) -> Op:
    shape = tuple(s for s in d.shape() if isinstance(s, int))
    return cls(d.array(TensorType(d.choose(d.dtypes), shape)))


@places(ops.Creation)
def _creation(d: Draft, cls: Any) -> Op:
    size = d.choose(d.sizes)
    dtype = d.choose([t for t in d.dtypes if t.kind != "b"] or [I64])
    return cls(size) if cls is ops.DimSize else cls(size, dtype)


# -- movement -------------------------------------------------------------------------------


@places(ops.Broadcast)
def _broadcast(d: Draft, cls: type[ops.Broadcast]) -> Op | None:
    x = d.value()
    shape: list[dims.Dim] = []
    axes: list[int] = []
    for size in x.shape:
        shape += [d.choose(d.sizes)] if d.flag() else []
        axes.append(len(shape))
        shape.append(size)
    shape += [d.choose(d.sizes)] if d.flag() else []
    return cls(x, tuple(shape), tuple(axes)) if d.small(tuple(shape)) else None


@places(ops.Permute)
def _permute(d: Draft, cls: type[ops.Permute]) -> Op:
    x = d.value()
    left = list(range(x.type.rank))
    return cls(x, tuple(left.pop(d.integer(0, len(left) - 1)) for _ in x.shape))


@places(ops.Reshape)
def _reshape(d: Draft, cls: type[ops.Reshape]) -> Op:
    x = d.value()
    shape = list(x.shape)
    match d.integer(0, 3):
        case 0:
            shape = [x.type.size]
        case 1 if len(shape) > 1:
            at = d.integer(0, len(shape) - 2)
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        case 2 if 1 in shape:
            shape.remove(1)
        case _:
            shape.insert(d.integer(0, len(shape)), 1)
    return cls(x, tuple(shape))


def window_of(d: Draft, extent: dims.Dim) -> tuple[dims.Dim, dims.Dim, int]:
    """Start, size and step of some window of an axis."""
    if not isinstance(extent, int):
        return open_window_of(d, extent)
    if extent == 0:
        return 0, 0, 1
    start, step = d.integer(0, extent - 1), d.choose((1, -1, 2, -2))
    room = (extent - 1 - start if step > 0 else start) // abs(step) + 1
    return start, d.integer(0, room), step


def open_window_of(d: Draft, extent: dims.Dim) -> tuple[dims.Dim, dims.Dim, int]:
    """The same for an axis of open size: all of it, or ``[:k]``, ``[-k:]`` and the
    rests of them.
    """
    few = dims.minimum(d.choose((1, 2, 3, dims.mod(extent, 3))), extent)
    size = d.choose((extent, 0, few, extent - few, dims.floordiv(extent, 2)))
    start = d.choose((0, extent - size))
    windows = [(start, size, 1), (start + size - 1, size, -1)]
    return d.choose([*windows, (start, dims.floordiv(size + 1, 2), 2)])


@places(ops.Slice)
def _slice(d: Draft, cls: type[ops.Slice]) -> Op:
    x = d.value(rank=1)
    windows = [window_of(d, e) for e in x.shape]
    starts, sizes, steps = zip(*windows, strict=True)
    return cls(x, starts, sizes, steps)


@places(ops.Update)
def _update(d: Draft, cls: type[ops.Update]) -> Op:
    x = d.value(rank=1)
    windows = [window_of(d, e) for e in x.shape]
    starts, sizes, steps = zip(*windows, strict=True)
    return cls(x, d.like(x.type.with_shape(sizes)), starts, steps)


@places(ops.Concat)
def _concat(d: Draft, cls: type[ops.Concat]) -> Op:
    x = d.value(rank=1)
    axis = d.integer(0, x.type.rank - 1)
    others: list[Value] = []
    for _ in range(d.integer(0, 2)):
        shape = (*x.shape[:axis], d.choose(d.sizes), *x.shape[axis + 1 :])
        others.append(d.like(x.type.with_shape(shape)))
    return cls((x, *others), axis)


def indices_for(d: Draft, x: Value, axis: int, batch: int) -> tuple[Value, str]:
    """Indices, and a mode in which they are valid."""
    mode = d.choose(("error", "clip", "drop"))
    lead, size = x.shape[:batch], x.shape[axis]
    if mode == "error" and size == 0:
        mode = "clip"
    if mode == "error" and not isinstance(size, int):
        every = ops.Iota(size)
        return ops.Broadcast(every, (*lead, size), (batch,)) if lead else every, mode
    shape = (*lead, *d.shape((0, 1)))
    if mode == "error":
        return inside(d, shape, int(size)), mode  # type: ignore[call-overload]
    return d.like(TensorType(I64, shape)), mode


def inside(d: Draft, shape: tuple[dims.Dim, ...], size: int) -> Value:
    """Indices from ``-size`` to ``size - 1``, the same for every symbolic row."""
    static = tuple(s for s in shape if isinstance(s, int))
    rng = np.random.default_rng(d.integer(0, 999))
    some = ops.Constant(literal(rng.integers(-size, size, static), I64))
    places_of = tuple(i for i, s in enumerate(shape) if isinstance(s, int))
    return some if static == shape else ops.Broadcast(some, shape, places_of)


def axis_and_batch(d: Draft, x: Value) -> tuple[int, int]:
    """An axis, and some batch axes before it."""
    axis = d.integer(0, x.type.rank - 1)
    return axis, d.integer(0, axis)


@places(ops.Gather)
def _gather(d: Draft, cls: type[ops.Gather]) -> Op:
    x = d.value(rank=1)
    axis, batch = axis_and_batch(d, x)
    indices, mode = indices_for(d, x, axis, batch)
    return cls(x, indices, axis, batch, mode)


@places(ops.Scatter)
def _scatter(d: Draft, cls: Any) -> Op | None:
    x = d.value("iuf", rank=1)
    axis, batch = axis_and_batch(d, x)
    indices, mode = indices_for(d, x, axis, batch)
    shape = (*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :])
    updates = d.like(x.type.with_shape(shape))
    more = (d.flag(),) if cls is ops.Exchange else ()
    return cls(x, indices, updates, axis, batch, mode, *more) if d.small(shape) else None


@places(ops.Pad)
def _pad(d: Draft, cls: type[ops.Pad]) -> Op | None:
    x = d.value()
    low, high = (tuple(d.choose((0, 1, d.choose(d.sizes))) for _ in x.shape) for _ in range(2))
    grown = tuple(a + n + b for a, n, b in zip(low, x.shape, high, strict=True))
    return cls(x, low, high) if d.small(grown) else None


@places(ops.Patches)
def _patches(d: Draft, cls: type[ops.Patches]) -> Op | None:
    x = d.value(rank=1)
    axes = d.subset(range(x.type.rank))
    sizes = tuple(d.choose((0, 1, 2, x.shape[a])) for a in axes)
    steps, dilations = (tuple(d.integer(1, 2) for _ in axes) for _ in range(2))
    found = d.attempt(lambda: cls(x, axes, sizes, steps, dilations))
    return found or cls(x, axes, (0,) * len(axes), (1,) * len(axes), (1,) * len(axes))


@places(ops.Unpatch)
def _unpatch(d: Draft, cls: type[ops.Unpatch]) -> Op | None:
    x = d.value(rank=1)
    axis, dilation = d.integer(0, x.type.rank - 1), d.integer(1, 2)
    taps = d.like(x.type.with_shape((*x.shape, d.integer(1, 3))))
    extent = x.shape[axis] + (taps.shape[-1] - 1) * dilation
    return d.attempt(lambda: cls(taps, (axis,), (extent,), (1,), (dilation,)))


@places(ops.Diagonal)
def _diagonal(d: Draft, cls: type[ops.Diagonal]) -> Op:
    x = d.value(rank=1)
    return cls(d.like(x.type.with_shape((*x.shape, x.shape[-1]))))


@places(ops.Movement)
def _movement(d: Draft, cls: Any) -> Op | None:
    x = d.value(rank=1)
    known: dict[str, Any] = {"axis": 0, "axes": (0,)}
    return d.attempt(lambda: cls(x, **{s.name: known[s.name] for s in cls.layout[1:]}))


# -- reductions and products ----------------------------------------------------------------


@places(ops.Reduction)
def _reduction(d: Draft, cls: Any) -> Op | None:
    x = d.value()
    axes = d.subset(range(x.type.rank))
    found = d.attempt(lambda: cls(x, axes))
    if found is not None:
        return found
    x = d.value("f")
    return cls(x, d.subset(range(x.type.rank)))


@places(ops.Running)
def _running(d: Draft, cls: Any) -> Op:
    kinds = "f" if getattr(cls, "accepts", "iuf") == "f" else "iuf"
    x = d.value(kinds, rank=1)
    xs = [x, *(d.like(x.type) for s in cls.layout[1:] if s.kind == "operand")]
    infinite = cls in (
        ops.CumulativeMax,
        ops.CumulativeMin,
        ops.CumulativeLogSumExp,
    )  # of nothing: no slope to be had there
    return cls(*xs, d.integer(0, x.type.rank - 1), d.flag(), d.flag() and not infinite)


@places(ops.SegmentedFold)
def _segmented(d: Draft, cls: type[ops.SegmentedFold]) -> Op:
    x = d.value("iu", rank=1)  # of floats nobody takes its slope
    word = d.choose(("add", "mul", "max", "min"))
    start = d.like(x.type.with_dtype(BOOL))
    along = d.integer(0, x.type.rank - 1)
    return cls(x, start, along, word, d.flag(), d.flag() and word in ("add", "mul"))


@places(ops.Assume)
def _assume(d: Draft, cls: type[ops.Assume]) -> Op:
    """Of a matrix for which it is true."""
    x = _square(d)
    order = tuple(range(x.type.rank - 2))
    return cls(x + ops.Permute(x, (*order, len(order) + 1, len(order))))


@places(ops.Shard)
def _shard(d: Draft, cls: type[ops.Shard]) -> Op:
    x = d.value("biuf", rank=1)
    return cls(x, ("data", *("...",) * (x.type.rank - 1)))


@places(ops.Sort)
def _sort(d: Draft, cls: type[ops.Sort]) -> Op:
    return cls(d.value(rank=1), d.flag())


@places(ops.SearchSorted)
def _search(d: Draft, cls: type[ops.SearchSorted]) -> Op:
    rows = ops.Sort(d.value(rank=1)).results[0]
    shape = (*rows.shape[:-1], *d.shape((0, 1)))
    return cls(rows, d.like(rows.type.with_shape(shape)), d.flag())


@places(ops.Fold)
def _fold(d: Draft, cls: type[ops.Fold]) -> Op:
    first = d.value("iuf")
    xs = (first, *(d.like(first.type) for _ in range(d.integer(0, 1))))
    scalars = [
        Param(x.type.with_shape(()), f"{side}{i}") for side in "ab" for i, x in enumerate(xs)
    ]
    identities: list[float] = []
    with Builder() as b:
        for i, x in enumerate(xs):
            law = d.choose((ops.Add, ops.Maximum))
            law(scalars[i], scalars[len(xs) + i])
            identities.append(0 if law is ops.Add else x.dtype.lowest)
    region = Function("combine", tuple(scalars), tuple(b.ops), tuple(b.ops))
    return cls(xs, tuple(identities), region, d.subset(range(first.type.rank)))


@places(ops.Matmul)
def _matmul(d: Draft, cls: type[ops.Matmul]) -> Op | None:
    x = d.value("iuf", rank=2)
    y = d.like(x.type.with_shape((*x.shape[:-2], x.shape[-1], d.choose(d.sizes))))
    return cls(x, y)


# -- factorisations -------------------------------------------------------------------------


@places(ops.Cholesky)
def _cholesky(d: Draft, cls: type[ops.Cholesky]) -> Op:
    return cls(definite(_square(d)))


@places(ops.Determinant)
def _determinant(d: Draft, cls: type[ops.Determinant]) -> Op:
    a = dominant(_square(d))
    packed, order = ops.LU(a).results
    value = ops.Prod(ops.Diagonal(packed), (a.type.rank - 2,))
    return cls(a, packed, order, value, value)


@places(ops.LogDeterminant)
def _log_determinant(d: Draft, cls: type[ops.LogDeterminant]) -> Op:
    a = dominant(_square(d))
    packed, order = ops.LU(a).results
    value = ops.Sum(ops.Log(ops.Abs(ops.Diagonal(packed))), (a.type.rank - 2,))
    return cls(a, packed, order, value)


@places(ops.Stated)
def _stated(d: Draft, cls: Any) -> Op:
    """The pseudo-inverse of a matrix that has an inverse, or what it solves by least squares."""
    a = dominant(_square(d))
    one = diagonal_of(splat(1.0, a.type.with_shape(a.shape[:-1])))
    packed, order = ops.LU(a).results
    p = ops.PseudoInverse(a, ops.Solve(a, packed, order, one))
    if "b" not in cls.__match_args__:
        return p
    b = _right_sides(d, a)
    return cls(a, b, p, ops.Matmul(p, b))


@places(ops.Eigh, ops.Svd)
def _spectrum(d: Draft, cls: Any) -> Op:
    return cls(separated(_square(d) if cls is ops.Eigh else d.value("f", rank=2)))


@places(ops.Eigenpairs)
def _eigenpairs(d: Draft, cls: Any) -> Op:
    """Those of a symmetric matrix, whose imaginary parts are 0."""
    x = separated(_square(d))
    a = (x + ops.transposed(x)) * 0.5
    w, v = ops.Eigh(a).results
    w = ops.Reshape(w, (*w.shape[:-1], 1, w.shape[-1]))
    return cls(a, *(ops.Concat((y, splat(0.0, y.type)), y.type.rank - 2) for y in (w, v)))


@places(ops.Schur)
def _schur(d: Draft, cls: type[ops.Schur]) -> Op:
    return cls(ops.StopGradient(_square(d)))


def _reciprocal(d: Draft) -> tuple[Value, ...]:
    """A matrix with its eigenvectors, and divided differences of ``1 / w`` at 1, 2 and 3 values."""
    a = definite(_square(d))
    a = a + diagonal_of(splat(8.0, a.type.with_shape(a.shape[:-1])))
    w, v = ops.Eigh(a).results
    values, batch, n = 1.0 / w, w.shape[:-1], w.shape[-1]

    def along(axis: int, rank: int) -> Value:
        places = (*range(len(batch)), len(batch) + axis)
        return ops.Broadcast(values, (*batch, *(n,) * rank), places)

    return a, v, values, -(along(0, 2) * along(1, 2)), along(0, 3) * along(1, 3) * along(2, 3)


@places(ops.Spectral)
def _spectral(d: Draft, cls: type[ops.Spectral]) -> Op:
    return cls(*_reciprocal(d))


@places(ops.SpectralSlope)
def _spectral_slope(d: Draft, cls: type[ops.SpectralSlope]) -> Op:
    a, v, _, slopes, curvatures = _reciprocal(d)
    return cls(a, v, d.like(a.type), ops.StopGradient(slopes), curvatures)


@places(ops.LU)
def _lu(d: Draft, cls: type[ops.LU]) -> Op:
    a = dominant(_square(d))
    more = d.like(a.type.with_shape((*a.shape[:-2], d.choose(d.sizes), a.shape[-1])))
    return cls(ops.Concat((a, ops.Tanh(more) * 0.25), a.type.rank - 2))


@places(ops.TriangularSolve)
def _triangular(d: Draft, cls: type[ops.TriangularSolve]) -> Op:
    t = dominant(_square(d))
    return cls(t, _right_sides(d, t), d.flag(), d.flag(), d.flag())


@places(ops.Solve)
def _solve(d: Draft, cls: type[ops.Solve]) -> Op:
    a = dominant(_square(d))
    packed, order = ops.LU(a).results
    return cls(a, packed, order, _right_sides(d, a), d.flag())


@places(ops.Factorisation)
def _factorisation(d: Draft, cls: Any) -> Op:
    return cls(dominant(d.value("f", rank=2)))


def _square(d: Draft) -> Value:
    x = d.value("f", rank=1)
    return (
        x if x.shape[-2:-1] == x.shape[-1:] else d.like(x.type.with_shape((*x.shape, x.shape[-1])))
    )


def _right_sides(d: Draft, a: Value) -> Value:
    return d.like(a.type.with_shape((*a.shape[:-1], d.choose(d.sizes))))


# -- effects --------------------------------------------------------------------------------


@places(ops.Assert)
def _assert(d: Draft, cls: type[ops.Assert]) -> Op:
    x = d.like(TensorType(I64))
    return cls(ops.LessEqual(x, x), "a number is at most itself")


@places(Outgoing)
def _outgoing(d: Draft, cls: Any) -> Op:
    return cls(d.value(), "value: ")
