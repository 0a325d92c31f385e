"""Arithmetic of sizes: what exporters write to compute shapes, done while the program is made.

The shape of an array with open sizes is an array of NumPy whose elements are integers and sizes.
Operations on such arrays are computed here element by element, so that a reshape sees sizes, not
the result of a computation. An operation that is not here gets the sizes as a staged array.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.dsl.trace.sizes import Size, bare, shown
from dlvm.dsl.words.namespace import xp
from dlvm.ir.sizes.dims import maximum, minimum

from .table import Call

Array = np.ndarray[Any, Any]
LARGEST = 1 << 12
"""Largest number of a fraction with which an open size is computed exactly, also in f32."""


@dataclass(frozen=True)
class Ratio:
    """An open size as a float: divided by a number and multiplied by one, then rounded again."""

    above: Any
    below: int
    kind: np.dtype[Any]

    def times(self, factor: Any) -> Ratio:
        """The product; a TypeError if the factor is no small fraction, as 1.5 is one."""
        if isinstance(factor, Ratio | Size) or not np.isfinite(factor) or factor <= 0:
            raise TypeError("an open size times a number that is not above 0")
        above, below = float(factor).as_integer_ratio()
        if max(above, below) > LARGEST:
            raise TypeError("an open size times a number that is rounded")
        return Ratio(self.above * above, self.below * below, self.kind)

    def down(self) -> Ratio:
        """Rounded down."""
        return Ratio(self.above // self.below, 1, self.kind)

    def up(self) -> Ratio:
        """Rounded up."""
        return Ratio((self.above + self.below - 1) // self.below, 1, self.kind)

    def staged(self) -> Any:
        """The float in the call."""
        return xp.astype(xp.asarray(self.above, dtype=np.int64) / self.below, self.kind)


def as_fraction(x: Any) -> tuple[Any, Any]:
    """A size or a number as what is divided by what, both whole."""
    if isinstance(x, Ratio):
        return x.above, x.below
    return (
        (x, 1)
        if isinstance(x, Size)
        else (x.item() if hasattr(x, "item") else x).as_integer_ratio()
    )


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
    row = [
        n.staged() if isinstance(n, Ratio) else xp.asarray(n, dtype=np.int64) for n in x.reshape(-1)
    ]
    return xp.reshape(xp.stack(row), x.shape)


def is_open(n: Any) -> bool:
    """Whether a size is not known while the program is made."""
    return isinstance(n, Size)


def same(a: Any, b: Any) -> bool:
    """Whether two sizes are one number in every call."""
    return bool(bare(a) == bare(b))


def smaller(a: Any, b: Any) -> Any:
    """The smaller one of two sizes."""
    return shown(minimum(bare(a), bare(b)))


def larger(a: Any, b: Any) -> Any:
    """The larger one of two sizes."""
    return shown(maximum(bare(a), bare(b)))


def is_zero(n: Any) -> bool:
    """Whether a size is the number 0; an open one is not."""
    return isinstance(n, int) and n == 0


# -- operations ------------------------------------------------------------------------------------


def _identity(call: Call, x: Array) -> Array:
    return x


def _down(a: Any, b: Any) -> Any:
    return _over(a, b) if isinstance(a, Ratio) else a // b


def _over(a: Ratio, b: Any) -> Ratio:
    """A size as a float over a number."""
    if isinstance(b, Ratio | Size) or not np.isfinite(b) or b <= 0:
        raise TypeError("an open size over a number that is not above 0")
    above, below = float(b).as_integer_ratio()
    if max(above, below) > LARGEST:
        raise TypeError("an open size over a number that is rounded")
    return Ratio(a.above * below, a.below * above, a.kind)


def _product(a: Any, b: Any) -> Any:
    if isinstance(a, Ratio):
        return a.times(b)
    return b.times(a) if isinstance(b, Ratio) else a * b


def _rounding(way: Callable[[Ratio], Ratio]) -> Callable[..., Array]:
    def run(call: Call, x: Array) -> Array:
        if not all(isinstance(n, Ratio) for n in x.reshape(-1)):
            raise TypeError("what is rounded is no size")
        return settled(np.asarray(np.frompyfunc(way, 1, 1)(x), object).reshape(x.shape))

    return run


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
    if row and all(isinstance(n, Ratio) for n in row):
        return x
    raise TypeError("the comparison of open sizes is not known while the program is made")


def _extreme(fn: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    def run(call: Call, *xs: Array) -> Array:
        if any(x.dtype.kind not in "iuO" for x in xs):
            raise TypeError("the extreme of sizes and of other numbers")
        found = xs[0].astype(object)
        for x in xs[1:]:
            found = np.asarray(np.frompyfunc(fn, 2, 1)(found, x.astype(object)), object)
        return settled(found)

    return run


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
    """Sizes as integers or floats; a float becomes an integer by rounding it down."""
    whole = call["to"] in (6, 7)
    if not whole and call["to"] not in (1, 11):
        raise TypeError("an open size in another type")
    kind = np.dtype(np.float32 if call["to"] == 1 else np.float64)

    def one(n: Any) -> Any:
        if isinstance(n, Ratio):
            return n.down().above if whole else Ratio(n.above, n.below, kind)
        return n if whole else Ratio(n, 1, kind)

    return settled(np.asarray(np.frompyfunc(one, 1, 1)(x), object).reshape(x.shape))


def _where(call: Call, condition: Array, x: Array, y: Array) -> Array:
    if condition.dtype != bool:
        raise TypeError("a condition of open sizes")
    return settled(np.where(condition, x.astype(object), y.astype(object)))


def _reshape(call: Call, x: Array, shape: Array) -> Array:
    return x.reshape(integers(shape))


SIZED: dict[str, Callable[..., Any]] = {
    "Add": _by_element(operator.add),
    "Sub": _by_element(operator.sub),
    "Mul": _by_element(_product),
    "Div": _by_element(_down),
    "Mod": _by_element(operator.mod),
    "Equal": _by_element(operator.eq),
    "Less": _by_element(operator.lt),
    "Greater": _by_element(operator.gt),
    "Floor": _rounding(Ratio.down),
    "Ceil": _rounding(Ratio.up),
    "Min": _extreme(smaller),
    "Max": _extreme(larger),
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


PLACED = ("Slice", "Gather", "Reshape", "Squeeze", "Unsqueeze", "ReduceProd")
"""Operations whose operands from the second on say which elements, and so must be numbers here."""


def computed(name: str, call: Call, operands: Sequence[Any]) -> Any:
    """The result of an operation on sizes, or None if it must be staged."""
    if name not in SIZED or (name in PLACED and any(map(has_sizes, operands[1:]))):
        return None
    try:
        return SIZED[name](call, *operands)
    except TypeError:
        return None
