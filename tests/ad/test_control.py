"""Adjoints of calls, branches, loops and recomputation against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlvm import ops
from dlvm.ir import Declaration, Function, FunctionRef, Value, literal
from dlvm.ir.dims import symbol
from dlvm.ir.types import F64, I64

from .building import (
    assert_adjoint,
    assert_derivatives,
    checked,
    derivatives,
    draw,
    function,
    t,
)

N, T = symbol("N"), symbol("T")
RNG = np.random.default_rng


def region(types: str, body: Callable[..., Any]) -> Function:
    return function("body", types, body)


def number(value: float) -> Value:
    return ops.Constant(literal(value, F64 if isinstance(value, float) else I64))


def test_both_branches_of_a_cond_keep_their_own_residuals() -> None:
    then = region("f64[N] f64[N]", lambda a, b: (ops.Exp(ops.Tanh(a) * b), ops.Sum(a, (0,))))
    other = region("f64[N] f64[N]", lambda a, b: (a, ops.Sum(ops.Sqrt(ops.Exp(b)), (0,))))
    fn = function(
        "f",
        "i64 f64[N] f64[N]",
        lambda c, a, b: ops.Cond(ops.Less(c, number(1)), (a, b), then, other).results,
    )
    for seed in range(4):
        assert_derivatives(fn, RNG(seed), N=3)


def rnn() -> Function:
    def body(h: Value, x: Value, w: Value) -> tuple[Value, Value]:
        z = ops.Reshape(ops.Matmul(ops.Reshape(h, (1, 3)), w), (3,))
        y = ops.Tanh(z + x)
        return y, y * x

    step = region("f64[3] f64[3] f64[3,3]", body)
    return function(
        "f",
        "f64[3] f64[T,3] f64[3,3]",
        lambda h, xs, w: ops.Scan((h,), (xs,), (w,), step, T).results,
    )


@pytest.mark.parametrize("trips", [0, 1, 4])
def test_scan_with_captured_weights(trips: int) -> None:
    assert_derivatives(rnn(), RNG(1), T=trips)


def test_scan_in_reverse_with_an_integer_carry() -> None:
    step = region(
        "f64[2] i64 f64[2]",
        lambda c, i, x: (c * x + c, i + 1, ops.Cast(i, F64)),
    )
    fn = function(
        "f",
        "f64[2] f64[T,2]",
        lambda c, xs: ops.Scan((c, number(0)), (xs,), (), step, T, reverse=True).results,
    )
    assert_derivatives(fn, RNG(2), T=3)


def powers(bound: str = "n") -> Function:
    """``x <- tanh(x) * a`` while ``i < n``, or while ``x`` is large."""
    types = "f64 i64 i64 f64"
    until = region(types, lambda x, i, n, a: ops.Less(i, n))
    if bound == "x":
        until = region(types, lambda x, i, n, a: ops.Less(number(0.11), x * x))
    step = region(types, lambda x, i, n, a: (ops.Tanh(x) * a, i + 1))
    return function(
        "f",
        "f64 i64 f64",
        lambda x, n, a: ops.While((x, number(0)), (n, a), until, step).results,
    )


@pytest.mark.parametrize("trips", [0, 1, 5, 1000])
def test_while_of_any_number_of_trips(trips: int) -> None:
    module = derivatives(powers())
    args = [np.array(0.8), np.array(trips), np.array(1.3)]
    assert_adjoint(module, "f", "d", args, RNG(0))
    if trips < 10:
        assert_adjoint(module, "d", "dd", [*args, np.array(0.7)], RNG(0))


def test_while_whose_trips_depend_on_the_data() -> None:
    module = derivatives(powers("x"))
    assert_adjoint(module, "f", "d", [np.array(0.9), np.array(0), np.array(0.9)], RNG(0))


def nested() -> Function:
    """A scan of a while of a while, both with residuals of their own."""
    until = region("f64 i64 i64 f64", lambda x, i, n, a: ops.Less(i, n))
    step = region("f64 i64 i64 f64", lambda x, i, n, a: (ops.Tanh(x) * a, i + 1))

    def middle(x: Value, i: Value, n: Value, a: Value) -> tuple[Value, Value]:
        y, _ = ops.While((ops.Exp(x), number(0)), (n, a), until, step).results
        return ops.Tanh(y * a), i + 1

    outer = region("f64 i64 i64 f64", middle)

    def trip(c: Value, n: Value, a: Value) -> tuple[Value, Value]:
        y, _ = ops.While((c, number(0)), (n, a), until, outer).results
        return y * a, ops.Tanh(y)

    body = region("f64 i64 f64", trip)
    return function(
        "f", "f64 i64[T] f64", lambda x, ns, a: ops.Scan((x,), (ns,), (a,), body, T).results
    )


def test_while_in_while_in_scan_shares_one_tape() -> None:
    module = derivatives(nested())
    args = [np.array(0.8), np.array([2, 0, 3, 1]), np.array(0.9)]
    assert_adjoint(module, "f", "d", args, RNG(0))
    seeds = [np.array(0.3), RNG(1).normal(size=4)]
    assert_adjoint(module, "d", "dd", [*args, *seeds], RNG(0))


def test_while_in_one_branch_of_a_cond_in_a_scan() -> None:
    until = region("f64 i64 f64", lambda x, i, a: ops.Less(i, number(3)))
    step = region("f64 i64 f64", lambda x, i, a: (ops.Tanh(x) * a, i + 1))
    loop = region("f64 f64", lambda x, a: ops.While((x, number(0)), (a,), until, step).results[0])
    plain = region("f64 f64", lambda x, a: ops.Exp(x) * a)

    def trip(c: Value, n: Value, a: Value) -> tuple[Value, Value]:
        (y,) = ops.Cond(ops.Less(number(0), n), (c, a), loop, plain).results
        return y, y * a

    body = region("f64 i64 f64", trip)
    fn = function(
        "f", "f64 i64[T] f64", lambda x, ns, a: ops.Scan((x,), (ns,), (a,), body, T).results
    )
    module = derivatives(fn)
    args = [np.array(0.8), np.array([1, 0, 1]), np.array(0.9)]
    assert_adjoint(module, "f", "d", args, RNG(0))
    assert_adjoint(module, "d", "dd", [*args, np.array(0.3), RNG(1).normal(size=3)], RNG(0))


def test_scan_in_scan_sums_into_the_outer_sum() -> None:
    inner = region("f64 f64 f64[2]", lambda c, x, w: (ops.Tanh(c * x) + ops.Sum(w * w, (0,)),))

    def trip(c: Value, xs: Value, w: Value) -> tuple[Value, Value]:
        (y,) = ops.Scan((c,), (xs,), (w,), inner, N).results
        return y, y * c

    outer = region("f64 f64[N] f64[2]", trip)
    fn = function(
        "f",
        "f64 f64[T,N] f64[2]",
        lambda c, xs, w: ops.Scan((c,), (xs,), (w,), outer, T).results,
    )
    assert_derivatives(fn, RNG(0), T=2, N=3)


def test_checkpoint_keeps_inputs_only_and_has_second_derivatives() -> None:
    body = region("f64[N] f64[N]", lambda a, b: (ops.Exp(ops.Tanh(a) * b), b))
    fn = function("f", "f64[N] f64[N]", lambda a, b: ops.Checkpoint((a, b * a), body).results)
    module = assert_derivatives(fn, RNG(0), N=3)
    names = [op.name for op in module.function("d").walk()]
    assert names.count("recompute") == 1
    (again,) = [op for op in module.function("d").ops if op.name == "recompute"]
    assert isinstance(again, ops.Recompute) and len(again.triggers) == 2


def test_a_general_fold_is_differentiated_as_a_scan() -> None:
    combine = region("f64 f64 f64 f64", lambda a, b, c, d: (a + c, b * ops.Tanh(d) + a))
    fn = function(
        "f",
        "f64[2,N,3] f64[2,N,3]",
        lambda a, b: ops.Fold((a, b), (0.0, 1.0), combine, (0, 2)).results,
    )
    assert_derivatives(fn, RNG(0), N=2)
    assert_derivatives(fn, RNG(0), N=0)


def test_kernels_are_looked_through() -> None:
    body = region("f64[N]", lambda a: (ops.Tanh(a) * a,))
    fn = function("f", "f64[N]", lambda a: ops.Kernel((a,), body, "elementwise").results)
    assert_derivatives(fn, RNG(0), N=3)


def test_calls_of_symbolic_functions_are_split_once() -> None:
    g = function(
        "g", "f64[N] f64[N]", lambda a, b: (ops.Sum(ops.Exp(ops.Tanh(a) * b), (0,)), a * b)
    )

    def body(a: Value, b: Value) -> list[Value]:
        out: list[Value] = []
        for x in (a, b):
            s, p = ops.Call((x, x * x), FunctionRef("g"), (t("f64"), x.type)).results
            s2, _ = ops.Call((p, p), FunctionRef("g"), (t("f64"), x.type)).results
            out += [s, s2]
        return out

    f = function("f", "f64[M] f64[3]", body)
    d = Declaration("adjoint", "d", "f", (0, 1), (0, 1, 2, 3), seeded=True)
    dd = Declaration("adjoint", "dd", "d", (0, 1, 2, 3, 4, 5), seeded=True)
    module = checked(f, g, d, dd)
    assert sum(fn.name.startswith("g_forward") for fn in module.functions) >= 2
    args = [draw(p.type, RNG(0), M=2) for p in module.function("d").params]
    assert_adjoint(module, "f", "d", args[:2], RNG(0))
    assert_adjoint(module, "d", "dd", args, RNG(0))


def test_a_callee_whose_sizes_nothing_tells_gets_a_witness() -> None:
    g = function("g", "f64[N]", lambda a: ops.Sum(a, (0,)))
    f = function("f", "f64[3]", lambda a: ops.Call((a,), FunctionRef("g"), (t("f64"),)).results[0])
    module = checked(f, g, Declaration("adjoint", "d", "f", (0,)))
    (g_back,) = [fn for fn in module.functions if fn.name == "g_backward"]
    assert [str(p.type) for p in g_back.params] == ["f64", "bool[0,N]"]
    assert np.array_equal(module.run("d", np.ones(3))[0], np.ones(3))


def test_recursion_is_refused_in_the_users_words() -> None:
    from dlvm.errors import UserError

    f = function("f", "f64", lambda a: ops.Call((a,), FunctionRef("f"), (t("f64"),)).results[0])
    with pytest.raises(UserError, match="calls itself"):
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
