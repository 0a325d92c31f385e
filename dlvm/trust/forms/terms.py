"""What a form is made of: a sum of terms, each a number times factors, summed over bound indices.

A factor is an element of a parameter, a function of other forms, or a condition on an index, which
is 1 where it holds and 0 elsewhere. This file knows nothing of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from dlvm.ir import Dim

Form: TypeAlias = "tuple[Term, ...]"

NOT_NEGATIVE = "not negative"
IS_ZERO = "is zero"


@dataclass(frozen=True, slots=True)
class Factor:
    """``name(arguments)[index]``. A ``choice`` is 0 or 1, so that its square is itself."""

    name: str
    index: tuple[Dim, ...] = ()
    arguments: tuple[Form, ...] = ()
    choice: bool = False

    def __str__(self) -> str:
        inside = f"({'; '.join(map(shown, self.arguments))})" if self.arguments else ""
        return f"{self.name}{inside}[{','.join(map(str, self.index))}]"


@dataclass(frozen=True, slots=True)
class Term:
    """``coefficient`` times the product of ``factors``, summed over the indices in ``bound``."""

    coefficient: Fraction
    factors: tuple[Factor, ...] = ()
    bound: tuple[str, ...] = ()


class TooLong(Exception):
    """A form has more terms than are looked at."""


MOST = 400
"""Terms of a form that are looked at."""


def number(value: int | Fraction | float) -> Form:
    """A known number; zero has no term."""
    return (Term(Fraction(value)),) if value else ()


def factor(*factors: Factor) -> Form:
    """A product of factors."""
    return (Term(Fraction(1), factors),)


def not_negative(d: Dim) -> Factor:
    """1 where an index expression is at least 0, else 0."""
    return Factor(NOT_NEGATIVE, (d,), choice=True)


def is_zero(d: Dim) -> Factor:
    """1 where an index expression is 0, else 0."""
    return Factor(IS_ZERO, (d,), choice=True)


def times(form: Form, value: Fraction | int) -> Form:
    """A form times a number."""
    return tuple(replace(t, coefficient=t.coefficient * value) for t in form)


def summed(form: Form, bound: Iterable[str]) -> Form:
    """The sum of a form over indices."""
    new = tuple(bound)
    return tuple(replace(t, bound=(*t.bound, *new)) for t in form)


def chosen(condition: Form, x: Form, y: Form, multiply: Callable[[Form, Form], Form]) -> Form:
    """x where a condition is 1, and y where it is 0."""
    return (*multiply(condition, x), *y, *times(multiply(condition, y), -1))


def shown(form: Form) -> str:
    """A form as text."""
    return " + ".join(_shown(t) for t in form) or "0"


def _shown(term: Term) -> str:
    over = f"sum[{','.join(term.bound)}] " if term.bound else ""
    return over + "*".join([str(term.coefficient), *map(str, term.factors)])
