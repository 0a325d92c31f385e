"""Functions of single elements that are compositions of operations, and have no class.

Names follow the array API standard; ``numpy_dispatch`` knows NumPy's own spellings.
"""

from __future__ import annotations

from typing import Any

from dlvm.errors import DTypeError
from dlvm.ir import BOOL
from dlvm.ops import Equal, Less, LessEqual, Mul, Not, Select

from .eager import public
from .elementwise import apply, note_widening
from .operands import broadcast_shapes, common, fit, fresh, kind_of, plain, shape_of, staged


@public("greater")
def greater(x: Any, y: Any) -> Any:
    """``x > y``, which is ``y < x``."""
    return apply(Less, y, x)


@public("greater_equal")
def greater_equal(x: Any, y: Any) -> Any:
    """``x >= y``, which is ``y <= x``."""
    return apply(LessEqual, y, x)


@public("not_equal")
def not_equal(x: Any, y: Any) -> Any:
    """``x != y``; NaN differs from everything."""
    return apply(Not, apply(Equal, x, y))


@public("positive")
def positive(x: Any) -> Any:
    """``+x``: x itself."""
    return staged(x)


@public("power")
def power(x: Any, y: Any) -> Any:
    """``x ** n`` for a known integer n >= 0, by repeated squaring."""
    if not isinstance(y, int) or isinstance(y, bool) or y < 0:
        raise DTypeError(
            f"power: expected a known integer exponent >= 0, found {y!r:.40}",
            remedy="write dlvm.exp(y * dlvm.log(x)) for other exponents",
        )
    square, result = staged(x), None
    while y:
        if y & 1:
            result = square if result is None else apply(Mul, result, square)
        y >>= 1
        if y:
            square = apply(Mul, square, square)
    return result if result is not None else apply(Mul, square, 0) + 1


@public("where")
def where(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where the condition holds, else ``y``; all three broadcast."""
    condition, x, y = plain(condition), plain(x), plain(y)
    dtype = common((kind_of(x), kind_of(y)))
    note_widening("where", (x, y), (dtype, dtype))
    shape = broadcast_shapes([shape_of(condition), shape_of(x), shape_of(y)])
    op = Select(fit(condition, BOOL, shape), fit(x, dtype, shape), fit(y, dtype, shape))
    return fresh(op)
