"""Arithmetic of sizes: what exporters write to compute shapes, done while the program is made.

The shape of an array with open sizes is an array of NumPy whose elements are integers and sizes.
Operations on such arrays are computed here element by element, so that a reshape sees sizes, not
the result of a computation. An operation that is not here gets the sizes as a staged array.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dlvm.dsl.trace.sizes import Size
from dlvm.dsl.words.namespace import xp

from .table import Call

Array = np.ndarray[Any, Any]


def is_known(x: Any) -> bool:
    """Whether a value is known while the program is made, but perhaps for open sizes."""
    return x is None or isinstance(x, np.ndarray)


def has_sizes(x: Any) -> bool:
    """Whether a value is an array of sizes of which some are open."""
    return isinstance(x, np.ndarray) and np.dtype(x.dtype) == object  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def packed(values: Iterable[Any], shape: tuple[int, ...] = (-1,)) -> Array:
    """Integers and sizes as an array; of integers alone it is an ordinary one."""
    row = list(values)
    if not any(isinstance(n, Size) for n in row):
        return np.array([int(n) for n in row], np.int64).reshape(shape)
    found = np.empty(len(row), object)
    found[:] = row
    return found.reshape(shape)


def integers(x: Any) -> list[Any]:
    """The elements of an array of sizes as Python integers and open sizes."""
    return [n if isinstance(n, Size) else int(n) for n in np.asarray(x).reshape(-1)]


def staged(x: Array) -> Any:
    """Sizes as a staged array, for operations that compute with them as with any numbers."""
    if not x.size:
        return np.zeros(x.shape, np.int64)
    row = [xp.asarray(n, dtype=np.int64) for n in x.reshape(-1)]
    return xp.reshape(xp.stack(row), x.shape)


def is_zero(n: Any) -> bool:
    """Whether a size is the number 0; an open one is not."""
    return isinstance(n, int) and n == 0


# -- operations ------------------------------------------------------------------------------------


def _identity(call: Call, x: Array) -> Array:
    return x


def _down(a: Any, b: Any) -> Any:
    return a // b


def _by_element(fn: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def run(call: Call, x: Array, y: Array) -> Array:
        found = np.asarray(np.frompyfunc(fn, 2, 1)(x.astype(object), y.astype(object)), object)
        return settled(found)

    return run


def settled(x: Array) -> Array:
    """An array of objects as one of integers or truths, if no open size is left in it."""
    row = list(x.reshape(-1))
    if row and all(isinstance(n, bool | np.bool_) for n in row):
        return x.astype(bool)
    if all(isinstance(n, int | np.integer | Size) for n in row):
        return packed(row, x.shape)
    raise TypeError("the comparison of open sizes is not known while the program is made")


def _gather(call: Call, x: Array, places: Array) -> Array:
    return settled(np.asarray(np.take(x, places.astype(int), axis=call.get("axis", 0)), object))


def _concat(call: Call, *parts: Array) -> Array:
    return settled(np.concatenate([p.astype(object) for p in parts], axis=call["axis"]))


def _axes(call: Call, axes: Array | None) -> tuple[int, ...] | None:
    given = call.get("axes") if axes is None else integers(axes)
    return None if given is None else tuple(given)


def _unsqueeze(call: Call, x: Array, axes: Array | None = None) -> Array:
    return np.expand_dims(x, _axes(call, axes) or ())


def _squeeze(call: Call, x: Array, axes: Array | None = None) -> Array:
    return np.asarray(np.squeeze(x, _axes(call, axes)), object)


def _slice(call: Call, x: Array, *operands: Any) -> Array:
    rows: list[Any] = [None if o is None else integers(o) for o in operands]
    rows = rows or [call["starts"], call["ends"], call.get("axes")]
    starts: list[Any]
    ends: list[Any]
    rows += [None] * (4 - len(rows))
    starts, ends, axes, steps = rows
    index: list[Any] = [slice(None)] * x.ndim
    for k, axis in enumerate(axes or range(len(starts))):
        step = steps[k] if steps else 1
        end = None if step < 0 and ends[k] < -(2**31) + 1 else ends[k]
        index[axis] = slice(starts[k], end, step)
    return settled(np.asarray(x[tuple(index)], object))


def _prod(call: Call, x: Array, axes: Array | None = None) -> Array:
    if x.ndim != 1:
        raise TypeError("the product of a table of open sizes")
    return packed([math.prod(x)], (1,) if call.get("keepdims", 1) else ())


def _cast(call: Call, x: Array) -> Array:
    if call["to"] not in (6, 7):
        raise TypeError("an open size as a float")
    return x


def _where(call: Call, condition: Array, x: Array, y: Array) -> Array:
    if condition.dtype != bool:
        raise TypeError("a condition of open sizes")
    return settled(np.where(condition, x.astype(object), y.astype(object)))


def _reshape(call: Call, x: Array, shape: Array) -> Array:
    return x.reshape(integers(shape))


SIZED: dict[str, Callable[..., Any]] = {
    "Add": _by_element(operator.add),
    "Sub": _by_element(operator.sub),
    "Mul": _by_element(operator.mul),
    "Div": _by_element(_down),
    "Mod": _by_element(operator.mod),
    "Equal": _by_element(operator.eq),
    "Less": _by_element(operator.lt),
    "Greater": _by_element(operator.gt),
    "Gather": _gather,
    "Concat": _concat,
    "Identity": _identity,
    "Cast": _cast,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "ReduceProd": _prod,
    "Where": _where,
    "Reshape": _reshape,
}
"""Operations on arrays with open sizes. A TypeError says that a case is not one for this file."""


def computed(name: str, call: Call, operands: Sequence[Any]) -> Any:
    """The result of an operation on sizes, or None if it must be staged."""
    if name not in SIZED:
        return None
    try:
        return SIZED[name](call, *operands)
    except TypeError:
        return None
