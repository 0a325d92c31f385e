"""Whether a law holds that a user registered with ``dlvm.ir.rewrite``, and how it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm.base.errors import CallError
from dlvm.base.outside import definition
from dlvm.ir.rewrite import Rule, rules
from dlvm.trust.forms.proofs import proof
from dlvm.trust.laws import failures

ROUNDS = 20
"""Sizes and numbers that are drawn for a law."""


def assert_law(law: Callable[..., Any], rounds: int = ROUNDS, seed: int = 0) -> str:
    """Raises an ``AssertionError`` with both sides of a law of yours, if it does not hold.

    ``law`` is a function that ``dlvm.ir.rewrite`` decorates. Its examples are drawn ``rounds``
    times, at sizes of 0 to 5 and on whole numbers; a law of the class exact also has to keep
    every bit of special values. Returns how far the law is proven: by the form of both sides, or
    only by what was drawn.

    Example: ``dlvm.testing.assert_law(negate_both)`` in the tests of who writes ``negate_both``.
    """
    rule = next((r for r in rules() if r.apply is law), None)
    if rule is None:
        raise CallError(
            f"assert_law: expected a registered law, found {law!r:.80}",
            remedy="decorate the function with @dlvm.ir.rewrite",
        )
    failure = next(failures(rule, rounds, seed), None)
    if failure is not None:
        raise AssertionError(_told(rule, failure))
    return str(proof(rule))


def _told(rule: Rule, failure: str) -> str:
    at = definition(rule.apply)
    where = f"\n  --> {at}\n   | {at.source()}" if at else ""
    first, _, more = failure.partition("\n")
    return f"the law {first}{where}\n{more}\n  help: {_remedy(rule, failure)}"


def _remedy(rule: Rule, failure: str) -> str:
    if "does not apply" in failure:
        return "give an example that the law replaces, or let the law apply to this one"
    if "loses digits" in failure:
        return "give the law law_class='fast', or a right side that cancels nothing"
    if "on special numbers" in failure:
        return "give the law law_class='rounding' and keeps=False, or handle these numbers"
    return "correct the right side, or return None where the equation doesn't hold"
