"""Adjoints of calls, branches, loops and recomputation against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm import ops
from dlvm.base.errors import Origin, UserError
from dlvm.ir import Declaration, Function, FunctionRef, Module, Value

from .building import assert_adjoint, checked, derivatives, function, t
from .controls import CASES, T, calls, checkpoint, counted, number, region
from .surrounded import surrounded

RNG = np.random.default_rng


@pytest.mark.parametrize("name", CASES)
def test_first_and_second_derivatives_are_those_of_finite_differences(name: str) -> None:
    case = CASES[name]
    module = derivatives(*case.functions)
    args = case.arguments(RNG(1))
    assert_adjoint(module, "f", "d", args, RNG(2))
    outs = [o for o in module.run("f", *args) if o.dtype.kind == "f"]
    seeds = [RNG(3).normal(size=o.shape) for o in outs]
    assert_adjoint(module, "d", "dd", [*args, *seeds], RNG(4))


@pytest.mark.parametrize("name", CASES)
def test_so_they_are_where_every_control_operation_stands_in_a_callee(name: str) -> None:
    case = CASES[name]
    first, *others = surrounded(Module(case.functions)).functions
    module = derivatives(first, *others)
    args = case.arguments(RNG(1))
    assert_adjoint(module, "f", "d", args, RNG(2))
    outs = [o for o in module.run("f", *args) if o.dtype.kind == "f"]
    seeds = [RNG(3).normal(size=o.shape) for o in outs]
    assert_adjoint(module, "d", "dd", [*args, *seeds], RNG(4))


def test_a_thousand_trips() -> None:
    module = derivatives(counted())
    assert_adjoint(module, "f", "d", [np.array(0.8), np.array(1000), np.array(1.3)], RNG(0))


def test_an_adjoint_of_a_checkpoint_recomputes_once_the_cotangents_are_there() -> None:
    d = derivatives(checkpoint()).function("d")
    (again,) = [op for op in d.walk() if isinstance(op, ops.Recompute)]
    assert again.triggers == d.params[-2:]
    kept = {op.name for op in d.ops}
    assert kept <= {"checkpoint", "recompute", "mul", "add"}


def test_one_callee_is_split_once_for_each_choice_of_inputs() -> None:
    f, g = calls()
    module = checked(f, g, Declaration("adjoint", "d", "f", (0, 1), seeded=True))
    assert sum(fn.name.startswith("g_") for fn in module.functions) == 4


def test_a_callee_whose_sizes_nothing_tells_gets_a_witness() -> None:
    g = function("g", "f64[N]", lambda a: ops.Sum(a, (0,)))
    f = function("f", "f64[3]", lambda a: ops.Call((a,), FunctionRef("g"), (t("f64"),)).results[0])
    module = checked(f, g, Declaration("adjoint", "d", "f", (0,)))
    (g_back,) = [fn for fn in module.functions if fn.name == "g_backward"]
    assert [str(p.type) for p in g_back.params] == ["f64", "bool[0,N]"]
    assert np.array_equal(module.run("d", np.ones(3))[0], np.ones(3))


def test_a_function_that_calls_a_derivative_of_itself_has_none() -> None:
    f = function("f", "f64", lambda a: ops.Call((a,), FunctionRef("d"), (t("f64"),)).results[0])
    with pytest.raises(UserError, match="calls a derivative of itself"):
        checked(f, Declaration("adjoint", "d", "f", (0,)))


def test_inputs_that_nothing_depends_on_have_zero_gradients() -> None:
    f = function("f", "f64[N] f64[2]", lambda a, b: ops.Sum(b * b, (0,)))
    module = checked(f, Declaration("adjoint", "d", "f", (1, 0), (0,)))
    db, da, y = module.run("d", np.ones(3), np.array([1.0, 2.0]))
    assert np.array_equal(da, np.zeros(3)) and np.array_equal(db, [2.0, 4.0]) and y == 5


def test_derivatives_of_a_module_that_still_holds_declarations() -> None:
    f = function("f", "f64", lambda a: ops.Tanh(a) * a)
    df = Declaration("adjoint", "df", "f", (0,))
    g = function(
        "g", "f64", lambda a: ops.Call((a,), FunctionRef("df"), (t("f64"),)).results[0] * a
    )
    module = checked(g, f, df, Declaration("adjoint", "dg", "g", (0,)))
    x, h = 0.7, 1e-5
    slope = (module.run("g", np.array(x + h))[0] - module.run("g", np.array(x - h))[0]) / (2 * h)
    assert abs(module.run("dg", np.array(x))[0] - slope) < 1e-8


def effects() -> Function:
    """A scan, and a checkpoint inside, that print and assert."""

    def remember(a: Value) -> Value:
        ops.Print(a, "inside ")
        return ops.Tanh(a) * a

    inner = region("f64", remember)

    def trip(c: Value, x: Value) -> tuple[Value, ...]:
        ops.Print(c, "trip ")
        ops.Assert(ops.Less(c, number(100.0)), "too large")
        return (ops.Checkpoint((c * x,), inner).results[0],)

    body = region("f64 f64", trip)
    return function("f", "f64 f64[T]", lambda c, x: ops.Scan((c,), (x,), (), body, T).results)


def test_effects_happen_once_and_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    module = checked(effects(), Declaration("adjoint", "d", "f", (0, 1), seeded=True))
    module.run("f", np.array(0.5), np.ones(2))
    once = capsys.readouterr().out
    module.run("d", np.array(0.5), np.ones(2), np.array(1.0))
    assert capsys.readouterr().out == once and once.count("inside") == 2


def test_adjoint_operations_stand_where_the_primal_ones_were_written() -> None:
    f = function("f", "f64", lambda a: ops.Tanh(a))
    f.ops[0].origin = Origin("user.py", 12)
    d = checked(f, Declaration("adjoint", "d", "f", (0,), seeded=True)).function("d")
    assert {str(op.origin) for op in d.ops} == {"user.py:12"}
