"""Comparisons and truth: exact whatever the two types are, and defined for every element type.

Signed and unsigned 64-bit integers are compared as the numbers they are, not as the floats
that hold both; a Python integer may lie outside of the other side's type. As in NumPy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from dlvm.dsl.trace.operands import (
    broadcast_shapes,
    element,
    fit,
    fresh,
    is_later_int,
    is_weak,
    known_dtype,
    plain,
    shape_of,
)
from dlvm.dsl.words.namespace import xp
from dlvm.ir import BOOL, I64, U64
from dlvm.ops import And, Elementwise, Equal, Less, LessEqual, Maximum, Minimum, Not, Or, Xor

from .eager import public
from .elementwise import apply


def compare(cls: type[Elementwise], x: Any, y: Any) -> Any:
    """One comparison of the numbers that two operands are."""
    x, y = plain(x), plain(y)
    if (beyond := _beyond(cls, x, y)) is not None:
        shape = broadcast_shapes([shape_of(x), shape_of(y)])
        return fresh(fit(beyond, BOOL, shape))
    if _narrower(x, y) or _narrower(y, x):
        return _within(cls, x, y)
    if _mixed(x, y):
        return _signs_first(cls, x, y)
    return apply(cls, x, y)


def _narrower(number: Any, other: Any) -> bool:
    """Whether one is a Python integer known only in the call, of which the other's type holds
    some.
    """
    if not is_later_int(number) or is_weak(other):
        return False
    dtype = known_dtype(other.dtype)
    return dtype.is_integer and dtype not in (BOOL, I64)


def _within(cls: type[Elementwise], x: Any, y: Any) -> Any:
    """Compares with the nearest number that the other type holds, and corrects for the others.

    The elements stay in their type: a comparison of a million u8 takes 13 µs, and 69 µs in i64.
    """
    left = is_later_int(x)
    number, dtype = (x, known_dtype(y.dtype)) if left else (y, known_dtype(x.dtype))
    low, high = int(dtype.lowest), int(min(dtype.highest, I64.highest))
    nearest = apply(Minimum, apply(Maximum, number, low), high)
    held = fresh(element(nearest, dtype))
    found = apply(cls, held, y) if left else apply(cls, x, held)
    if cls is Equal:
        return apply(And, found, apply(Equal, number, nearest))
    above, below = apply(Less, high, number), apply(Less, number, low)
    if cls is Less:
        return apply(Or, found, below if left else above)
    return apply(And, found, apply(Not, above if left else below))


def _beyond(cls: type[Elementwise], x: Any, y: Any) -> bool | None:
    """The answer where one side is a Python integer that the other side's type can't hold.

    To every number of the type it stands as it does to 0.
    """
    if _outside(x, y):
        return _RELATIONS[cls](x, 0)
    return _RELATIONS[cls](0, y) if _outside(y, x) else None


def _outside(number: Any, other: Any) -> bool:
    if not isinstance(number, int) or isinstance(number, bool) or is_weak(other):
        return False
    dtype = known_dtype(other.dtype)
    return dtype.is_integer and not dtype.lowest <= number <= dtype.highest


_RELATIONS: dict[type[Elementwise], Callable[[int, int], bool]] = {
    Less: operator.lt,
    LessEqual: operator.le,
    Equal: operator.eq,
}


def _mixed(x: Any, y: Any) -> bool:
    """Whether one is u64 and the other a signed integer."""
    if is_weak(x) or is_weak(y):
        return False
    a, b = known_dtype(x.dtype), known_dtype(y.dtype)
    return (a is U64 and b.kind == "i") or (b is U64 and a.kind == "i")


def _signs_first(cls: type[Elementwise], x: Any, y: Any) -> Any:
    """A negative number is below every unsigned one; others are compared as unsigned."""
    left = known_dtype(x.dtype).kind == "i"
    unsigned = apply(cls, *(fresh(element(v, U64)) for v in (x, y)))
    negative = apply(Less, x if left else y, 0)
    below = cls is not Equal and left
    return apply(Or, negative, unsigned) if below else apply(And, apply(Not, negative), unsigned)


@public("less", keeps_order=True)
def less(x: Any, y: Any) -> Any:
    """``x < y``; false with NaN."""
    return compare(Less, x, y)


@public("less_equal", keeps_order=True)
def less_equal(x: Any, y: Any) -> Any:
    """``x <= y``; false with NaN."""
    return compare(LessEqual, x, y)


@public("equal", keeps_order=True)
def equal(x: Any, y: Any) -> Any:
    """``x == y``; NaN equals nothing."""
    return compare(Equal, x, y)


@public("greater", keeps_order=True)
def greater(x: Any, y: Any) -> Any:
    """``x > y``, which is ``y < x``."""
    return compare(Less, y, x)


@public("greater_equal", keeps_order=True)
def greater_equal(x: Any, y: Any) -> Any:
    """``x >= y``, which is ``y <= x``."""
    return compare(LessEqual, y, x)


@public("not_equal", keeps_order=True)
def not_equal(x: Any, y: Any) -> Any:
    """``x != y``; NaN differs from everything."""
    return apply(Not, compare(Equal, x, y))


def truth(x: Any) -> Any:
    """Whether each element is anything but zero."""
    return fresh(element(plain(x), BOOL))


@public("logical_and", keeps_order=True)
def logical_and(x: Any, y: Any) -> Any:
    """Whether both are anything but zero."""
    return apply(And, truth(x), truth(y))


@public("logical_or", keeps_order=True)
def logical_or(x: Any, y: Any) -> Any:
    """Whether at least one is anything but zero."""
    return apply(Or, truth(x), truth(y))


@public("logical_xor", keeps_order=True)
def logical_xor(x: Any, y: Any) -> Any:
    """Whether exactly one is anything but zero."""
    return apply(Xor, truth(x), truth(y))


@public("logical_not", keeps_order=True)
def logical_not(x: Any) -> Any:
    """Whether it is zero."""
    return apply(Not, truth(x))


@public("allclose")
def allclose(
    x: Any, y: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Whether all elements are close, as one truth value."""
    return xp.all(xp.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan))


@public("array_equal")
def array_equal(x: Any, y: Any, equal_nan: bool = False) -> Any:
    """Whether two arrays have one shape and equal elements, as one truth value."""
    if xp.shape(x) != xp.shape(y):
        return xp.asarray(False)
    same = xp.equal(x, y)
    return xp.all(same | (xp.isnan(x) & xp.isnan(y)) if equal_nan else same)


@public("isin")
def isin(x: Any, elements: Any, *, invert: bool = False) -> Any:
    """Which elements of ``x`` are among others; each is compared with each."""
    x, among = xp.asarray(x), xp.ravel(xp.asarray(elements))
    found = xp.any(xp.equal(xp.expand_dims(x, -1), among), axis=-1)
    return xp.logical_not(found) if invert else found


@public("isposinf", keeps_order=True)
def isposinf(x: Any) -> Any:
    """Whether each element is plus infinity."""
    return xp.isinf(x) & (xp.asarray(x) > 0)


@public("isneginf", keeps_order=True)
def isneginf(x: Any) -> Any:
    """Whether each element is minus infinity."""
    return xp.isinf(x) & (xp.asarray(x) < 0)
