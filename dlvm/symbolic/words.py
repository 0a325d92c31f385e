"""The functions of SymPy that dlvm has as well, by the names of their classes in SymPy."""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from dlvm.dsl.words.namespace import xp

Word = Callable[..., Any]

NAMES = {
    "Abs": "abs",
    "Not": "logical_not",
    "Equality": "equal",
    "GreaterThan": "greater_equal",
    "LessThan": "less_equal",
    "Mod": "remainder",
    "StrictGreaterThan": "greater",
    "StrictLessThan": "less",
    "Unequality": "not_equal",
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atan2": "atan2",
    "atanh": "atanh",
    "ceiling": "ceil",
    "cos": "cos",
    "cosh": "cosh",
    "digamma": "digamma",
    "erf": "erf",
    "erfc": "erfc",
    "erfinv": "erfinv",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "floor": "floor",
    "hypot": "hypot",
    "Cbrt": "cbrt",
    "Sqrt": "sqrt",
    "log10": "log10",
    "log1p": "log1p",
    "log2": "log2",
    "loggamma": "lgamma",
    "polygamma": "polygamma",
    "sign": "sign",
    "sin": "sin",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
    "Transpose": "matrix_transpose",
}
"""Functions that are the same in SymPy and here."""
FOLDED = {
    "Add": "add",
    "And": "logical_and",
    "HadamardProduct": "multiply",
    "MatAdd": "add",
    "Max": "maximum",
    "Min": "minimum",
    "Mul": "multiply",
    "Or": "logical_or",
    "Xor": "logical_xor",
}
"""Functions of any number of operands in SymPy, and of two here."""
RECIPROCALS = {
    "sec": "cos",
    "csc": "sin",
    "cot": "tan",
    "sech": "cosh",
    "csch": "sinh",
    "coth": "tanh",
}
"""Functions that are one over another one."""
OF_RECIPROCALS = {
    "asec": "acos",
    "acsc": "asin",
    "acot": "atan",
    "asech": "acosh",
    "acsch": "asinh",
    "acoth": "atanh",
}
"""Functions that are another one of one over their argument."""
IN_LINALG = {"Inverse": "inv", "Determinant": "det", "Trace": "trace", "MatPow": "matrix_power"}
"""Functions of matrices."""


def word_of(name: str) -> Word | None:
    """The function of arrays for a class of SymPy; None where there is none."""
    if name in NAMES:
        return getattr(xp, NAMES[name])
    if name in FOLDED:
        return folded(FOLDED[name])
    if name in RECIPROCALS:
        return _one_over(getattr(xp, RECIPROCALS[name]))
    if name in OF_RECIPROCALS:
        return _of_one_over(getattr(xp, OF_RECIPROCALS[name]))
    if name in IN_LINALG:
        return getattr(importlib.import_module("dlvm.linalg"), IN_LINALG[name])
    return OTHERS.get(name)


def folded(name: str) -> Word:
    """A function of two operands as one of any number."""
    function = getattr(xp, name)
    return lambda *x: functools.reduce(function, x)


def _one_over(below: Word) -> Word:
    def reciprocal(x: Any) -> Any:
        return 1 / below(x)

    return reciprocal


def _of_one_over(inverse: Word) -> Word:
    def of_reciprocal(x: Any) -> Any:
        return inverse(1 / x)

    return of_reciprocal


def power(x: Any, exponent: Any) -> Any:
    """x ** exponent, by a division or a root where the exponent is a number that has one."""
    if not isinstance(exponent, int | float):
        return xp.pow(x, exponent)
    if abs(exponent) == 0.5:
        return xp.sqrt(x) if exponent > 0 else 1 / xp.sqrt(x)
    if isinstance(exponent, int) and exponent < 0:
        return 1 / (x if exponent == -1 else xp.pow(x, -exponent))
    return xp.pow(x, exponent)


def logarithm(x: Any, base: Any = None) -> Any:
    """log x, or the logarithm to a base."""
    return xp.log(x) if base is None else xp.log(x) / xp.log(base)


def step(x: Any, at_zero: Any = 0.5) -> Any:
    """Heaviside's function."""
    return xp.where(x > 0, 1.0, xp.where(x < 0, 0.0, at_zero))


def chosen(*parts: Any) -> Any:
    """The value of the first condition that holds; NaN where none does."""
    pairs = list(zip(parts[::2], parts[1::2], strict=True))
    last = pairs.pop()[0] if pairs[-1][1] is True else math.nan
    for value, condition in reversed(pairs):
        last = xp.where(condition, value, last)
    return last


def product(*x: Any) -> Any:
    """Matrices times one another and times numbers."""
    return functools.reduce(lambda a, b: a * b if _is_number(a) or _is_number(b) else a @ b, x)


def _is_number(x: Any) -> bool:
    return not getattr(x, "ndim", 0)


def filled(shape: Sequence[int], *entries: Any) -> Any:
    """Entries as an array of a shape; leading axes of the entries stay in front."""
    types = [x.dtype if hasattr(x, "dtype") else x for x in entries]
    dtype = xp.result_type(*types, 1.0)
    arrays = xp.broadcast_arrays(*(xp.asarray(x, dtype=dtype) for x in entries))
    joined = xp.stack(arrays, axis=-1)
    return xp.reshape(joined, (*joined.shape[:-1], *shape))


def quotient(x: Any, y: Any) -> Any:
    """One over the other."""
    return x / y


def either(condition: Any, x: Any, y: Any) -> Any:
    """One of two values."""
    return xp.where(condition, x, y)


def fraction(x: Any) -> Any:
    """What is left of x above the next lower whole number."""
    return x - xp.floor(x)


def sine_over_x(x: Any) -> Any:
    """sin(x) / x, which is 1 at 0."""
    return xp.sinc(x / math.pi)


OTHERS: dict[str, Word] = {
    "Heaviside": step,
    "ITE": either,
    "MatMul": product,
    "Piecewise": chosen,
    "Pow": power,
    "frac": fraction,
    "log": logarithm,
    "sinc": sine_over_x,
}
"""Functions that differ from ours in their signature."""
