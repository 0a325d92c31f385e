"""An expression of SymPy as steps, each a function of earlier values: shared parts are one step."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.scopes import user_origin

from .words import Word, filled, quotient, word_of

TERMS = 1000
"""Terms of a finite sum or product that are written out at most."""
EXACT = 2**53
"""Whole numbers up to this are f64 without rounding."""


@dataclass(frozen=True, slots=True)
class Step:
    """A function and the places of its operands among the values before it."""

    word: Word
    operands: tuple[int, ...]


@dataclass(eq=False)
class Translation:
    """The steps that have been written so far, and the place of the value of each part.

    Values are the arguments, the numbers, and the results of the steps, in the order in which they
    were placed.
    """

    sympy: Any
    arguments: Mapping[Any, Any]
    own: Mapping[str, Word]
    values: list[Step | Any] = field(default_factory=list[Any])
    places: dict[Any, int] = field(default_factory=dict[Any, int])

    def place(self, node: Any) -> int:
        """The place of the value of a part of an expression."""
        key: Any = (type(node), node)
        if key not in self.places:
            self.places[key] = self._written(node)
        return self.places[key]

    def number(self, value: Any) -> int:
        """The place of a number of Python."""
        self.values.append(value)
        return len(self.values) - 1

    def step(self, word: Word, *operands: int) -> int:
        """The place of the result of a function."""
        self.values.append(Step(word, operands))
        return len(self.values) - 1

    def _written(self, node: Any) -> int:
        sympy = self.sympy
        if node in self.arguments:
            return self.arguments[node](self)
        if node.is_Symbol or getattr(node, "is_MatrixSymbol", False):
            raise _refused(
                f"{node} is not among args", f"add {node} to args, or give its value: expr.subs"
            )
        if node is sympy.true or node is sympy.false:
            return self.number(bool(node))
        if node.is_Number or node.is_NumberSymbol:
            return self.number(_number(node))
        if isinstance(node, sympy.core.function.AppliedUndef):
            return self._of_users(node)
        if isinstance(node, sympy.MatrixBase | sympy.NDimArray):
            entries = list(
                node.flat() if isinstance(node, sympy.MatrixBase) else sympy.flatten(node)
            )
            return self.filled(node.shape, entries)
        return self._compound(node)

    def filled(self, shape: Sequence[int], entries: Sequence[Any]) -> int:
        """The place of an array of entries."""
        if not entries:
            raise _refused("a matrix without elements", "leave it out")
        found, sizes = [self.place(x) for x in entries], tuple(map(int, shape))
        return self.step(functools.partial(filled, sizes), *found)

    def _compound(self, node: Any) -> int:
        sympy, name = self.sympy, type(node).__name__
        match name:
            case "Derivative" | "Subs":
                done = node.doit()
                if type(done) is type(node):
                    raise _refused(f"{node} can't be derived", f"add {node} to args")
                return self.place(done)
            case "Sum" | "Product":
                return self.place(_written_out(sympy, node))
            case "Mul":
                return self._quotient(node)
            case "Piecewise":
                return self.step(
                    self._word(name, node),
                    *(self.place(x) for pair in node.args for x in pair.args),
                )
            case "MatrixElement" | "Indexed":
                return self._element(node)
            case "Identity" | "ZeroMatrix" | "OneMatrix":
                return self.place(node.as_explicit())
            case "Inverse":
                return self.step(self._word(name, node), self.place(node.arg))
            case "Pow" if node.exp.is_Rational and node.exp.q == 2 and abs(node.exp.p) > 1:
                root = self.place(sympy.sqrt(node.base))
                return self.step(self._word("Pow", node), root, self.number(int(node.exp.p)))
            case _:
                return self.step(self._word(name, node), *map(self.place, node.args))

    def _word(self, name: str, node: Any) -> Word:
        found = word_of(name)
        if found is None:
            said = (
                f"{node} ({name}) has no translation"
                if str(node) != name
                else f"{name} has no translation"
            )
            raise _refused(said, _remedy(name))
        return found

    def _of_users(self, node: Any) -> int:
        """A function that SymPy does not know, which the caller has given."""
        name = node.func.__name__
        if name not in self.own:
            raise _refused(
                f"{name} is a function that SymPy does not define",
                f'give it: functions={{"{name}": f}}, or add {node} to args',
            )
        return self.step(self.own[name], *map(self.place, node.args))

    def _quotient(self, node: Any) -> int:
        """A product; powers with negative exponents are divided by."""
        above, below = self.sympy.fraction(node, exact=True)
        if below == 1:
            return self.step(self._word("Mul", node), *map(self.place, node.args))
        return self.step(quotient, self.place(above), self.place(below))

    def _element(self, node: Any) -> int:
        of, *at = node.args
        if not all(i.is_Integer for i in at):
            raise _refused(
                f"{node} is an element at a place that is no number",
                "give whole numbers as indices",
            )
        index = (..., *map(int, at))
        return self.step(operator.itemgetter(index), self.place(of))


def _number(node: Any) -> Any:
    """A number of SymPy as one of Python."""
    if node.is_Integer and abs(int(node)) <= EXACT:
        return int(node)
    if node.is_real or node.is_infinite or node.is_extended_real or str(node) == "nan":
        return float(node)
    raise _refused(f"{node} is no real number", _remedy(type(node).__name__))


def _written_out(sympy: Any, node: Any) -> Any:
    """The terms of a finite sum, or the factors of a product, over its outermost index."""
    *inner, (index, first, last) = node.limits
    if not (first.is_Integer and last.is_Integer):
        raise _refused(
            f"{node} has bounds that are no whole numbers", "give its bounds: expr.subs(n, 10)"
        )
    if last - first + 1 > TERMS:
        raise _refused(
            f"{node} has {last - first + 1} terms, more than {TERMS}",
            "write it as dlvm.sum of an array of terms",
        )
    body = node.func(node.function, *inner) if inner else node.function
    whole = range(int(first), int(last) + 1)
    terms = [body.xreplace({index: sympy.Integer(i)}) for i in whole]
    return (sympy.Add if type(node).__name__ == "Sum" else sympy.Mul)(*terms)


def _remedy(name: str) -> str:
    if name == "Integral":
        return "integrate it first: expr.doit()"
    if name in ("ImaginaryUnit", "re", "im", "conjugate", "arg", "ComplexInfinity"):
        return "split the expression: expr.as_real_imag() gives two real ones"
    if name in ("gamma", "factorial"):
        return "rewrite it for positive arguments, as exp(loggamma(x)) in place of gamma(x)"
    return "rewrite it, as expr.rewrite(exp), or put a Function in its place and give functions="


def _refused(said: str, remedy: str) -> ArgumentError:
    return ArgumentError(f"from_sympy: {said}", origin=user_origin(), remedy=remedy)
