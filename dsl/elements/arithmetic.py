"""Functions of single elements that are compositions of operations, and have no class.

Names follow the array API standard; ``numpy_dispatch`` knows NumPy's own spellings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import (
    as_array,
    broadcast_shapes,
    common,
    element,
    fit,
    fresh,
    is_later_int,
    kind_of,
    plain,
    promoted,
    shape_of,
    staged,
)
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import PUBLIC
from dlvm.ir import BOOL, F64, I64
from dlvm.ops import (
    Abs,
    Add,
    Atan2,
    Div,
    Equal,
    FloorDiv,
    IsNan,
    Less,
    Maximum,
    Minimum,
    Mul,
    Remainder,
    Round,
    Select,
)

from .eager import in_order, like, public
from .elementwise import apply, note_widening

# -- selection -----------------------------------------------------------------------------------


@public("where")
def chosen(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where the condition holds, else ``y``; all three broadcast."""
    return in_order(as_array(where(condition, x, y)), (condition, x, y))


def where(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where the condition holds, else ``y``, as a part of another function."""
    condition, x, y = plain(condition), plain(x), plain(y)
    dtype = common((kind_of(x), kind_of(y)))
    note_widening("where", (x, y), (dtype, dtype))
    shape = broadcast_shapes([shape_of(condition), shape_of(x), shape_of(y)])
    op = Select(fit(condition, BOOL, shape), fit(x, dtype, shape), fit(y, dtype, shape))
    return fresh(op)


@public("select")
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """From each place the choice of the first condition that holds there, else the default."""
    if len(condlist) != len(choicelist):
        raise ShapeError(
            f"select: {len(condlist)} conditions for {len(choicelist)} choices",
            remedy="give a choice for each condition",
        )
    found = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = where(condition, choice, found)
    return found


@public("fabs", keeps_order=True)
def fabs(x: Any) -> Any:
    """The size of each element as a float, where ``abs`` gives integers for integers."""
    x = plain(x)
    (dtype,) = promoted("fabs", (kind_of(x),))
    return apply(Abs, fresh(element(x, dtype)))


@public("clip", keeps_order=True)
def clip(x: Any, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None) -> Any:
    """``x``, no less than ``min`` and no more than ``max``; None is no bound, NaN stays NaN."""
    low, high = min if a_min is None else a_min, max if a_max is None else a_max
    bounds = [plain(b) for b in (low, high) if b is not None]
    x = _common(x, *bounds)
    if x.element.is_integer:
        low, high = _at_least(x.element.lowest, low), _at_most(x.element.highest, high)
    x = x if low is None else apply(Maximum, x, low)
    return x if high is None else apply(Minimum, x, high)


def _at_least(lowest: float, low: Any) -> Any:
    """A lower bound; a Python integer below every element is none, as in NumPy."""
    if type(low) is int and low < lowest:
        return int(lowest)
    later = is_later_int(low)
    return fresh(apply(Maximum, low, int(lowest)).read(), weak=True) if later else low


def _at_most(highest: float, high: Any) -> Any:
    """An upper bound; a Python integer above every element is none, as in NumPy."""
    if type(high) is int and high > highest:
        return int(highest)
    later = is_later_int(high) and highest <= I64.highest
    return fresh(apply(Minimum, high, int(highest)).read(), weak=True) if later else high


def _common(x: Any, *others: Any) -> Tensor:
    """An operand in the element type that holds it and others."""
    x = plain(x)
    dtype = common(tuple(kind_of(v) for v in (x, *others)))
    note_widening("clip", (x, *others), (dtype,) * (1 + len(others)))
    return fresh(element(x, dtype))


@public("fmax", keeps_order=True)
def fmax(x: Any, y: Any) -> Any:
    """The larger of two; NaN only where both are."""
    return _unless_nan(Maximum, x, y)


@public("fmin", keeps_order=True)
def fmin(x: Any, y: Any) -> Any:
    """The smaller of two; NaN only where both are."""
    return _unless_nan(Minimum, x, y)


def _unless_nan(cls: Any, x: Any, y: Any) -> Any:
    best = apply(cls, x, y)
    if not best.element.is_float:
        return best
    x, y = (fresh(element(plain(v), best.element)) for v in (x, y))
    return where(apply(IsNan, x), y, where(apply(IsNan, y), x, best))


@public("nan_to_num")
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Numbers in place of NaN and infinities: 0, and the largest of the type on either side."""
    given, x = x, staged(x)
    if not copy and not isinstance(given, Tensor):
        raise UserError(
            "nan_to_num with copy=False changes only an array made in a staged function",
            origin=user_origin(),
            remedy="write x = dlvm.nan_to_num(x)",
        )
    if not x.element.is_float:
        return like(fresh(x.read()), x) if copy else x
    if not copy:
        x.check_assignable()
    largest = float(np.nextafter(np.array(np.inf, x.dtype), np.array(0, x.dtype)))
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    found = where(apply(Equal, x, float("inf")), high, x)
    found = where(apply(Equal, x, float("-inf")), low, found)
    found = fresh(element(where(apply(IsNan, x), nan, found), x.element))
    if copy:
        return like(found, x)
    x.assign(fit(found, x.element, x.type.shape))
    return x


@public("heaviside", keeps_order=True)
def heaviside(x: Any, y: Any) -> Any:
    """0 below zero, ``y`` at zero, 1 above; NaN of NaN."""
    x, y = plain(x), plain(y)
    dtype = promoted("heaviside", (kind_of(x), kind_of(y)))[0]
    x, y = fresh(element(x, dtype)), fresh(element(y, dtype))
    step = fresh(element(apply(Less, 0, x), dtype))
    found = where(apply(Equal, x, 0), y, step)
    return where(apply(IsNan, x), x, found)


# -- quotients and powers ------------------------------------------------------------------------


@public("divmod", keeps_order=True)
def divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """``(x // y, x % y)``."""
    return apply(FloorDiv, x, y), apply(Remainder, x, y)


@public("square", keeps_order=True)
def square(x: Any) -> Any:
    """``x * x``."""
    x = _as_in("square", x)
    return apply(Mul, x, x)


@public("reciprocal", keeps_order=True)
def reciprocal(x: Any) -> Any:
    """``1 / x``; of integers its whole part, 0 of 0."""
    x = _as_in("reciprocal", x)
    if x.element.is_float:
        return apply(Div, 1, x)
    return where((x == 1) | (x == -1 if x.element.kind == "i" else False), x, 0)


MOST_DECIMALS = 308
"""Decimals of which a power of ten is a float."""


@public("round", keeps_order=True)
def round(x: Any, decimals: int = 0) -> Any:
    """The nearest number with ``decimals`` decimals; halves go to the even one, as in NumPy."""
    x = plain(x)
    if abs(decimals) > MOST_DECIMALS:
        raise UserError(
            f"round: expected decimals from -{MOST_DECIMALS} to {MOST_DECIMALS}, found {decimals}",
            remedy="leave the rounding out: no float has so many" if decimals > 0 else "give fewer",
        )
    x = _as_in("rint", x) if kind_of(x) == BOOL.numpy else staged(x)
    if x.element.is_integer:
        return x if decimals >= 0 else _round_integer(x, 10.0**-decimals)
    if decimals == 0:
        return apply(Round, x)
    if x.element.compute is not x.element:  # 16-bit floats overflow on the way
        wide = round(fresh(element(x, x.element.compute)), decimals)
        return fresh(element(wide, x.element))
    unit = 10.0 ** abs(decimals)
    grow, shrink = (Mul, Div) if decimals > 0 else (Div, Mul)
    return apply(shrink, apply(Round, apply(grow, x, unit)), unit)


def _round_integer(x: Tensor, unit: float) -> Tensor:
    whole = apply(Mul, apply(Round, apply(Div, fresh(element(x, F64)), unit)), unit)
    return fresh(element(whole, x.element))


def _as_in(name: str, x: Any) -> Tensor:
    """An operand in the element type in which a function of NumPy's takes it."""
    x = plain(x)
    return fresh(element(x, promoted(name, (kind_of(x),))[0]))


@public("degrees", keeps_order=True)
def degrees(x: Any) -> Any:
    """An angle in degrees, from radians."""
    return apply(Mul, _as_in("degrees", x), 180 / math.pi)


@public("radians", keeps_order=True)
def radians(x: Any) -> Any:
    """An angle in radians, from degrees."""
    return apply(Mul, _as_in("radians", x), math.pi / 180)


# -- what complex numbers would have -------------------------------------------------------------


@public("positive", keeps_order=True)
def positive(x: Any) -> Any:
    """``+x``: a copy of x."""
    x = staged(x)
    return fresh(x.read(), x.weak)


@public("real", views=True)
def real(x: Any) -> Any:
    """The real part: x itself."""
    return staged(x)


@public("imag")
def imag(x: Any) -> Any:
    """The imaginary part: zeros."""
    x = staged(x)
    return fresh(fit(0, x.element, x.type.shape))


@public("conj", keeps_order=True)
def conj(x: Any) -> Any:
    """The complex conjugate: a copy of x, which is real."""
    x = staged(x)
    return fresh(x.read(), x.weak)


@public("angle", keeps_order=True)
def angle(z: Any, deg: bool = False) -> Any:
    """The angle of a number in the complex plane: 0, or pi (180 degrees) of a negative one."""
    z = staged(z)
    found = apply(Atan2, 0, z)
    return apply(Mul, found, 180 / math.pi) if deg else found


@public("real_if_close", views=True)
def real_if_close(x: Any, tol: float = 100) -> Any:
    """``x`` itself, as it has no imaginary parts."""
    return staged(x)


@public("iscomplex", keeps_order=True)
def iscomplex(x: Any) -> Any:
    """Whether elements have an imaginary part: false everywhere."""
    return fresh(fit(False, BOOL, staged(x).type.shape))


@public("isreal", keeps_order=True)
def isreal(x: Any) -> Any:
    """Whether elements have no imaginary part: true everywhere."""
    return fresh(fit(True, BOOL, staged(x).type.shape))


@facing_users
def iscomplexobj(x: Any) -> bool:
    """Whether an array is of a complex type: false."""
    return False


@facing_users
def isrealobj(x: Any) -> bool:
    """Whether an array is of a real type: true."""
    return True


PUBLIC.update(iscomplexobj=iscomplexobj, isrealobj=isrealobj)


# -- nearness ------------------------------------------------------------------------------------


@public("isclose", keeps_order=True)
def isclose(x: Any, y: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """``|x - y| <= atol + rtol * |y|``, or equal; NaN is close to NaN only if ``equal_nan``."""
    x, y = staged(x), staged(y)
    y = y if y.element.is_float else apply(Mul, y, 1.0)
    bound = apply(Add, atol, apply(Mul, rtol, abs(y)))
    near = (abs(x - y) <= bound) & (abs(y) < float("inf")) | (x == y)
    return near | (x != x) & (y != y) if equal_nan else near
