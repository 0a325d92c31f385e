"""Arrays from nothing: filled, counted, diagonal. Sizes may be symbolic.

Element types default to NumPy's, those of floats to ``dlvm.default_dtype``.
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.elements.datatypes import laid_out
from dlvm.dsl.elements.eager import public
from dlvm.dsl.trace.accidents import of_default
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.operands import (
    common,
    element,
    fit,
    fresh,
    is_weak,
    kind_of,
    known_dtype,
    made,
    plain,
    staged,
)
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import named
from dlvm.ir import I64, DType, Expr
from dlvm.ir.sizes.dims import floordiv, maximum
from dlvm.ops import Iota

from .shapes import expand_dims, sizes


@public("full", device=True)
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    """One value in every element."""
    fill = plain(fill_value)
    kind = kind_of(fill)
    target = common((kind,)) if dtype is None else known_dtype(dtype)
    said = dtype if is_weak(fill) else target
    return of_default("full", said, made(fit(fill, target, sizes(shape))))


@public("zeros", device=True)
def zeros(shape: Any, dtype: Any = None) -> Any:
    """Zeros; of ``dlvm.default_dtype`` unless said otherwise, which is f64 as in NumPy."""
    return of_default("zeros", dtype, _filled(shape, 0, dtype))


@public("ones", device=True)
def ones(shape: Any, dtype: Any = None) -> Any:
    """Ones; of ``dlvm.default_dtype`` unless said otherwise, which is f64 as in NumPy."""
    return of_default("ones", dtype, _filled(shape, 1, dtype))


@public("empty", device=True)
def empty(shape: Any, dtype: Any = None) -> Any:
    """An array to be assigned into; every element is defined, and zero."""
    return of_default("empty", dtype, _filled(shape, 0, dtype))


def _filled(shape: Any, value: int, dtype: Any) -> Tensor:
    """A whole number in every element, as floats unless said otherwise."""
    return full(shape, value, default_float() if dtype is None else dtype)


def _like(x: Any, value: Any, dtype: Any, order: str) -> Any:
    x = staged(x)
    return laid_out(full(x.type.shape, value, x.element if dtype is None else dtype), x, order)


@public("zeros_like", device=True)
def zeros_like(x: Any, dtype: Any = None, order: str = "K") -> Any:
    """Zeros in the shape and element type of ``x``."""
    return _like(x, 0, dtype, order)


@public("ones_like", device=True)
def ones_like(x: Any, dtype: Any = None, order: str = "K") -> Any:
    """Ones in the shape and element type of ``x``."""
    return _like(x, 1, dtype, order)


@public("empty_like", device=True)
def empty_like(x: Any, dtype: Any = None, order: str = "K") -> Any:
    """An array to be assigned into, in the shape and element type of ``x``; zeros."""
    return _like(x, 0, dtype, order)


@public("full_like", device=True)
def full_like(x: Any, fill_value: Any, dtype: Any = None, order: str = "K") -> Any:
    """One value in the shape and element type of ``x``."""
    return _like(x, fill_value, dtype, order)


@public("arange", device=True)
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    """``start, start + step, ...`` below ``stop``; whole sizes may be symbolic."""
    start, stop, step = map(_number, (start, stop, step))
    begin, end = (0, start) if stop is None else (start, stop)
    for given in (begin, end, step):
        if isinstance(given, Tensor):
            operator.index(given)  # the error that says where sizes come from
    if step == 0:
        raise ShapeError("arange: the step can't be zero")
    if builtins.any(isinstance(v, float) for v in (begin, end, step)):
        kind = default_float() if dtype is None else known_dtype(dtype)
        return of_default("arange", dtype, _fractional(begin, end, step, kind))
    begin, end, step = sizes((begin, end, step))
    sign = 1 if step > 0 else -1
    count = maximum(floordiv(end - begin + step - sign, step), 0)
    (count,) = sizes((count,))
    target: DType = I64 if dtype is None else known_dtype(dtype)
    counted = fresh(Iota(count, target))
    scaled = counted if step == 1 else counted * step
    found = scaled if isinstance(begin, int) and begin == 0 else scaled + begin
    return of_default("arange", dtype, found)


def _number(x: Any) -> Any:
    """A number of NumPy's, or an array of no axes, as a number of Python's."""
    return x.item() if isinstance(x, np.ndarray | np.generic) and x.ndim == 0 else x  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _fractional(begin: Any, end: Any, step: Any, dtype: DType) -> Tensor:
    """NumPy's: the difference of the first two is rounded, then multiplied."""
    if builtins.any(isinstance(v, Expr) for v in (begin, end, step)):
        raise ShapeError("arange: a symbolic size goes with whole numbers only")
    turns = (end - begin) / step
    if not math.isfinite(turns):
        raise ShapeError(
            f"arange: from {begin} to {end} by {step} are {turns} numbers",
            remedy="give finite numbers: dlvm.arange(0.0, 1.0, 0.1)",
        )
    count = builtins.max(math.ceil(turns), 0)
    first, second = (np.asarray(v).astype(dtype.numpy) for v in (begin, begin + step))
    wide = dtype.compute
    difference = second.astype(wide.numpy) - first.astype(wide.numpy)
    counted = fresh(Iota(count, wide)) * difference + first.astype(wide.numpy)
    return fresh(element(counted, dtype))


@public("linspace", device=True)
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """``num`` numbers from ``start`` to ``stop``, evenly apart; both may be arrays."""
    if isinstance(num, Tensor):
        num = operator.index(num)  # the error that says where sizes come from
    if isinstance(num, int) and num < 0:
        raise ShapeError(f"expected at least 0 numbers, found num={num}")
    start, stop = staged(start), staged(stop)
    common_type = common((kind_of(start), kind_of(stop), float))
    target = common_type if dtype is None else known_dtype(dtype)
    start, stop = (fresh(element(v, common_type)) for v in (start, stop))
    parts = num - 1 if endpoint else num
    step = (stop - start) / maximum(parts, 1)
    place = fresh(Iota(num, common_type))
    place = place[(slice(None), *(None,) * step.ndim)]
    found = start + place * step
    if endpoint:
        found = named("where")((place == parts) & (place > 0), stop, found)
    if target.is_integer:
        found = named("floor")(found)
    found = fresh(element(found, target))
    found = found if axis == 0 else named("moveaxis")(found, 0, axis)
    of_default("linspace", dtype, found)
    return (found, step) if retstep else found


@public("logspace")
def logspace(
    start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, axis: int = 0
) -> Any:
    """``num`` numbers from ``base**start`` to ``base**stop``, whose exponents are evenly apart."""
    return staged(base) ** linspace(start, stop, num, endpoint, axis=axis)


@public("geomspace")
def geomspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, axis: int = 0) -> Any:
    """``num`` numbers from ``start`` to ``stop``, each the same multiple of the one before."""
    start, stop = staged(start), staged(stop)
    common_type = common((kind_of(start), kind_of(stop), float))
    start, stop = (fresh(element(v, common_type)) for v in (start, stop))
    sign, log = named("sign")(start), named("log")
    low, high = (log(sign * v) for v in (start, stop))  # no number between two of unlike signs
    found = named("exp")(linspace(low, high, num, endpoint, axis=0))
    found = sign * found
    first = named("arange")(num)[(slice(None), *(None,) * (found.ndim - 1))]
    found = named("where")(first == 0, start, found)
    found = named("where")((first == num - 1) & (first > 0), stop, found) if endpoint else found
    return found if axis == 0 else named("moveaxis")(found, 0, axis)


def below(n: Any) -> Tensor:
    """The whole numbers from 0 up to a size, which is refused where it is none."""
    (size,) = sizes((n,))
    return fresh(Iota(size))


@public("eye", device=True)
def eye(n: Any, m: Any = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones on the diagonal that lies ``k`` right of the main one, zeros elsewhere."""
    rows, columns = below(n), below(n if m is None else m)
    right = k if isinstance(k, Tensor | Expr) else operator.index(k)
    diagonal = expand_dims(rows + right, 1) == expand_dims(columns, 0)
    kind = default_float() if dtype is None else known_dtype(dtype)
    return of_default("eye", dtype, fresh(element(diagonal, kind)))


@public("identity")
def identity(n: Any, dtype: Any = None) -> Any:
    """The matrix that leaves every vector as it is."""
    return of_default("identity", dtype, eye(n, dtype=dtype))


@public("tri")
def tri(n: Any, m: Any = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones on and left of the diagonal that lies ``k`` right of the main one, zeros elsewhere."""
    whole = _filled((n, n if m is None else m), 1, dtype)
    return of_default("tri", dtype, named("tril")(whole, k))


@public("meshgrid")
def meshgrid(
    *arrays: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True
) -> list[Any]:
    """Vectors as coordinates of a grid: one array for each, constant along all other axes.

    With ``xy`` the first two axes are exchanged, as on a page; with ``ij`` they are not.
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: expected indexing 'xy' or 'ij', found {indexing!r}")
    vectors = [named("ravel")(a) for a in arrays]
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(axes) > 1:
        axes[:2] = [1, 0]
    grids = [
        named("reshape")(v, [-1 if i == at else 1 for i in range(len(axes))])
        for v, at in zip(vectors, axes, strict=True)
    ]
    found = list(grids if sparse else named("broadcast_arrays")(*grids))
    return [fresh(g.read()) for g in found] if copy else found
