"""Arrays from nothing: filled, counted, diagonal. Sizes may be symbolic.

Element types default to NumPy's.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from dlvm.errors import ShapeError
from dlvm.ir import F64, I64, DType, literal
from dlvm.ir.dims import floordiv, maximum
from dlvm.ops import Constant, Iota

from .eager import public
from .operands import element, fit, fresh, kind_of, known_dtype, plain, staged
from .shapes import expand_dims, sizes


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
    begin, end, step = sizes((begin, end, step))
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
