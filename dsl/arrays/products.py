"""Products of arrays of any rank, each brought to the batched matrix product."""

from __future__ import annotations

import builtins
import operator
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.elementwise import apply, note_widening, refuse_out
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.operands import (
    broadcast_shapes,
    element,
    fresh,
    kind_of,
    met_sizes,
    plain,
    promoted,
    shape_of,
    sized,
    spread,
    staged,
    strong,
)
from dlvm.dsl.trace.scopes import is_sequence
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.dsl.words.subscripts import Labels, Subscripts
from dlvm.dsl.words.views import reshaped
from dlvm.ir import BOOL, I64, Value
from dlvm.ir.sizes.dims import product
from dlvm.ops import Less, Matmul, Mul

from .contraction import alike, contracted
from .shapes import moveaxis, ravel, reshape


@public("matmul")
def matmul(x: Any, y: Any, out: None = None) -> Any:
    """The matrix product, as ``@``: vectors are rows or columns, leading axes are batches."""
    x, y = staged(x), staged(y)
    if not x.ndim or not y.ndim:
        raise ShapeError("matmul: expected two arrays, found a scalar; use * to scale")
    dtypes = promoted("matmul", (kind_of(x), kind_of(y)))
    note_widening("matmul", (x, y), dtypes)
    if dtypes[0] is BOOL:  # whether some product holds
        return apply(Less, 0, matmul(fresh(element(x, I64)), fresh(element(y, I64))))
    a, b = element(x, dtypes[0]), element(y, dtypes[1])
    rows: int = builtins.max(y.ndim - 2, 0)
    if (summed := met_sizes(a.shape[-1], b.shape[rows])) is None:
        raise _unmatched(x, y)
    a, b = sized(a, x.ndim - 1, summed), sized(b, rows, summed)
    a = reshaped(a, (1, *a.shape)) if x.ndim == 1 else a
    b = reshaped(b, (*b.shape, 1)) if y.ndim == 1 else b
    full = _batched(a, b)
    before = full.shape[-2:-1] if x.ndim > 1 else ()
    columns = full.shape[-1:] if y.ndim > 1 else ()
    return fresh(reshaped(full, (*full.shape[:-2], *before, *columns)))


def _batched(a: Value, b: Value) -> Value:
    """The product over equal batch axes; a matrix on the right serves all rows at once."""
    if b.type.rank == 2 and a.type.rank > 2:
        flat = Matmul(reshaped(a, (product(a.shape[:-1]), a.shape[-1])), b)
        return reshaped(flat, (*a.shape[:-1], b.shape[-1]))
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    return Matmul(spread(a, (*batch, *a.shape[-2:])), spread(b, (*batch, *b.shape[-2:])))


def _unmatched(x: Tensor, y: Tensor) -> ShapeError:
    columns, rows = x.type.shape[-1], y.type.shape[builtins.max(y.ndim - 2, 0)]
    fits = y.ndim >= 2 and x.type.shape[-1] == y.type.shape[-1]
    return ShapeError(
        f"matmul: the last axis of {x.type} has size {columns}, the rows of {y.type} are {rows}",
        remedy="the transpose would fit: x @ y.mT"
        if fits
        else f"make both {columns} or both {rows}; x.mT exchanges the last two axes",
        sides=(columns, rows),
    )


def labelled(x: Any, y: Any, labels: Subscripts, name: str) -> Any:
    """Two operands contracted by labels."""
    return contracted(alike([x, y], None, name), labels)


def _names(first: int, count: int) -> Labels:
    return tuple(str(i) for i in range(first, first + count))


@public("dot")
def dot(x: Any, y: Any, out: None = None) -> Any:
    """The product of vectors or matrices; of more axes, over the last and the last but one."""
    refuse_out(out)
    x, y = strong(x), strong(y)
    if not x.ndim or not y.ndim:
        return apply(Mul, x, y)
    return tensordot(x, y, ((-1,), (-2 if y.ndim > 1 else -1,)))


@public("inner")
def inner(x: Any, y: Any) -> Any:
    """The sum of products over the last axes of both."""
    x, y = strong(x), strong(y)
    return tensordot(x, y, ((-1,), (-1,))) if x.ndim and y.ndim else apply(Mul, x, y)


@public("tensordot")
def tensordot(x: Any, y: Any, axes: Any = 2) -> Any:
    """The sum of products over some axes of both: as many last and first ones, or two lists."""
    x, y = staged(x), staged(y)
    if isinstance(axes, int):
        if not 0 <= axes <= builtins.min(x.ndim, y.ndim):
            raise ShapeError(f"tensordot: {axes} axes of {x.type} and {y.type}")
        axes = range(x.ndim - axes, x.ndim), range(axes)
    elif len(axes) != 2:
        raise ShapeError(
            f"tensordot: expected axes of both operands, found {axes}",
            remedy="write axes=1 for the last and first axis, or axes=([1], [0]) for chosen ones",
        )
    mine, others = (list(a) if is_sequence(a) else [a] for a in map(_listed, axes))
    if len(mine) != len(others):
        raise ShapeError(f"tensordot: {len(mine)} axes of {x.type}, {len(others)} of {y.type}")
    axes_of(x, mine)
    axes_of(y, others)
    left, right = list(_names(0, x.ndim)), list(_names(x.ndim, y.ndim))
    for a, b in zip(mine, others, strict=True):
        if x.type.shape[a] != y.type.shape[b]:
            raise ShapeError(
                f"tensordot: axis {a} of {x.type} has size {x.type.shape[a]}, "
                f"axis {b} of {y.type} {y.type.shape[b]}",
                sides=(x.type.shape[a], y.type.shape[b]),
            )
        right[b] = left[a]
    kept = (*(n for n in left if n not in right), *(n for n in right if n not in left))
    return labelled(x, y, Subscripts((tuple(left), tuple(right)), kept), "tensordot")


def _listed(axes: Any) -> Any:
    return list(axes) if isinstance(axes, range) else axes


@public("vecdot")
def vecdot(x: Any, y: Any, axis: int = -1) -> Any:
    """The sum of products along an axis; the others broadcast."""
    x, y = staged(x), staged(y)
    x, y = (moveaxis(v, axis, -1) for v in (x, y))
    if x.type.shape[-1] != y.type.shape[-1]:
        n, m = x.type.shape[-1], y.type.shape[-1]
        raise ShapeError(f"vecdot: vectors of {n} and of {m} elements", sides=(n, m))
    terms = [(*reversed(_names(1, v.ndim - 1)), "0") for v in (x, y)]
    kept = builtins.max(terms, key=len)[:-1]
    return labelled(x, y, Subscripts((terms[0], terms[1]), kept), "vecdot")


@public("outer")
def outer(x: Any, y: Any, out: None = None) -> Any:
    """Every element of one times every element of the other, as a matrix."""
    refuse_out(out)
    return labelled(ravel(x), ravel(y), Subscripts((("0",), ("1",)), ("0", "1")), "outer")


@public("kron")
def kron(x: Any, y: Any) -> Any:
    """Every element of ``x`` times all of ``y``, as blocks where that element was."""
    x, y = staged(x), staged(y)
    rank = builtins.max(x.ndim, y.ndim)
    x, y = (reshape(v, (*(1,) * (rank - v.ndim), *v.type.shape)) for v in (x, y))
    left, right = _names(0, rank), _names(rank, rank)
    woven = tuple(n for two in zip(left, right, strict=True) for n in two)
    full = labelled(x, y, Subscripts((left, right), woven), "kron")
    return reshape(full, tuple(a * b for a, b in zip(x.type.shape, y.type.shape, strict=True)))


@public("vdot")
def vdot(x: Any, y: Any) -> Any:
    """The sum of products of all elements."""
    return dot(ravel(x), ravel(y))


@public("matvec")
def matvec(x: Any, y: Any) -> Any:
    """Matrices times vectors; leading axes broadcast."""
    y = staged(y)
    return reshape(found := matmul(x, reshape(y, (*y.type.shape, 1))), found.type.shape[:-1])


@public("vecmat")
def vecmat(x: Any, y: Any) -> Any:
    """Vectors times matrices; leading axes broadcast."""
    x = staged(x)
    if not x.ndim:
        raise ShapeError(
            f"vecmat: expected vectors, found {x.type}", remedy="write x * y for a number"
        )
    found = matmul(reshape(x, (*x.type.shape[:-1], 1, x.type.shape[-1])), y)
    return reshape(found, (*found.type.shape[:-2], found.type.shape[-1]))


@public("cross")
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """The vectors at right angles to two vectors of three elements each.

    ``axisa``, ``axisb`` and ``axisc`` are the axes of the elements in ``a``, ``b`` and the result;
    ``axis`` stands for all three.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    (a, b, c), (d, e, f) = _three(a, axisa), _three(b, axisb)
    parts = (b * f - c * e, c * d - a * f, a * e - b * d)
    return xp.stack(parts, axisc)


def _three(x: Any, axis: int) -> Any:
    """The three elements along an axis, apart."""
    shape, at = shape_of(plain(x)), operator.index(axis)
    if not -len(shape) <= at < len(shape) or shape[at] != 3:
        raise ShapeError(
            f"cross: expected arrays with 3 elements along axis {at}, found the shape {shape}",
            remedy="give vectors of three elements along one axis, and say which with axis=",
        )
    return xp.unstack(x, axis=at)
