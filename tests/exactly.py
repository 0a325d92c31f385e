"""Exact values of element-wise operations: what an operation's ``reference`` means at 60 digits.

An ``Exact`` array holds numbers of mpmath, and NumPy's functions of it are mpmath's. So the
``reference`` of a class, which is written in NumPy's functions, is the oracle for its machine code.
Where it asks for something else (Python's ``math``, a series in f64), the class states ``exact``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

from dlvm.ops import Elementwise

DIGITS = 60
WIDE = 2200
"""Bits in which the quotient of any two numbers of f64 is exact to its last whole digit."""


def _quotient(x: Any, y: Any, whole: Callable[[Any], Any]) -> Any:
    """``x - y * whole(x / y)``, which needs every digit of the quotient."""
    with mp.workprec(WIDE):
        return x - y * whole(x / y)


def _truncated(x: Any) -> Any:
    return mp.sign(x) * mp.floor(abs(x))


def _floor_divide(x: Any, y: Any) -> Any:
    with mp.workprec(WIDE):
        return mp.floor(x / y)


def _of_powers(base: Any, x: Any, y: Any) -> Any:
    """``log(b**x + b**y)`` to the base b, with all digits of the smaller power."""
    high, low = max(x, y), min(x, y)
    return high + mp.log1p(base ** (low - high)) / mp.log(base)


MEANINGS: dict[str, Callable[..., Any]] = {
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "arctan2": mp.atan2,
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "copysign": lambda x, y: abs(x) if y >= 0 else -abs(x),
    "exp2": lambda x: mp.mpf(2) ** x,
    "floor_divide": _floor_divide,
    "fmod": lambda x, y: _quotient(x, y, _truncated),
    "isfinite": mp.isfinite,
    "isnan": mp.isnan,
    "log2": lambda x: mp.log(x, 2),
    "logaddexp": lambda x, y: _of_powers(mp.e, x, y),
    "logaddexp2": lambda x, y: _of_powers(mp.mpf(2), x, y),
    "remainder": lambda x, y: _quotient(x, y, mp.floor),
    "rint": mp.nint,
    "signbit": lambda x: x < 0,
    "trunc": _truncated,
}
"""NumPy's functions that mpmath has under another name, or not at all."""
OWN = (
    *("exp", "expm1", "log", "log1p", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("hypot", "power", "floor", "ceil", "sign"),
)


def _plain(call: Callable[..., Any], *x: Any) -> Any:
    """One result, NaN where there is none among real numbers."""
    try:
        found = call(*x)
    except (ValueError, ZeroDivisionError):
        return mp.nan
    return mp.nan if isinstance(found, mp.mpc) else found


class Exact(np.ndarray):
    """An array of numbers of mpmath, of which NumPy's functions are exact to 60 digits."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **how: Any) -> Any:
        name = ufunc.__name__
        call = MEANINGS.get(name) or (getattr(mp, name) if name in OWN else ufunc)
        arrays = [np.asarray(x, object) if isinstance(x, Exact) else x for x in inputs]
        if method != "__call__":
            return NotImplemented
        with np.errstate(all="ignore"):
            found = np.frompyfunc(lambda *x: _plain(call, *x), ufunc.nin, 1)(*arrays)
        truths = all(isinstance(x, bool | np.bool) for x in np.ravel(found))
        return np.asarray(found, bool) if truths else np.asarray(found, object).view(Exact)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        found = super().__array_function__(func, types, args, kwargs)
        ours = isinstance(found, np.ndarray) and found.dtype == object
        return found.view(Exact) if ours else found


def exactly(op: Elementwise, xs: list[np.ndarray]) -> list[Any] | None:
    """The exact results for some floats; None where the class leaves open what they are."""
    with mp.workdps(DIGITS):
        numbers = [np.array([mp.mpf(float(v)) for v in x], object).view(Exact) for x in xs]
        if op.exact:
            names = [s.name for s in op.layout if s.kind == "operand"]
            rows = zip(*numbers, strict=True)
            given = [{**op.attributes, **dict(zip(names, row, strict=True))} for row in rows]
            return [_plain(lambda at=at: eval(op.exact, dict(vars(mp)), at)) for at in given]
        found = np.ravel(op.reference(*numbers)).tolist()
        return found if all(isinstance(v, mp.mpf) for v in found) else None
