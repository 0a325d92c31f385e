"""Proofs of laws: both sides of every example have the same form.

An exact law is proven with the arithmetic of floats left as it is written, any other law over the
reals. The sizes of an example stay open where that is enough, and are known ones elsewhere. What a
law does at other sizes, with other element types and on special values is for drawn numbers to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dlvm.ir import Builder, Dim, Param, Rule, Value
from dlvm.ir.numerics import EXACT
from dlvm.trust.laws import given_type

from .reading import NoForm, Reader
from .terms import Form, TooLong, shown

OPEN: Mapping[str, Dim] = {}
KNOWN: Mapping[str, Dim] = {"B": 2, "M": 4, "K": 5, "N": 6}
"""Sizes that differ from one another, so that exchanged axes are seen."""


@dataclass(frozen=True)
class Proof:
    """Whether the forms of both sides of a law are equal, and which forms are not."""

    holds: bool
    how: str

    def __str__(self) -> str:
        return f"proven by form {self.how}" if self.holds else "only drawn"


def proof(rule: Rule) -> Proof:
    """The proof of a law on all of its examples."""
    hows: list[str] = []
    for example in range(len(rule.examples)):
        for sizes in (OPEN, KNOWN):
            both = forms(rule, example, sizes)
            if both is not None and both[0] == both[1]:
                hows.append("at open sizes" if sizes is OPEN else "at known sizes")
                break
        else:
            return Proof(False, _difference(both))
    return Proof(True, min(hows))


def forms(rule: Rule, example: int, sizes: Mapping[str, Dim]) -> tuple[Form, Form] | None:
    """The forms of both sides of a law; None where it does not apply or a side has no form."""
    params = [Param(given_type(t, dict(sizes)), f"x{i}") for i, t in enumerate(rule.given)]
    with Builder():
        left = rule.examples[example](*params)  # type: ignore[call-arg]
        right = rule.apply(left)  # type: ignore[arg-type]
    return None if right is None else forms_of(left, right, rule.law_class == EXACT)


def forms_of(left: Value, right: Value, exact: bool) -> tuple[Form, Form] | None:
    """The forms of two values; None where one has none."""
    try:
        return Reader(exact).form(left), Reader(exact).form(right)
    except (NoForm, TooLong):
        return None


def _difference(both: tuple[Form, Form] | None) -> str:
    return "a side has no form" if both is None else f"{shown(both[0])} is not {shown(both[1])}"
