"""Normal forms prove most laws, and nothing that is false."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dlvm import ops
from dlvm.ir import F64, Builder, Op, Param, Rule, TensorType, Value, rules, splat
from dlvm.ir.numerics import EXACT, FAST, ROUNDING
from dlvm.trust.forms.proofs import forms_of, proof
from dlvm.trust.laws import given_type
from tests.opt.mutants import drawn, mutants
from tests.opt.near import holds_nearby, near
from tests.opt.test_rules import Broken, prove, the

from .forms_of_mutants import FALSE, judged, same_numbers

UNPROVEN = {
    "a fact of the arithmetic of floats, which an exact form leaves alone": {
        "add_negative",
        "add_zero",
        "divide_by_one",
        "divide_by_power_of_two",
        "magnitude_of_nonnegative",
        "multiply_by_one",
        "negate_twice",
        "select_sum_of_selected",
        "subtract_from_zero",
        "subtract_zero",
        "sum_over_nothing",
    },
    "a fact of one function": {
        "bitcast_to_itself",
        "exponential_of_logarithm",
        "logarithm_of_exponential",
    },
    "one side adds the taps of a window backwards": {"part_of_sums_of_windows", "sums_of_windows"},
    "which part an index lies in is a condition on one side and a quotient on the other": {
        "products_of_parts",
    },
    "of two updates of one element the last stays, which no form says": {"set_at_reshaped"},
}
"""The laws that are only drawn."""


@pytest.mark.parametrize("rule", list(rules()), ids=lambda r: r.name)
def test_a_law_is_proven_by_its_form(rule: Rule):
    """A law that stands in the list above, or needs to, is an error both ways."""
    found = proof(rule)
    listed = any(rule.name in names for names in UNPROVEN.values())
    assert found.holds != listed, found.how


def test_almost_every_proof_leaves_sizes_open():
    proofs = {rule.name: proof(rule) for rule in rules()}
    assert {n for n, p in proofs.items() if p.holds and "open" not in p.how} == {"concat_twice"}


# -- what is false is refused ---------------------------------------------------------------------


def law(
    root: Any,
    example: Callable[..., Value],
    apply: Callable[[Any], Value],
    law_class: Any = EXACT,
    given: tuple[str, ...] = ("f[M,N]", "f[M,N]", "f[M,N]"),
) -> Rule:
    """A law that nobody should believe."""
    return Rule("planted", (root,), apply, (example,), given, law_class, "false.", keeps=False)


FALSE_BY_FORM = {
    "a sum in another order that claims to be exact": law(
        ops.Add, lambda x, y, z: (x + y) + z, lambda op: op.x.x + (op.x.y + op.y)
    ),
    "a product in another order that claims to be exact": law(
        ops.Mul, lambda x, y, z: (x * y) * z, lambda op: op.x.x * (op.x.y * op.y)
    ),
    "a factor taken out that claims to be exact": law(
        ops.Add, lambda x, y, z: x * z + y * z, lambda op: (op.x.x + op.y.x) * op.x.y
    ),
    "a product of matrices in another order that claims to be exact": law(
        ops.Matmul,
        lambda x, y, z: ops.Matmul(ops.Matmul(x, y), z),
        lambda op: ops.Matmul(op.x.x, ops.Matmul(op.x.y, op.y)),
        given=("f[M,K]", "f[K,N]", "f[N,B]"),
    ),
    "sums over both axes in another order that claim to be exact": law(
        ops.Sum,
        lambda x: ops.Sum(ops.Sum(x, (0,)), (0,)),
        lambda op: ops.Sum(op.x.x, (0, 1)),
        given=("f[M,N]",),
    ),
    "a wrong axis": law(
        ops.Sum,
        lambda x: ops.Sum(ops.Broadcast(x, (*x.shape, x.shape[0]), (0, 1)), (2,)),
        lambda op: ops.transposed(ops.Sum(op.x, (2,))),
        ROUNDING,
        ("f[N,N]",),
    ),
    "a product of matrices turned": law(
        ops.Permute,
        lambda x, y: ops.transposed(ops.Matmul(x, y)),
        lambda op: ops.Matmul(ops.transposed(op.x.x), ops.transposed(op.x.y)),
        ROUNDING,
        ("f[N,N]", "f[N,N]"),
    ),
    "a window one place further": law(
        ops.Slice,
        lambda x: ops.Slice(ops.Pad(x, (1, 1), (1, 1)), (1, 1), x.shape, (1, 1)),
        lambda op: ops.Slice(op.x, (0, 1), op.sizes, op.steps),
        given=("n[M,N]",),
    ),
    "a sign": replace(the("times_sum"), apply=lambda op: ops.Neg(op)),
    "a function of a sum for a sum of functions": law(
        ops.Sum,
        lambda x: ops.Sum(ops.Exp(ops.Sum(x, (1,))), (0,)),
        lambda op: ops.Sum(ops.Exp(ops.Diagonal(op.x.x.x)), (0,)),
        FAST,
        ("f[N,N]",),
    ),
}


@pytest.mark.parametrize("name", FALSE_BY_FORM)
def test_a_false_law_has_two_forms(name: str):
    assert not proof(FALSE_BY_FORM[name]).holds


FALSE_ELSEWHERE = {
    "a mean of copies, of which there may be none": law(
        ops.Div,
        lambda x, y: (
            ops.Sum(ops.Broadcast(x, (*x.shape, *y.shape), (0,)), (1,))
            / ops.Broadcast(ops.Sum(splat(1.0, y.type), (0,)), x.shape, ())
        ),
        lambda op: op.x.x.x,
        ROUNDING,
        ("f[M]", "f[K]"),
    ),
    "a claim to keep infinity": replace(the("subtract_itself_of_floats"), law_class=ROUNDING),
    "a claim to keep NaN": replace(the("multiply_floats_by_zero"), law_class=ROUNDING),
    "a product of floats that claims to keep NaN": replace(
        the("product_of_floats_with_zero"), law_class=ROUNDING
    ),
    "the transpose of any matrix": replace(the("transpose_of_symmetric"), apply=lambda op: op.x),
    "a choice between any values": replace(the("select_same"), apply=lambda op: op.y),
}
"""Laws whose own examples have equal forms, and that are false at size 0, on special values, or
for operations that are near to the examples."""


@pytest.mark.parametrize("name", FALSE_ELSEWHERE)
def test_what_a_form_does_not_say_is_drawn(name: str):
    rule = FALSE_ELSEWHERE[name]
    assert proof(rule).holds

    @settings(max_examples=60, derandomize=True, database=None, phases=[Phase.generate])
    @given(data=st.data())
    def attempt(data: Any) -> None:
        prove(rule, data.draw)

    with pytest.raises(Broken):
        attempt()
        holds_nearby(rule)


# -- equal forms are equal numbers ----------------------------------------------------------------

SOME = 120
"""Mutants of which a run of the suite looks at a third."""


def test_a_mistake_in_a_law_has_no_equal_forms_with_other_numbers(drawn_third: slice):
    for mutant in drawn(mutants(), 0)[:SOME][drawn_third]:
        assert not judged(mutant)[FALSE], mutant.key


Pair = tuple[list[Param], list[Op], Value, Value]


def pairs_of_one_form(exact: bool, drawn_third: slice) -> Iterator[Pair]:
    """Operations that laws are tried on: each with the first of the same form."""
    alike: dict[tuple[str, ...], dict[Any, Value]] = defaultdict(dict)
    params: dict[tuple[str, ...], list[Param]] = {}
    built: dict[tuple[str, ...], Builder] = defaultdict(Builder)
    for one in near()[drawn_third]:
        types = (given_type(t, {"B": 2, "M": 2, "N": 3, "K": 4}) for t in one.given)
        own = params.setdefault(one.given, [Param(t, f"x{i}") for i, t in enumerate(types)])
        with built[one.given] as before:
            value = one.make(*own)
        both = forms_of(value, value, exact)
        if both is not None:
            first = alike[one.given].setdefault((value.type, both[0]), value)
            if first is not value:
                yield own, before.ops, first, value


@pytest.mark.parametrize("exact", [True, False])
def test_values_with_one_form_are_equal(exact: bool, drawn_third: slice):
    pairs = list(pairs_of_one_form(exact, drawn_third))
    assert len(pairs) >= 5
    for params, before, first, value in pairs:
        assert same_numbers(params, before, first, value), f"{first!r} and {value!r}"


def test_functions_of_one_element_are_told_apart_by_what_they_sum():
    """Names of indices that an inner sum binds are not those that an outer one binds."""
    x = Param(TensorType(F64, (3, 3)), "x")
    with Builder():
        of_rows = ops.Sum(ops.Exp(ops.Sum(x, (1,))), (0,))
        of_columns = ops.Sum(ops.Exp(ops.Sum(x, (0,))), (0,))
        of_diagonal = ops.Sum(ops.Exp(ops.Diagonal(x)), (0,))
    values = (of_rows, of_columns, of_diagonal)
    for exact in (True, False):
        forms = {forms_of(v, v, exact) for v in values}
        assert len(forms) == 3


def test_exact_forms_leave_arithmetic_alone_and_others_do_not():
    x, y, z = (Param(TensorType(F64, (2,)), name) for name in "xyz")
    with Builder():
        left, right, turned = (x + y) + z, x + (y + z), z + (y + x)
    reals, bits = (forms_of(left, right, exact) for exact in (False, True))
    assert reals is not None and reals[0] == reals[1]
    assert bits is not None and bits[0] != bits[1]
    commuted = forms_of(left, turned, exact=True)
    assert commuted is not None and commuted[0] == commuted[1]


@pytest.mark.parametrize("exact", [True, False])
def test_both_zeros_have_one_form_over_the_reals_alone(exact: bool):
    two = TensorType(F64, (2,))
    with Builder():
        both = forms_of(splat(0.0, two), splat(-0.0, two), exact)
    assert both is not None and (both[0] == both[1]) != exact
