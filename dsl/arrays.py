"""Array functions that are no formula of their own: shapes, joining, products, creation, effects.

Names and signatures follow the Python array API standard.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.errors import ShapeError
from dlvm.ir import BOOL, F64, I64, Dim, DType, Expr, Value, literal
from dlvm.ir.dims import divide_exactly, floordiv, maximum, product
from dlvm.ops import (
    Assert,
    Concat,
    Constant,
    Iota,
    Less,
    Matmul,
    Not,
    Print,
    Sum,
)

from .eager import public
from .elementwise import apply, axes_of, note_widening, reduce
from .operands import (
    broadcast_shapes,
    common,
    element,
    fit,
    fresh,
    here,
    kind_of,
    known_dtype,
    plain,
    promoted,
    shape_of,
    spread,
    staged,
)
from .scopes import is_sequence
from .tensor import COPY, Tensor
from .views import Reordered, Reshaped, reshaped

# -- shapes --------------------------------------------------------------------------------------


def sizes(shape: Any) -> tuple[Dim, ...]:
    """A shape as a tuple; a single size is a vector."""
    given = shape if is_sequence(shape) else (shape,)
    return tuple(d if isinstance(d, Expr) else operator.index(d) for d in given)


@public("reshape")
def reshape(x: Any, *shape: Any) -> Any:
    """The elements in row-major order in another shape; one size may be -1."""
    x = staged(x)
    wanted = sizes(shape[0] if len(shape) == 1 else shape)
    if wanted.count(-1) == 1:
        known = product(tuple(d for d in wanted if d != -1))
        rest = divide_exactly(x.size, known) if known != 0 else None
        if rest is None:
            raise ShapeError(f"reshape: {x.type} does not divide into {list(wanted)}")
        wanted = tuple(rest if d == -1 else d for d in wanted)
    return x.view(Reshaped(wanted))


@public("ravel")
def ravel(x: Any) -> Any:
    """All elements in row-major order as a vector."""
    return reshape(x, -1)


@public("permute_dims")
def permute_dims(x: Any, axes: Sequence[int]) -> Any:
    """Axis ``i`` of the result is axis ``axes[i]`` of ``x``."""
    x = staged(x)
    return x.view(Reordered(tuple(a % builtins.max(x.ndim, 1) for a in axes)))


@public("transpose")
def transpose(x: Any, *axes: Any) -> Any:
    """All axes in reverse order, or in the order given."""
    x = staged(x)
    if not axes or axes == (None,):
        return permute_dims(x, tuple(reversed(range(x.ndim))))
    return permute_dims(x, axes if isinstance(axes[0], int) else axes[0])


@public("matrix_transpose")
def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged."""
    x = staged(x)
    if x.ndim < 2:
        raise ShapeError(f"a matrix transpose needs two axes, found {x.type}")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@public("broadcast_to")
def broadcast_to(x: Any, shape: Any) -> Any:
    """``x`` stretched to a shape."""
    x, wanted = staged(x), sizes(shape)
    if len(wanted) < x.ndim or broadcast_shapes([x.shape, wanted]) != wanted:
        raise ShapeError(f"broadcast_to: {x.type} does not stretch to {list(wanted)}")
    return fresh(spread(x.read(), wanted))


@public("expand_dims")
def expand_dims(x: Any, axis: int = 0) -> Any:
    """A new axis of size 1."""
    x = staged(x)
    at = axis % (x.ndim + 1)
    return x.view(Reshaped((*x.shape[:at], 1, *x.shape[at:])))


@public("squeeze")
def squeeze(x: Any, axis: Any = None) -> Any:
    """Without axes of size 1: those given, or all whose size is 1 for certain."""
    x = staged(x)
    axes = axes_of(x, axis) if axis is not None else [i for i, d in enumerate(x.shape) if d == 1]
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} of {x.type} has size {x.shape[a]}, not 1")
    return x.view(Reshaped(tuple(d for i, d in enumerate(x.shape) if i not in axes)))


@public("shape")
def shape(x: Any) -> tuple[Dim, ...]:
    """The sizes of ``x``; unknown ones are symbols."""
    return shape_of(plain(x))


# -- joining, casting, products ------------------------------------------------------------------


def alike(arrays: Sequence[Any]) -> list[Tensor]:
    """Arrays promoted to one element type."""
    xs = [plain(a) for a in arrays]
    dtype = common(tuple(kind_of(x) for x in xs))
    note_widening("concat", xs, [dtype] * len(xs))
    return [fresh(element(x, dtype)) for x in xs]


@public("concat")
def concat(arrays: Sequence[Any], axis: int | None = 0) -> Any:
    """Arrays one after the other along an axis; flattened first where it is None."""
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    xs = alike(arrays)
    if not xs:
        raise ShapeError("concat: expected at least one array, found none")
    if not -xs[0].ndim <= axis < xs[0].ndim:
        raise ShapeError(f"concat: axis {axis} is out of range for {xs[0].type}")
    return fresh(Concat(tuple(x.read() for x in xs), axis % xs[0].ndim))


@public("stack")
def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Arrays of one shape along a new axis."""
    return concat([expand_dims(x, axis) for x in alike(arrays)], axis)


@public("astype")
def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """``x`` in another element type; out of range saturates, NaN becomes 0."""
    return fresh(element(plain(x), known_dtype(dtype)))


@public("asarray")
def asarray(x: Any, dtype: Any = None) -> Any:
    """Any operand as a staged array, also a symbolic size; a staged one stays as it is."""
    x = staged(x)
    if dtype is None and not x.weak:
        return x
    return fresh(element(x, x.element if dtype is None else known_dtype(dtype)))


@public("copy")
def copy(x: Any) -> Any:
    """An array of its own with the same elements, which may be assigned into."""
    x = staged(x)
    return Tensor(x.read(), here(), x.weak, label=f"{COPY}{x.label}" if x.label else "")


@public("matmul")
def matmul(x: Any, y: Any, out: None = None) -> Any:
    """The matrix product, as ``@``: vectors are rows or columns, leading axes are batches."""
    x, y = staged(x), staged(y)
    if not x.ndim or not y.ndim:
        raise ShapeError("matmul: expected two arrays, found a scalar; use * to scale")
    dtypes = promoted("matmul", (kind_of(x), kind_of(y)))
    note_widening("matmul", (x, y), dtypes)
    a, b = element(x, dtypes[0]), element(y, dtypes[1])
    if a.shape[-1] != b.shape[builtins.max(y.ndim - 2, 0)]:
        raise _unmatched(x, y)
    a = reshaped(a, (1, *a.shape)) if x.ndim == 1 else a
    b = reshaped(b, (*b.shape, 1)) if y.ndim == 1 else b
    full = _batched(a, b)
    rows = full.shape[-2:-1] if x.ndim > 1 else ()
    columns = full.shape[-1:] if y.ndim > 1 else ()
    return fresh(reshaped(full, (*full.shape[:-2], *rows, *columns)))


def _batched(a: Value, b: Value) -> Value:
    """The product over equal batch axes; a matrix on the right serves all rows at once."""
    if b.type.rank == 2 and a.type.rank > 2:
        flat = Matmul(reshaped(a, (product(a.shape[:-1]), a.shape[-1])), b)
        return reshaped(flat, (*a.shape[:-1], b.shape[-1]))
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    return Matmul(spread(a, (*batch, *a.shape[-2:])), spread(b, (*batch, *b.shape[-2:])))


def _unmatched(x: Tensor, y: Tensor) -> ShapeError:
    columns, rows = x.shape[-1], y.shape[builtins.max(y.ndim - 2, 0)]
    fits = y.ndim >= 2 and x.shape[-1] == y.shape[-1]
    return ShapeError(
        f"matmul: the last axis of {x.type} has size {columns}, the rows of {y.type} are {rows}",
        remedy="the transpose would fit: x @ y.mT" if fits else None,
    )


@public("dot")
def dot(x: Any, y: Any) -> Any:
    """The product of vectors or matrices."""
    return matmul(x, y)


# -- questions about bools -----------------------------------------------------------------------


@public("any")
def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether some element along the axes holds; of nothing, false."""
    count = fresh(element(fresh(element(plain(x), BOOL)), I64))
    return apply(Less, 0, reduce(Sum, count, axis, keepdims))


@public("all")
def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether every element along the axes holds; of nothing, true."""
    missing = apply(Not, fresh(element(plain(x), BOOL)))
    return apply(Not, any(missing, axis, keepdims))


# -- creation ------------------------------------------------------------------------------------


@public("full")
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """One value in every element."""
    fill = plain(fill_value)
    kind = kind_of(fill)
    target = known_dtype(dtype) if dtype is not None else known_dtype(kind)
    return fresh(fit(fill, target, sizes(shape)))


@public("zeros")
def zeros(shape: Any, dtype: Any = None) -> Any:
    """Zeros; f64 unless said otherwise, as NumPy."""
    return full(shape, 0, F64 if dtype is None else dtype)


@public("ones")
def ones(shape: Any, dtype: Any = None) -> Any:
    """Ones; f64 unless said otherwise, as NumPy."""
    return full(shape, 1, F64 if dtype is None else dtype)


@public("empty")
def empty(shape: Any, dtype: Any = None) -> Any:
    """An array to be assigned into; every element is defined, and zero."""
    return zeros(shape, dtype)


def _like(x: Any, value: float, dtype: Any) -> Any:
    x = staged(x)
    return full(x.shape, value, x.element if dtype is None else dtype)


@public("zeros_like")
def zeros_like(x: Any, dtype: Any = None) -> Any:
    """Zeros in the shape and element type of ``x``."""
    return _like(x, 0, dtype)


@public("ones_like")
def ones_like(x: Any, dtype: Any = None) -> Any:
    """Ones in the shape and element type of ``x``."""
    return _like(x, 1, dtype)


@public("full_like")
def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    """One value in the shape and element type of ``x``."""
    x = staged(x)
    return full(x.shape, fill_value, x.element if dtype is None else dtype)


@public("arange")
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """``start, start + step, ...`` below ``stop``; sizes may be symbolic."""
    begin, end = (0, start) if stop is None else (start, stop)
    if builtins.any(isinstance(v, float) for v in (begin, end, step)):
        values = np.arange(begin, end, step, dtype=dtype and known_dtype(dtype).numpy)
        return fresh(Constant(literal(values, known_dtype(values.dtype))))
    if step == 0:
        raise ShapeError("arange: the step can't be zero")
    sign = 1 if step > 0 else -1
    count = maximum(floordiv(end - begin + step - sign, step), 0)
    target: DType = I64 if dtype is None else known_dtype(dtype)
    counted = fresh(Iota(count, target))
    scaled = counted if step == 1 else counted * step
    return scaled if isinstance(begin, int) and begin == 0 else scaled + begin


@public("eye")
def eye(n: Any, m: Any = None, dtype: Any = None) -> Any:
    """Ones on the diagonal, zeros elsewhere."""
    rows, columns = arange(n), arange(n if m is None else m)
    diagonal = expand_dims(rows, 1) == expand_dims(columns, 0)
    return fresh(element(diagonal, F64 if dtype is None else known_dtype(dtype)))


# -- effects -------------------------------------------------------------------------------------


@public("assert_")
def assert_(condition: Any, message: str = "the assertion does not hold") -> None:
    """End the call with an error at this line unless every element of the condition holds."""
    holds = all(condition)
    Assert(holds.read(), message)


@public("print")
def print(*values: Any) -> None:
    """Write values when the call gets here; strings stand before the value that follows."""
    label = ""
    for value in values:
        if isinstance(value, str):
            label += f"{value} "
            continue
        Print(staged(value).read(), label)
        label = ""
