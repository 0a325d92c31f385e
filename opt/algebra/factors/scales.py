"""Scales and shifts of the columns of a product with known weights: batch norms, and their like.

    (x W + c) s + t = x (W s) + (c s + t)

So it is with rows where the weights stand first, as in a convolution whose channels come first.

What is known needs no call, so weights are scaled once, and one shift is left of several. Between
a product and its scale stand the moves that give a convolution its layout.
"""

from __future__ import annotations

import numpy as np

from dlvm.ir import Dim, DType, Value, rearrangement
from dlvm.ir.sizes.dims import floordiv, mod, symbol, symbols
from dlvm.ops import Add, Broadcast, Constant, Div, Matmul, Mul, Permute, Reshape, Sub
from dlvm.ops.families import Contraction, IndexMap, rearranges
from dlvm.opt.algebra.examples import wide
from dlvm.opt.beforehand import is_known

from .structure import Columns, known_columns

DEEP = 8
"""Moves and shifts between a product and what scales it."""


def _known(*shape: int, dtype: DType) -> Value:
    """For the examples: powers of two, by which numbers are multiplied without rounding."""
    count = int(np.prod(shape))
    return Constant(2.0 ** (np.arange(count) % 3).reshape(shape).astype(dtype.numpy), known=True)


def _product(x: Value) -> Value:
    """For the examples: a matrix of 2 columns times known weights."""
    x = wide(x)
    return Matmul(x, _known(2, 3, dtype=x.dtype))


def _images(x: Value) -> Value:
    """For the examples: a product as images with their channels first."""
    return Permute(Reshape(_product(x), (2, 2, 3)), (2, 0, 1))


def _columns_of_images(x: Value) -> Value:
    """For the examples: known weights times the places of an image."""
    x = wide(x)
    return Reshape(Matmul(_known(3, 4, dtype=x.dtype), x), (3, 1, 2))


def _columns_of_several(x: Value) -> Value:
    """For the examples: the same weights times the places of four images."""
    x = wide(x)
    w = Broadcast(_known(3, 1, dtype=x.dtype), (4, 3, 1), (1, 2))
    return Matmul(w, Reshape(x, (4, 1, 2)))


def _groups(x: Value) -> Value:
    """For the examples: a product of each group, with the columns of all side by side."""
    x = Reshape(wide(x), (2, 2, 2))
    found = Matmul(x, _known(2, 2, 3, dtype=x.dtype))
    return Reshape(Permute(found, (1, 0, 2)), (2, 6))


def _along(value: Value, axis: int) -> Value:
    """For the examples: known numbers that lie along an axis of a value."""
    size = value.shape[axis]
    assert isinstance(size, int)
    return Broadcast(_known(size, dtype=value.dtype), value.shape, (axis,))


@rearrangement(
    Mul,
    Div,
    example=(
        lambda x: Mul(_product(x), _along(_product(x), 1)),
        lambda x: Div(_product(x), _along(_product(x), 1)),
        lambda x: Mul(Add(_product(x), _along(_product(x), 1)), _along(_product(x), 1)),
        lambda x: Mul(_images(x), _along(_images(x), 0)),
        lambda x: Div(Sub(_images(x), _along(_images(x), 0)), _along(_images(x), 0)),
        lambda x: Mul(_groups(x), _along(_groups(x), 1)),
        lambda x: Mul(_columns_of_images(x), _along(_columns_of_images(x), 0)),
        lambda x: Mul(_columns_of_several(x), _along(_columns_of_several(x), 1)),
    ),
    given=("f[4,2]",),
)
def scale_into_weights(op: Mul | Div) -> Value | None:
    """(A W + c) s = A (W s) + c s, and the same with 1/s, for known W, c and s of each column."""
    if op.dtype.bytes < 4:  # scaled weights may be below what halves have digits for
        return None
    for x, y in ((op.x, op.y), (op.y, op.x))[: 2 if isinstance(op, Mul) else 1]:
        if (columns := known_columns(y)) is not None:
            return _scaled(x, type(op), columns, DEEP)
    return None


@rearrangement(
    Add,
    Sub,
    example=(
        lambda x: Add(Sub(_product(x), _along(_product(x), 1)), _along(_product(x), 1)),
        lambda x: Sub(Add(_product(x), _along(_product(x), 1)), _along(_product(x), 1)),
        lambda x: Sub(Sub(_images(x), _along(_images(x), 0)), _along(_images(x), 0)),
    ),
    given=("f[4,2]",),
)
def shifts_together(op: Add | Sub) -> Value | None:
    """(A W + c) + t = A W + (c + t) for known c and t of each column, also of differences."""
    shift = _shift(op)
    if shift is None or op.dtype.bytes < 4:
        return None
    x, (t, axes) = shift
    inner = _shift(x)
    if inner is None or inner[1][1] != axes or not _is_product(inner[0]):
        return None
    rest, (c, _) = inner
    both = Broadcast((Add if type(x) is type(op) else Sub)(c, t), op.shape, axes)
    return Add(rest, both) if isinstance(x, Add) else Sub(rest, both)


def _shift(value: Value) -> tuple[Value, Columns] | None:
    """What a sum or a difference adds known numbers to."""
    match value:
        case Add(x, y) | Sub(x, y) if (columns := known_columns(y)) is not None:
            return x, columns
        case Add(y, x) if (columns := known_columns(y)) is not None:
            return x, columns
        case _:
            return None


def _is_product(value: Value) -> bool:
    """Whether a value is a product, moved or not."""
    for _ in range(DEEP):
        if not rearranges(value):
            break
        value = value.operands[0]
    return isinstance(value, Contraction)


def _scaled(value: Value, kind: type[Mul] | type[Div], by: Columns, deep: int) -> Value | None:
    """A product with known weights, moved and shifted, times known numbers, or divided by them."""
    if (shift := _shift(value)) is not None and deep:
        return _scaled_sum(value, shift, kind, by, deep)
    if isinstance(value, Contraction):
        return _scaled_side(value, kind, by)
    if not deep or not rearranges(value) or (moved := _moved_back(by, value)) is None:
        return None
    inner = _scaled(value.operands[0], kind, moved, deep - 1)
    return None if inner is None else value.rebuild((inner,))


def _scaled_side(value: Contraction, kind: type[Mul] | type[Div], by: Columns) -> Value | None:
    """The product whose known factor is scaled, by its columns or its rows."""
    x, w = value.operands
    rows, columns = value.type.rank - 2, value.type.rank - 1
    if rows not in by[1] and (scaled := _scaled_known(w, kind, by)) is not None:
        return value.rebuild((x, scaled))
    if columns not in by[1] and (scaled := _scaled_known(x, kind, by)) is not None:
        return value.rebuild((scaled, w))
    return None


def _scaled_known(w: Value, kind: type[Mul] | type[Div], by: Columns) -> Value | None:
    """What is known times known numbers, before it is repeated."""
    numbers, axes = by
    if is_known(w):
        return kind(w, Broadcast(numbers, w.shape, axes))
    if not isinstance(w, Broadcast) or not is_known(w.x) or not {*axes} <= {*w.axes}:
        return None
    inner = Broadcast(numbers, w.x.shape, tuple(map(w.axes.index, axes)))
    return Broadcast(kind(w.x, inner), w.shape, w.axes)


def _scaled_sum(
    value: Value, shift: tuple[Value, Columns], kind: type[Mul] | type[Div], by: Columns, deep: int
) -> Value | None:
    x, (c, axes) = shift
    if axes != by[1]:
        return None
    inner = _scaled(x, kind, by, deep - 1)
    if inner is None:
        return None
    shifted = Broadcast(kind(c, by[0]), value.shape, axes)
    return Sub(inner, shifted) if isinstance(value, Sub) else Add(inner, shifted)


def _moved_back(by: Columns, value: IndexMap) -> Columns | None:
    """The same numbers along the axes of what was moved, where each axis is one of them or more."""
    vector, axes = by
    (read,) = value.reads(value.index)
    before = value.operands[0].shape
    found: list[int] = []
    for a in axes:
        name = f"%{a}"
        behind: Dim = 1
        mine = [k for k, at in enumerate(read.index) if name in symbols(at)]
        for k in reversed(mine):
            at = floordiv(symbol(name), behind)
            if read.index[k] != (at if k == mine[0] else mod(at, before[k])):
                return None
            behind = behind * before[k]
        if behind != value.type.shape[a]:
            return None
        found += mine
    opened = Reshape(vector, tuple(before[k] for k in found))
    order = tuple(sorted(range(len(found)), key=found.__getitem__))
    return Permute(opened, order), tuple(sorted(found))
