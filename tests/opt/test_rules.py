"""Every law is proven on its own example, for drawn element types, sizes and values.

Laws that claim to be exact keep every bit, edge values of IEEE arithmetic and of integers
included. Laws that round keep NaN, infinities and the signs of zeros, and every bit of small
whole numbers, whose sums and products are not rounded. Fast laws hold over the reals: on small
whole numbers in f64, and those with functions that round on real numbers wherever the left side
is defined; each of them must differ from its left side on some special value, or else it is exact.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dlvm.ir import (
    BOOL,
    F64,
    I64,
    NUMBERS,
    Array,
    Builder,
    DType,
    Function,
    Module,
    Op,
    Param,
    Rule,
    TensorType,
    Value,
    rules,
)
from dlvm.ir.decisions import overseen
from dlvm.ir.numerics import EXACT, FAST, LICENSED, ROUNDING, numerics
from dlvm.ir.sizes import dims
from dlvm.ops import Add, Div, Elementwise, Mul, Neg, Sqrt, Sub
from dlvm.opt import rearrange, simplify, simplify_finite
from dlvm.passes import Pass, run
from dlvm.trust.laws import given_type, shown

from .answers import assert_same
from .building import parameter_type

SIZES = (0, 1, 2, 5)
KINDS = {
    "n": [t for t in NUMBERS if t.kind in "iuf"],
    "f": [t for t in NUMBERS if t.is_float],
    "i": [t for t in NUMBERS if t.is_integer],
    "b": [BOOL],
}
OVER_THE_REALS = {"n": [F64, I64], "f": [F64], "i": [I64], "b": [BOOL]}
FLOAT_EDGES = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 6e-8, 65504.0, 3.4e38)


SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan)
"""Values whose sums and products are not rounded, in any order."""
FINITE = (0.0, 1.0, -1.0, 2.0, -3.0)
"""Those that laws suppose which do not keep special values."""


def kinds(rule: Rule) -> dict[str, list[DType]]:
    """The element types that stand for each letter of a law's parameters."""
    return OVER_THE_REALS if rule.law_class == FAST else KINDS


class Broken(AssertionError):
    """A law that does not hold."""


def parameters(rule: Rule, draw: Any) -> tuple[list[Param], dict[str, int]]:
    """Parameters for a law's example, and the sizes of its letters; some sizes are symbols."""
    known = kinds(rule)
    dtypes = {k: draw(st.sampled_from(types)) for k, types in known.items()}
    sizes: dict[str, int] = {}
    symbolic: dict[str, bool] = {}
    params: list[Param] = []
    for i, text in enumerate(rule.given):
        kind, shape = text[0], parameter_type("f32" + text[1:]).shape
        for letter in (s for d in shape for s in dims.symbols(d)):
            sizes.setdefault(letter, draw(st.sampled_from(SIZES)))
            symbolic.setdefault(letter, draw(st.booleans()))
        fixed: dict[str, dims.Dim] = {s: n for s, n in sizes.items() if not symbolic[s]}
        t = TensorType(dtypes[kind], shape).substitute(fixed)
        params.append(Param(t, f"x{i}"))
    return params, sizes


def values(t: TensorType, sizes: dict[str, int], rule: Rule, rng: np.random.Generator) -> Array:
    shape = tuple(dims.evaluate(d, sizes) for d in t.shape)
    if t.dtype == BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if rule.law_class == ROUNDING and t.dtype.is_float:
        return rng.choice(np.array(SPECIAL if rule.keeps else FINITE, t.dtype.numpy), shape)
    if rule.law_class != EXACT:
        low = 0 if t.dtype.kind == "u" else -9
        return rng.integers(low, 10, shape).astype(t.dtype.numpy)
    with np.errstate(all="ignore"):
        return rng.choice(edges(t.dtype), shape)


def edges(dtype: DType) -> Array:
    if dtype.is_float:
        return np.array(FLOAT_EDGES, dtype.numpy)
    ends = (0, 1, 2, dtype.highest, dtype.highest - 1, dtype.lowest)
    return np.array(ends if dtype.kind == "u" else (*ends, -1), dtype.numpy)


def prove(rule: Rule, draw: Any) -> None:
    """Try a law once; ``Broken`` tells how it fails."""
    params, sizes = parameters(rule, draw)
    with Builder() as before:
        left = draw(st.sampled_from(rule.examples))(*params)
    if type(left) not in rule.roots:
        raise Broken(f"the example of {rule.name} is no {rule.on}")
    with Builder() as after:
        right = rule.apply(left)
    if right is None:
        raise Broken(f"{rule.name} does not fire on its own example")
    if right.type != left.type:
        raise Broken(f"{rule.name} turns {left.type} into {right.type}")
    both = [module(params, before, left), module(params, before, right, after)]
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    rounds = rule.law_class == FAST and any(map(rounded, (*before.ops, *after.ops)))
    if rounds:
        low = draw(st.sampled_from((-3.0, 0.1)))
        arrays = [real(p.type, sizes, low, rng) for p in params]
    else:
        arrays = [values(p.type, sizes, rule, rng) for p in params]
    answers = [m.verify().run("f", *arrays) for m in both]
    try:
        compare(rule, *answers, rounds)
    except Broken as broken:
        raise Broken(f"{broken}\n{shown(*both, arrays, [a for (a,) in answers])}") from None


def rounded(op: Op) -> bool:
    """Whether whole numbers don't stay whole in an operation."""
    return isinstance(op, Elementwise) and (op.ulp > 0.5 or isinstance(op, Sqrt | Div))


def real(t: TensorType, sizes: dict[str, int], low: float, rng: np.random.Generator) -> Array:
    shape = tuple(dims.evaluate(d, sizes) for d in t.shape)
    return rng.uniform(low, 3.0, shape).astype(t.dtype.numpy)


def module(params: list[Param], before: Builder, result: Value, after: Builder | None = None):
    ops = (*before.ops, *(after.ops if after is not None else ()))
    return Module((Function("f", tuple(params), ops, (result,)),))


def compare(
    rule: Rule, left: tuple[Array, ...], right: tuple[Array, ...], rounds: bool = False
) -> None:
    try:
        if rounds:
            defined = np.isfinite(left[0])
            np.testing.assert_allclose(left[0][defined], right[0][defined], rtol=1e-9)
        elif rule.law_class != FAST and rule.keeps:
            assert_same(left, right)
        else:
            np.testing.assert_array_equal(left[0], right[0])
    except AssertionError as error:
        raise Broken(f"{rule.name}: {error}") from None


@pytest.mark.parametrize("rule", list(rules()), ids=lambda r: r.name)
@settings(max_examples=20)
@given(data=st.data())
def test_a_law_holds(rule: Rule, data: Any):
    prove(rule, data.draw)


def test_every_law_says_what_it_is():
    names = [rule.name for rule in rules()]
    assert len(set(names)) == len(names) >= 25
    assert all("." in rule.law or "=" in rule.law for rule in rules())


@pytest.mark.parametrize("rule", list(rules()), ids=lambda r: r.name)
def test_simplify_applies_a_law_to_its_example(rule: Rule):
    params = [Param(typical(rule, text), f"x{i}") for i, text in enumerate(rule.given)]
    for example in rule.examples:
        with Builder() as builder:
            left = example(*params)
        with numerics("fast"):
            main = run(module(params, builder, left), [applies(rule)], verify=True).main
        assert left not in main.ops and main.results[0].type == left.type


@pytest.mark.parametrize("rule", list(rules()), ids=lambda r: r.name)
def test_the_examples_of_a_law_reach_every_way_it_applies(rule: Rule):
    code = rule.apply.__code__
    reached: set[int] = set()

    def watch(frame: Any, event: str, _: object) -> Any:
        if frame.f_code is not code:
            return None
        if event == "line":
            reached.add(frame.f_lineno)
        return watch

    params = [Param(typical(rule, text), f"x{i}") for i, text in enumerate(rule.given)]
    before = sys.gettrace()
    for example in rule.examples:
        with Builder():
            left = example(*params)
            sys.settrace(watch)
            try:
                rule.apply(left)
            finally:
                sys.settrace(before)
    lines, first = inspect.getsourcelines(code)
    arms = {first + i for i, line in enumerate(lines) if line.strip().startswith("return ")}
    missed = {n for n in arms - reached if lines[n - first].strip() != "return None"}
    assert not missed, f"no example of {rule.name} reaches line {min(missed)}"


@pytest.mark.parametrize("rule", list(rules()), ids=lambda r: r.name)
@pytest.mark.parametrize("mode", LICENSED)
def test_a_law_applies_in_the_modes_that_license_its_class(rule: Rule, mode: Any):
    params = [Param(typical(rule, text), f"x{i}") for i, text in enumerate(rule.given)]
    with Builder() as builder:
        left = rule.examples[0](*params)
    applied: list[Any] = []
    with numerics(mode), overseen(lambda decision: applied.append(decision.law) or True):
        run(module(params, builder, left), [applies(rule)])
    assert (rule.apply in applied) <= (rule.law_class in LICENSED[mode])
    if mode == "fast":
        assert rule.apply in applied


@pytest.mark.parametrize("rule", [r for r in rules() if r.law_class == FAST], ids=lambda r: r.name)
def test_a_fast_law_is_wrong_for_some_float(rule: Rule):
    """A law that keeps every bit of everything tried here is exact, and should say so."""
    known = any(c.isdigit() for t in rule.given for c in t)
    square = TensorType(F64, (64, 64))
    types = [given_type(t, {s: 64 for s in "BKMN"}) if known else square for t in rule.given]
    params = [Param(t, f"x{i}") for i, t in enumerate(types)]
    with Builder() as before:
        left = rule.examples[0](*params)
    with Builder() as after:
        right = rule.apply(left)
    assert right is not None
    both = [module(params, before, left), module(params, before, right, after)]
    rng = np.random.default_rng(0)
    pool = np.array([*FLOAT_EDGES, 0.1, -3.7, 800.0, 1e308, 5e-324])
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        for turn in range(100):
            drawn = pool if turn % 2 else (0.1, -3.7, 800.0)
            arrays = [rng.choice(drawn, t.shape).astype(t.dtype.numpy) for t in types]
            assert_same(*(m.run("f", *arrays) for m in both))


def applies(rule: Rule) -> Pass:
    """The pass that applies a law."""
    if rule.weighed:
        return rearrange
    return simplify if rule.keeps else simplify_finite


def typical(rule: Rule, text: str) -> TensorType:
    dtype = kinds(rule)[text[0]][-1]
    return TensorType(dtype, parameter_type("f32" + text[1:]).shape)


# -- what is wrong is caught ----------------------------------------------------------------------


def the(name: str) -> Rule:
    return next(rule for rule in rules() if rule.name == name)


def instead(name: str, apply: Any, **changes: Any) -> Rule:
    return replace(the(name), name=f"wrong {name}", apply=apply, **changes)


def sqrt_law(factor: float) -> Rule:
    """``sqrt(x) * sqrt(x) = x`` for x >= 0, or a wrong multiple of it."""
    return Rule(
        f"square of a root, times {factor}",
        (Mul,),
        lambda op: op.x.x * factor,
        (lambda x: Sqrt(x) * Sqrt(x),),
        ("f[M,N]",),
        FAST,
        "sqrt(x) * sqrt(x) = x where x >= 0.",
    )


@settings(max_examples=20)
@given(data=st.data())
def test_a_law_on_part_of_the_reals_is_proven_there(data: Any):
    prove(sqrt_law(1.0), data.draw)


def summands(op: Any) -> tuple[Value, Value]:
    """x and y of x + (-y), or of (-y) + x."""
    return (op.x, op.y.x) if isinstance(op.y, Neg) else (op.y, op.x.x)


WRONG = {
    "a factor beside a root": sqrt_law(1.001),
    "a wrong sign": instead("add_negative", lambda op: Add(*summands(op))),
    "operands exchanged": instead("add_negative", lambda op: Sub(*reversed(summands(op)))),
    "a factor of two": instead("multiply_by_one", lambda op: op.x * 2.0),
    "a sign over the reals": instead("subtract_from_zero", lambda op: op.y),
    "a factor over the reals": instead("one_factor_for_all", lambda op: op * 2.0),
    "a type": instead("select_same", lambda op: op.condition),
    "a law that never fires": instead("negate_twice", lambda op: None),
    "an example of something else": instead("negate_twice", lambda op: op.x.x, roots=(Mul,)),
    "a claim to keep the sign of zero": replace(the("add_positive_zero"), law_class=EXACT),
    "a claim to keep NaN": replace(the("multiply_floats_by_zero"), law_class=EXACT),
    "a claim about infinity": replace(the("subtract_itself_of_floats"), law_class=EXACT),
    "a claim to round a product with zero": replace(
        the("product_of_floats_with_zero"), law_class=ROUNDING
    ),
    "a claim to round a sum with zero": replace(the("add_positive_zero"), law_class=ROUNDING),
    "the identity": instead("negate_twice", lambda op: Neg(op.x.x)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_law_is_caught(name: str):
    @settings(max_examples=60, derandomize=True, database=None, phases=[Phase.generate])
    @given(data=st.data())
    def attempt(data: Any) -> None:
        prove(WRONG[name], data.draw)

    with pytest.raises(Broken) as caught:
        attempt()
    said = str(caught.value)
    assert said.count(" side\n") == 2 * ("where %" in said)
    assert ("the left side is " in said) or RIGHT_AWAY.search(said), said


RIGHT_AWAY = re.compile("does not fire on|into bool|is no mul")
"""What is refused before any number is drawn."""


def test_a_law_that_is_refused_shows_both_sides_and_what_they_give():
    @settings(max_examples=60, derandomize=True, database=None, phases=[Phase.generate])
    @given(data=st.data())
    def attempt(data: Any) -> None:
        prove(WRONG["a claim to keep the sign of zero"], data.draw)

    with pytest.raises(
        Broken, match=r"(?s)left side.*= add %1, %x0.*right side\n    return %x0"
    ) as caught:
        attempt()
    assert re.search(r"the left side is .*\n  the right side is ", str(caught.value))
