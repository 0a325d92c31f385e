"""A law of a user's is proven, or refused with both of its sides."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dlvm
from dlvm.base.errors import CallError
from dlvm.ir.rewrite import RULES, rewrite
from dlvm.ops import Add, Exp, Neg, Sub, Tanh
from dlvm.testing import assert_law


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Takes the laws of a test out of the registry."""
    before = {root: list(found) for root, found in RULES.items()}
    yield
    RULES.clear()
    RULES.update(before)


def test_a_law_that_holds_says_how_far_it_is_proven():
    @rewrite(Sub, example=lambda x, y: -x - y, given=("i[N]", "i[N]"))
    def negated_sum(op: Sub):
        """-x - y = -(x + y)."""
        return Neg(Add(op.x.x, op.y)) if isinstance(op.x, Neg) else None

    assert assert_law(negated_sum) == "proven by form at open sizes"


def test_a_wrong_law_shows_both_sides_and_its_line():
    @rewrite(Tanh, example=lambda x: Tanh(x), given=("f[N]",))
    def exponential(op: Tanh):
        """tanh(x) = e**x, which is wrong."""
        return Exp(op.x)

    with pytest.raises(AssertionError) as caught:
        assert_law(exponential)
    said = str(caught.value)
    assert said.startswith("the law exponential: both sides differ at N=")
    assert "test_laws.py" in said and "| def exponential(op: Tanh):" in said
    assert "left side\n    %0 = tanh %x0" in said and "right side\n    %0 = exp %x0" in said
    assert "where %x0 is [" in said and "the left side is [" in said
    assert "help: correct the right side" in said


def test_a_law_that_only_rounds_may_not_claim_to_be_exact():
    @rewrite(Add, example=lambda x: x + 0.0, given=("f[N]",))
    def add_nothing(op: Add):
        """x + 0 = x, but for the sign of -0."""
        return op.x

    with pytest.raises(
        AssertionError, match=r"differ on special numbers(?s:.*)law_class='rounding'"
    ):
        assert_law(add_nothing)


def test_a_law_that_misses_its_example_and_a_function_that_is_no_law():
    @rewrite(Tanh, example=lambda x: Tanh(x), given=("f[N]",))
    def never(op: Tanh):
        """tanh(x) = tanh(x)."""
        return None

    with pytest.raises(AssertionError, match="never does not apply to its example at N="):
        assert_law(never)
    with pytest.raises(CallError, match=r"expected a registered law, found <function tanh"):
        assert_law(dlvm.tanh)
