"""``gradcheck`` catches wrong rules, names what is wrong with them, and passes right ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings

import dlvm
from dlvm.base.errors import UserError
from dlvm.ir import BOOL, F64, I64, splat, zeros
from dlvm.ops import (
    Abs,
    Cos,
    Effect,
    Equal,
    Exp,
    Matmul,
    Mul,
    Permute,
    Select,
    Sin,
    Sum,
    Tanh,
)
from dlvm.ops.flow.custom import Custom
from dlvm.testing import GradientError, gradcheck
from dlvm.testing.drawing.random_programs import TRACED, Program
from dlvm.testing.gradients import GradientCheck
from dlvm.testing.levels import Levels
from dlvm.testing.strategies import programs
from tests.special import SLOPE_BY_CONVENTION

RNG = np.random.default_rng(0)
X = RNG.uniform(0.4, 1.3, size=(3, 4))
A, B = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3))


def caught(f: Callable[..., Any], *args: Any, **options: Any) -> GradientError:
    with pytest.raises(GradientError) as found:
        gradcheck(f, *args, **options)
    error = found.value
    assert len(str(error).splitlines()) <= 12
    return error


# -- wrong rules ---------------------------------------------------------------------------------

RIGHT = Tanh.adjoint


def wrong_sign(self, dy):
    return (-RIGHT(self, dy)[0],)


def factor_two(self, dy):
    return (RIGHT(self, dy)[0] * 2.0,)


def half(self, dy):
    return (RIGHT(self, dy)[0] * 0.5,)


def nothing(self, dy):
    return (zeros(self.type),)


def missing_term(self, dy):
    return (dy * (1.0 - self),)


WRONG = {
    wrong_sign: "the sign is wrong",
    factor_two: "too large by a factor 2",
    half: "too small by a factor 2",
    nothing: "constant zero",
    missing_term: "a term is missing",
}


@pytest.mark.parametrize("rule", WRONG, ids=lambda r: r.__name__)
def test_a_wrong_rule_is_caught_and_named(rule, monkeypatch):
    monkeypatch.setattr(Tanh, "adjoint", rule)
    error = caught(lambda x: dlvm.tanh(x) * 3.0, X, order=1)
    fault = error.fault
    assert WRONG[rule] in fault.cause
    assert (fault.argument, fault.order, fault.mode, fault.wrong) == ("x", 1, "reverse mode", 12)
    assert fault.element.startswith("x[")
    assert "the derivative of tanh is wrong by itself" in str(error)
    assert "dlvm.tanh(x) * 3.0" in error.origin.source()


def test_the_numbers_are_those_of_the_element(monkeypatch):
    monkeypatch.setattr(Tanh, "adjoint", factor_two)
    x = np.array([0.3, 0.7])
    fault = caught(lambda x: dlvm.tanh(x).sum(), x, order=1, seed=3).fault
    i = int(fault.element[2])
    w = fault.expected / (1 - np.tanh(x[i]) ** 2)
    assert fault.found == pytest.approx(2 * fault.expected, rel=1e-9)
    assert 0 < fault.error < 1e-6 * abs(fault.expected)
    assert w == pytest.approx(np.random.default_rng(3).standard_normal(3)[2], rel=1e-6)


def test_a_transposed_jacobian_is_named(monkeypatch):
    def transposed(self, dy):
        return Matmul(dy, self.y), Matmul(Permute(self.x, (1, 0)), dy)

    monkeypatch.setattr(Matmul, "adjoint", transposed)
    assert "the Jacobian is transposed" in caught(lambda x: x @ B, A, order=1).fault.cause


def test_a_transposed_gradient_is_named(monkeypatch):
    right = Mul.adjoint

    def transposed(self, dy):
        return tuple(Permute(g, (1, 0)) if len(g.shape) == 2 else g for g in right(self, dy))

    monkeypatch.setattr(Mul, "adjoint", transposed)
    assert "it is transposed" in caught(lambda x: (x * B).sum(), A, order=1).fault.cause


def test_a_rule_that_is_wrong_in_the_second_order_only(monkeypatch):
    monkeypatch.setattr(Cos, "adjoint", lambda self, dy: (dy * Sin(self.x),))
    assert gradcheck(dlvm.sin, X, order=1).orders == (1,)
    error = caught(dlvm.sin, X)
    assert (error.fault.order, error.fault.cause) == (2, "the sign is wrong")
    assert str(error).startswith("the second derivative of")


def test_a_factor_dropped_in_one_of_two_operands(monkeypatch):
    monkeypatch.setattr(Mul, "adjoint", lambda self, dy: (dy * self.y, zeros(self.type)))
    error = caught(lambda x, y: dlvm.exp(x) * y, X, X, order=1)
    assert error.fault.argument == "y"
    assert "constant zero" in error.fault.cause
    assert "the derivative of mul is wrong by itself" in str(error)


def test_a_wrong_rule_in_one_element_is_found_among_many(monkeypatch):
    right = Exp.adjoint

    def edge(self, dy):
        at = Equal(self.x, splat(1.5, self.x.type))
        return (Select(at, zeros(self.type), right(self, dy)[0]),)

    monkeypatch.setattr(Exp, "adjoint", edge)
    x = np.linspace(0.1, 1, 500)
    x[321] = 1.5
    assert caught(lambda x: dlvm.exp(x).sum(), x, order=1).fault.element == "x[321]"


def test_a_sum_in_the_place_of_a_mean(monkeypatch):
    right = Sum.adjoint
    monkeypatch.setattr(Sum, "adjoint", lambda self, dy: (right(self, dy)[0] * (1 / 12),))
    cause = caught(lambda x: dlvm.exp(x).sum(), X, order=1).fault.cause
    assert "the number of elements, 12" in cause


def test_a_wrong_rule_of_the_user_is_named_and_a_right_one_passes():
    @dlvm.custom_vjp
    def scaled(x, factor):
        return x * factor * 2.0

    def backward(kept, dy):
        x, factor = kept
        return dy * factor, (dy * x).sum() * 2.0

    scaled.defvjp(lambda x, factor: (scaled(x, factor), (x, factor)), backward)
    error = caught(lambda x: dlvm.sin(scaled(x, 3.0)), X)
    assert "too small by a factor 2" in error.fault.cause
    assert re.search("the derivative of scaled, written at .*, is wrong by itself", str(error))
    assert "scaled(x, 3.0)" in error.origin.source()

    @dlvm.custom_jvp
    def halved(x):
        return x * 0.5

    halved.defjvp(lambda primals, tangents: (halved(*primals), tangents[0] * 0.5))
    assert gradcheck(lambda x: dlvm.sin(halved(x)), X).max_error < 1e-7


# -- kinks ---------------------------------------------------------------------------------------


def test_kinks_are_reported_and_not_failed():
    report = gradcheck(lambda x: abs(x).sum(), np.array([0.0, 1.0, -2.0]))
    first = [k for k in report.kinks if k.order == 1]
    assert [k.element for k in first] == ["x[0]"]
    assert first[0].left == pytest.approx(-first[0].right)
    assert "by convention" in str(report)


def test_a_wrong_convention_at_a_kink_is_caught(monkeypatch):
    right = Abs.adjoint

    def steep(self, dy):
        at = Equal(self.x, splat(0.0, self.x.type))
        return (Select(at, dy * 2.0, right(self, dy)[0]),)

    monkeypatch.setattr(Abs, "adjoint", steep)
    fault = caught(lambda x: abs(x).sum(), np.array([0.0, 1.0, -2.0]), order=1).fault
    assert fault.element == "x[0]"
    assert "between the slopes of both sides" in fault.cause
    assert fault.kinked[0] == pytest.approx(-fault.kinked[1])


def test_ties_share_and_lie_between_the_slopes():
    report = gradcheck(lambda x: dlvm.max(x), np.array([1.0, 1.0, 0.5]), order=1)
    assert [k.element for k in report.kinks] == ["x[0]", "x[1]"]


def test_ties_that_bend_a_function_between_the_axes_are_no_fault():
    """The middle of three equal numbers stays along each axis, and moves between the axes."""
    ties = np.array([1.0, 1.0, 1.0, 3.0])
    for f in (
        lambda x: dlvm.median(x[:3]) + x[3] ** 2,
        lambda x: dlvm.sort(x)[1] * x[3],
        lambda x: dlvm.quantile(x, 0.4) * x.sum(),
    ):
        report = gradcheck(f, ties)
        assert any(c.seen for c in report.arguments)


def test_a_wrong_rule_beside_ties_is_still_found():
    @dlvm.custom_vjp
    def squared(x):
        return x * x

    squared.defvjp(lambda x: (x * x, x), lambda x, dy: (3 * x * dy,))
    ties = np.array([1.0, 1.0, 1.0, 3.0])
    with pytest.raises(dlvm.testing.GradientError, match=r"x\[3\]: found"):
        gradcheck(lambda x: dlvm.median(x[:3]) + squared(x[3]), ties)


def test_a_kink_nearby_only_makes_the_step_smaller():
    for distance in (1e-2, 1e-4, 1e-6):
        report = gradcheck(lambda x: dlvm.maximum(x, 0.0).sum(), np.array([distance, 1.0]), order=1)
        assert report.arguments[0].checked == 2
        assert report.max_error < 1e-7


# -- what can't be checked -----------------------------------------------------------------------


@pytest.mark.parametrize("f", [lambda x: x * 1e-30 + 1.0, lambda x: dlvm.tanh(x + 40.0)])
def test_where_nothing_could_be_checked_is_an_error(f):
    with pytest.raises(GradientError, match="nothing of the gradient") as found:
        gradcheck(f, np.array([1.0, 2.5]), order=1)
    assert found.value.fault is None


def test_steps_are_flat_between_their_jumps():
    report = gradcheck(dlvm.floor, np.array([1.0, 2.5]), order=1)
    assert [(k.element, k.jump) for k in report.kinks] == [("x[0]", True)]
    assert report.arguments[0].checked == 1


@pytest.mark.parametrize("x", [0.0, 5e-324, -1.25e-301, 1e-200, 1e-100, -1e-20, 1e-8])
def test_a_slope_beneath_the_rounding_of_what_is_near_is_right(x: float):
    """The slope of a square, where the differences to both sides round to none."""
    assert gradcheck(lambda x: x * x, np.array([x]), order=1).arguments[0].checked == 1


def test_the_border_of_a_domain_is_not_checked():
    report = gradcheck(dlvm.sqrt, np.array([0.0, 2.0]), order=1)
    assert (report.arguments[0].checked, report.arguments[0].unchecked) == (1, 1)


def test_a_guarded_domain_shrinks_the_step():
    report = gradcheck(dlvm.log, np.array([1e-6, 3.0]))
    assert report.arguments[0].checked == 2


def test_a_gradient_that_is_no_number_where_the_function_is_smooth():
    error = caught(lambda x: dlvm.sqrt(x**4), np.array([0.0, 1.0]), order=1)
    assert error.fault.element == "x[0]"
    assert "no number" in error.fault.cause


# -- random programs -----------------------------------------------------------------------------

NO_SLOPE = (Effect, Custom, *SLOPE_BY_CONVENTION)
SLOPED = [c for c in TRACED if not issubclass(c, NO_SLOPE)]


@settings(max_examples=4, phases=(Phase.explicit, Phase.generate))
@given(programs(SLOPED, (F64, F64, I64, BOOL), max_ops=6, loss=True))
def test_what_the_rules_give_passes_for_any_program(program: Program):
    main = program.module.main
    wrt = tuple(i for i, p in enumerate(main.params) if p.dtype.is_float)
    # at whole numbers tanh(|x|)**2 and the like are smooth, and the rules of their parts are not
    arrays = [a + 0.0171 if a.dtype.kind == "f" else a for a in program.arrays]
    levels = Levels(program.module, arrays, wrt, 2)
    names = tuple(main.params[i].name for i in wrt)
    check = GradientCheck(levels, main.name, names, 4, np.random.default_rng(0))
    try:
        with np.errstate(all="ignore"):
            check.run(compiled=False)
    except GradientError as error:
        assert error.fault is None, error  # nothing that could be checked


# -- what may be passed --------------------------------------------------------------------------


@dataclass
class Layer:
    w: Any
    b: Any


OFFSET = np.float32([0.5, 0.25, 0.125, 0.0])


def test_trees_integers_keywords_and_captured_arrays():
    def loss(layer, x, *, labels, scale=2.0):
        z = x @ layer.w + layer.b + OFFSET
        return scale * dlvm.nn.cross_entropy(z, labels).mean()

    layer = Layer(RNG.normal(size=(5, 4)).astype(np.float32), np.zeros(4, np.float16))
    x = RNG.normal(size=(6, 5)).astype(np.float32)
    report = gradcheck(loss, layer, x, labels=np.arange(6) % 4, scale=1.5)
    assert {c.argument for c in report.arguments} == {"layer.w", "layer.b", "x", "scale"}
    assert report.max_error < 1e-7
    assert report.compiled
    assert {i.order for i in report.identities} == {1, 2}


def test_staged_functions_static_arguments_and_wrt():
    @dlvm.function(static="power")
    def f(x, y, power):
        return (x * y) ** power

    report = gradcheck(f, X, X, 3, wrt=("y",))
    assert [c.argument for c in report.arguments] == ["y", "y"]
    assert gradcheck(f, X, X, 3, wrt=1, order=3).orders == (1, 2, 3)


def test_control_flow_and_effects(capsys):
    def f(x, n):
        def step(i, c):
            return dlvm.cond(c.sum() > 0, lambda c: dlvm.sin(c) * x, lambda c: c + x, c)

        dlvm.print("x is", x)
        return dlvm.fori_loop(0, n, step, x)

    assert gradcheck(f, X[0], 5).arguments[0].checked == 4
    assert capsys.readouterr().out == ""


def test_large_arrays_are_looked_at_in_part_and_along_directions():
    x = RNG.normal(size=(60, 50))
    report = gradcheck(lambda x: dlvm.tanh(x).mean(), x, elements=10)
    assert [c.checked for c in report.arguments] == [10, 2]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: gradcheck(lambda x: x > 0, X), "no float, so it has no derivative"),
        (lambda: gradcheck(lambda n: n * 2, np.arange(3)), "no float among"),
        (lambda: gradcheck(lambda x: x, X, wrt="z"), "there is no such parameter"),
        (lambda: gradcheck(lambda x: x, X, order=0), "expected 1, 2"),
    ],
)
def test_wrong_calls_are_told_with_a_remedy(call, said):
    with pytest.raises(UserError, match=said):
        call()


def test_machine_code_that_differs_is_caught(monkeypatch):
    from dlvm.gen.call.executable import Executable

    run = Executable.run

    def off(self, arrays, *more):
        return tuple(r * (1 + 1e-9) for r in run(self, arrays, *more))

    monkeypatch.setattr(Executable, "run", off)
    error = caught(lambda x: dlvm.tanh(x).sum(), X, order=1)
    assert "machine code" in error.fault.mode


def sine(values=lambda y: y, slope=1.0):
    """The sine by a rule of the user, in reverse mode, which gives other values."""

    @dlvm.custom_vjp
    def sine(x):
        return dlvm.sin(x)

    sine.defvjp(
        lambda x: (values(dlvm.sin(x)), x),
        lambda x, dy: (slope * dlvm.cos(x) * dy,),
    )
    return sine


def tangent_sine(values):
    @dlvm.custom_jvp
    def sine(x):
        return dlvm.sin(x)

    def rule(primals, tangents):
        return values(dlvm.sin(primals[0])), dlvm.cos(primals[0]) * tangents[0]

    sine.defjvp(rule)
    return sine


WRONG_VALUES = {
    "a factor": lambda y: y * (1 + 1e-9),
    "a constant": lambda y: y + 1e-9,
    "one element": lambda y: y.at[1].add(1e-7),
    "no number": lambda y: y / 0.0 * 0.0,
}


@pytest.mark.parametrize("make", [sine, tangent_sine], ids=["vjp", "jvp"])
@pytest.mark.parametrize("name", WRONG_VALUES)
def test_a_rule_that_gives_another_value_than_the_function_is_named(name, make):
    f, x = make(WRONG_VALUES[name]), np.array([0.3, 1.3, 2.3])
    for order in (1, 2):
        with pytest.raises(GradientError) as found:
            gradcheck(lambda x: (f(x) * 2).sum(), x, order=order, compiled=False)
        assert found.value.fault is not None and found.value.fault.of_values
        assert "comes with a wrong value" in str(found.value)
        lines = Path(__file__).read_text().splitlines()
        line = re.search(r"written at test_gradients.py:(\d+)", str(found.value))
        assert line and "values(dlvm.sin(" in lines[int(line[1]) - 1]


def test_a_rule_whose_values_are_right_passes():
    for f in (sine(), tangent_sine(lambda y: y)):
        gradcheck(lambda x, f=f: (f(x) * 2).sum(), np.array([0.3, 1.3]))


@pytest.mark.parametrize("mode", ["reverse", "forward", "linearised"])
def test_each_mode_is_asked_for_its_values(mode, monkeypatch):
    from dlvm.testing.levels import Levels

    right = Levels.values

    def wrong(self, *args):
        for name, results in right(self, *args):
            yield name, [r + 1e-6 if mode in name else r for r in results]

    monkeypatch.setattr(Levels, "values", wrong)
    with pytest.raises(GradientError, match=rf"value, {mode}"):
        gradcheck(lambda x: dlvm.sin(x).sum(), np.array([0.3, 1.3]), compiled=False)
