"""Programs over the real numbers, with no rounding: on exact rationals, or on symbols.

The meaning is drawn from where every target draws it: the scalar formula of an element-wise
operation, the monoid of a reduction, the references of movements, which compute nothing. Where a
program only adds, multiplies, divides and compares, elements are ``fractions.Fraction``; else they
are expressions of SymPy in one symbol for each element of an argument.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import sympy

from dlvm.ir import BOOL, Array, DType, Function, Module, Op, Value
from dlvm.ir.interpret import Interpreter
from dlvm.ops import Matmul
from dlvm.ops.families import Elementwise, Reduction

FIELD: dict[str, Callable[..., Any]] = {
    "neg": operator.neg,
    "abs": abs,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "lt": operator.lt,
    "le": operator.le,
    "eq": operator.eq,
    "ne": operator.ne,
    "max": max,
    "min": min,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "not": operator.not_,
}
"""Words that rationals are closed under."""
ANALYSIS: dict[str, Callable[..., Any]] = {
    **FIELD,
    "not": sympy.Not,
    "eq": sympy.Eq,
    "ne": sympy.Ne,
    "max": sympy.Max,
    "min": sympy.Min,
    "sqrt": sympy.sqrt,
    "exp": sympy.exp,
    "exp2": lambda x: 2**x,
    "expm1": lambda x: sympy.exp(x) - 1,
    "log": sympy.log,
    "log2": lambda x: sympy.log(x, 2),
    "log10": lambda x: sympy.log(x, 10),
    "log1p": lambda x: sympy.log(1 + x),
    "sinh": sympy.sinh,
    "cosh": sympy.cosh,
    "tanh": sympy.tanh,
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "asin": sympy.asin,
    "acos": sympy.acos,
    "atan": sympy.atan,
    "cbrt": sympy.cbrt,
    "erf": sympy.erf,
    "erfc": sympy.erfc,
    "erfinv": sympy.erfinv,
    "lgamma": sympy.loggamma,
    "digamma": sympy.digamma,
    "pow": operator.pow,
}
"""Words that SymPy knows."""
DIGITS: dict[str, Callable[..., Any]] = {
    **FIELD,
    "sqrt": mpmath.sqrt,
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.power(2, x),
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "log1p": mpmath.log1p,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "erfinv": mpmath.erfinv,
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "digamma": mpmath.digamma,
    "pow": mpmath.power,
    "copysign": lambda x, y: abs(x) if y >= 0 else -abs(x),
    "fmod": lambda x, y: x - y * _towards_zero(x / y),
    "trunc": lambda x: _towards_zero(x),
    "floor": mpmath.floor,
    "ceil": mpmath.ceil,
    "round": mpmath.nint,
}
"""Words on numbers of as many digits as mpmath is told to keep, where every choice is known."""


def _towards_zero(x: Any) -> Any:
    return mpmath.floor(x) if x >= 0 else mpmath.ceil(x)


class NoMeaning(Exception):
    """A word that is none of the real numbers, or not of these."""


@dataclass(frozen=True)
class Element:
    """One number, and the type that it stands for."""

    number: Any
    type: DType


class Reals:
    """Scalar words on numbers without rounding; types are remembered and change nothing."""

    def __init__(self, words: dict[str, Callable[..., Any]]) -> None:
        self.words = words

    def number(self, x: Any) -> Any:
        """A NumPy or Python number as one of ours."""
        x = x.item() if isinstance(x, np.generic) else x
        if isinstance(x, bool | Fraction | sympy.Basic | mpmath.mpf):
            return x
        if self.words is DIGITS:
            return mpmath.mpf(x)
        if isinstance(x, float) and not np.isfinite(x):
            return self._infinite(x)
        exact = Fraction(x)
        return exact if self.words is FIELD else sympy.Rational(exact.numerator, exact.denominator)

    def _infinite(self, x: float) -> Any:
        if self.words is FIELD or np.isnan(x):
            raise NoMeaning(f"{x} is no rational")
        return sympy.oo if x > 0 else -sympy.oo

    def constant(self, number: float, dtype: DType) -> Element:
        """The number itself."""
        return Element(self.number(number), dtype)

    def dtype(self, x: Element) -> DType:
        """The type that it stands for."""
        return x.type

    def unary(self, word: str, x: Element) -> Element:
        """A function of one number."""
        return Element(self._word(word)(x.number), x.type)

    def binary(self, word: str, x: Element, y: Element) -> Element:
        """A function of two, or a comparison."""
        compared = word in ("lt", "le", "eq", "ne")
        return Element(self._word(word)(x.number, y.number), BOOL if compared else x.type)

    def _word(self, word: str) -> Callable[..., Any]:
        if word not in self.words:
            raise NoMeaning(word)
        return self.words[word]

    def select(self, condition: Element, x: Element, y: Element) -> Element:
        """One of two, by a condition that is known for every value of the symbols."""
        if condition.number in (True, False, sympy.true, sympy.false):
            return x if condition.number else y
        raise NoMeaning(f"a choice by {condition.number}")

    def cast(self, x: Element, dtype: DType) -> Element:
        """The same number, between floats, or from an integer or bool."""
        if dtype.is_float and isinstance(x.number, bool):
            return Element(self.number(int(x.number)), dtype)
        if not dtype.is_float and x.type.is_float:
            raise NoMeaning("rounding")
        return Element(x.number, dtype)

    def reinterpret(self, x: Element, dtype: DType) -> Element:
        """Reals have no bits."""
        raise NoMeaning("bits")


def meaning(fn: Function, arrays: Sequence[Array], words: dict[str, Callable[..., Any]]) -> Array:
    """The first result of a function on arrays of numbers without rounding."""
    reals, known = Reals(words), dict[Value, Array](zip(fn.params, arrays, strict=True))
    for op in fn.ops:
        made = _applied(op, [known[v] for v in op.operands], reals)
        known.update(zip(op.results, made, strict=True))
    return known[fn.results[0]]


def _applied(op: Op, operands: list[Array], reals: Reals) -> list[Array]:
    if isinstance(op, Elementwise):
        return _element_by_element(op, operands, reals)
    if isinstance(op, Reduction):
        return _folded(op, operands, reals)
    if isinstance(op, Matmul):
        return [_product(*operands, reals)]
    with np.errstate(all="ignore"):
        found = op.run(Interpreter(Module(())), *operands)
    return [x if _is_index(x) else _numbers(x, reals) for x in map(np.asarray, found)]


def _is_index(x: Array) -> bool:
    return x.dtype.kind in "iu"


def _numbers(x: Array, reals: Reals) -> Array:
    return objects(x.shape, (reals.number(v) for v in x.reshape(-1)))


def objects(shape: tuple[int, ...], items: Any) -> Array:
    """An array of these numbers."""
    flat = np.empty(int(np.prod(shape)), object)
    for i, item in enumerate(items):
        flat[i] = item
    return flat.reshape(shape)


def _elements(op: Op, at: tuple[Any, ...], reals: Reals) -> list[Element]:
    numbers = (reals.number(x) for x in at)
    return [Element(x, v.dtype.compute) for x, v in zip(numbers, op.operands, strict=True)]


def _element_by_element(op: Elementwise, operands: list[Array], reals: Reals) -> list[Array]:
    rows = zip(*(x.reshape(-1) for x in operands), strict=True)
    found = [op.scalar(reals, *_elements(op, row, reals)) for row in rows]
    columns = zip(*(x if isinstance(x, tuple) else (x,) for x in found), strict=True)
    shape = operands[0].shape
    made = [objects(shape, (x.number for x in column)) for column in columns]
    return made or [objects(shape, ()) for _ in op.results]


def _folded(op: Reduction, operands: list[Array], reals: Reals) -> list[Array]:
    rest = [i for i in range(operands[0].ndim) if i not in op.axes]
    moved = [np.transpose(x, (*rest, *op.axes)) for x in operands]
    shape = moved[0].shape[: len(rest)]
    results: list[list[Any]] = [[] for _ in op.results]
    for at in np.ndindex(*shape):
        state: Any = None
        lines: Iterator[Any] = zip(*(x[at].reshape(-1) for x in map(_boxed, moved)), strict=True)
        for i, row in enumerate(lines):
            lifted = op.lift(reals, reals.constant(i, BOOL), *_elements(op, row, reals))
            state = op.combine(reals, state, lifted) if i else lifted
        whole = op.identity(reals) if state is None else state  # infinities are no rationals
        for column, x in zip(results, op.project(reals, whole), strict=True):
            column.append(x.number)
    return [objects(shape, column) for column in results]


def _boxed(x: Array) -> Array:
    """So that an element is an array as well."""
    return x.reshape((*x.shape, 1))


def _product(x: Array, y: Array, reals: Reals) -> Array:
    out = objects(
        (*x.shape[:-1], y.shape[-1]),
        (reals.number(0) for _ in range(int(np.prod(x.shape[:-1])) * y.shape[-1])),
    )
    for k in range(x.shape[-1]):
        out = out + x[..., :, k, None] * y[..., None, k, :]
    return out
