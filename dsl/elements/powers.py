"""``x ** y``: by squaring where the exponent is a small whole number or both are integers."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import NumberOutOfRange
from dlvm.dsl.trace.operands import (
    element,
    fit,
    fresh,
    here,
    is_later_int,
    is_weak,
    kind_of,
    number,
    numpy_promoted,
    plain,
    promoted,
)
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir import BOOL, F64, I8, I64, DType
from dlvm.ops import Assert, Div, IntegerPower, LessEqual, Mul, Pow, Sqrt

from .eager import public
from .elementwise import apply, note_widening

FLOATS = "make the integers floats first: x.astype(float)"
SQUARED = 16  # a whole power of floats up to here is a product, which rounds at each step


def root(x: Any) -> Any:
    """The square root of a sum of squares; its derivative at 0 is 0, the least slope there."""
    return xp.where(xp.equal(x, 0), 0, xp.sqrt(x))


@public("power", keeps_order=True)
@public("pow", keeps_order=True)
def pow(x: Any, y: Any) -> Any:
    """``x ** y``; integers wrap, and a negative integer power is the whole part of ``1/x**-y``."""
    x, y = plain(x), plain(y)
    weak = is_weak(x) and is_weak(y)
    (dtype, _) = (numpy_promoted if weak else promoted)("power", (kind_of(x), kind_of(y)))
    known = isinstance(y, int | float) and not isinstance(y, bool)
    if known and weak and y < 0:
        dtype = F64  # as Python does
    note_widening("pow", (x, y), (dtype, dtype))
    base = Tensor(element(x, dtype), here(), weak)
    if isinstance(y, int) and not dtype.is_integer:
        number(y, dtype)
    if known and (isinstance(y, int) or y.is_integer()) and (dtype.is_integer or abs(y) <= SQUARED):
        return _whole(base, int(y))
    if not weak:
        _check_power(y, dtype)
    if known and y == 0.5:
        found = apply(Sqrt, base)
    else:
        found = apply(IntegerPower if dtype.is_integer else Pow, base, y)
    return fresh(found.read(), weak)  # what Python makes of two numbers leaves f32 as it is


@public("_operator_pow", keeps_order=True)
def operator_pow(x: Any, y: Any) -> Any:
    """``x ** y`` as an operator, for which NumPy squares bools as i8."""
    if type(y) is int and y == 2 and kind_of(plain(x)) == BOOL.numpy:
        return fresh(element(plain(x), I8))
    return pow(x, y)


def _check_power(y: Any, dtype: DType) -> None:
    """Ends the call with an error where an exponent known only in the call is negative."""
    if is_later_int(y) and dtype.is_integer:
        fits = LessEqual(fit(0, I64, ()), y.read())
        Assert(fits, f"integers to the negative integer power {y.label}".rstrip(), FLOATS)


def _whole(base: Tensor, n: int) -> Any:
    """A power by repeated squaring."""
    if base.element.is_integer:
        if n < 0:
            number(n, base.element)
            raise NumberOutOfRange(
                f"integers to the negative integer power {n}",
                remedy=f"make them floats first: x.astype(float) ** {n}",
            )
        number(n, base.element)
    if n < 0:
        return apply(Div, 1, _whole(base, -n))
    square, result = base, None
    while n:
        if n & 1:
            result = square if result is None else apply(Mul, result, square)
        n >>= 1
        if n:
            square = apply(Mul, square, square)
    return (
        Tensor(fit(1, base.element, base.type.shape), here(), base.weak)
        if result is None
        else result
    )
