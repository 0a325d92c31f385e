"""Loops and branches: what is moved across their borders, and what must stay."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.base.errors import IndexOutOfRange
from dlvm.ir import BOOL, Function, Module, TensorType, Value, splat
from dlvm.ops import (
    Add,
    Assert,
    Broadcast,
    Cond,
    Constant,
    Gather,
    Less,
    Matmul,
    Print,
    Scan,
    Select,
    Sum,
    Tanh,
    While,
)
from dlvm.opt import DEFAULT, drop, hoist, propagate, select_branches
from dlvm.passes import Pass, run
from tests.opt.building import function, region


def after(module: Module, *passes: Pass) -> Function:
    return run(module, passes, verify=True).main


def names(fn: Function) -> list[str]:
    return [op.name for op in fn.ops]


# -- what could raise stays where it is -----------------------------------------------------------


def guarded(x: Value, i: Value, ok: Value) -> Value:
    then = region(lambda x, i: Gather(x, i, 0), "f32[4]", "i64")
    otherwise = region(lambda x, i: Sum(x, (0,)), "f32[4]", "i64")
    return Cond(ok, (x, i), then, otherwise).results[0]


def test_a_gather_under_a_branch_is_not_speculated():
    module = function(guarded, "f32[4]", "i64", "bool")
    best = run(module, DEFAULT, verify=True)
    assert [op.name for op in best.main.ops] == ["cond"]
    x = np.arange(4, dtype=np.float32)
    assert best.run("main", x, np.int64(9), np.bool_(False))[0] == 6
    with pytest.raises(IndexOutOfRange):
        best.run("main", x, np.int64(9), np.bool_(True))


def loop_with_gather(x: Value, i: Value, n: Value) -> Value:
    def step(k: Value, total: Value, x: Value, i: Value, n: Value) -> tuple[Value, Value]:
        return k + 1, total + Gather(x, i, 0) * Tanh(Gather(x, i, 0, mode="clip"))

    types = ("i64", "f32", "f32[4]", "i64", "i64")
    zero, start = splat(0, n.type), splat(0.0, TensorType(x.dtype))
    condition = region(lambda k, total, x, i, n: Less(k, n), *types)
    return While((zero, start), (x, i, n), condition, region(step, *types)).results[1]


def test_a_loop_without_trips_does_not_raise():
    module = function(loop_with_gather, "f32[4]", "i64", "i64")
    hoisted = after(module, hoist, drop)
    assert names(hoisted)[-1] == "while" and "tanh" in names(hoisted)
    assert [op.name for op in hoisted.walk() if op.may_raise] == ["while", "gather"]
    x = np.arange(4, dtype=np.float32)
    best = run(module, DEFAULT, verify=True)
    assert best.run("main", x, np.int64(9), np.int64(0))[0] == 0
    with pytest.raises(IndexOutOfRange):
        best.run("main", x, np.int64(9), np.int64(1))


# -- hoisting -------------------------------------------------------------------------------------


def scan_over(step, *types: str, length: int = 5):
    """A scan whose carried value is f32[2,2], with one captured matrix."""

    def body(h: Value, w: Value) -> Value:
        return Scan((h,), (), (w,), region(step, "f32[2,2]", "f32[2,2]"), length).results[0]

    return function(body, "f32[2,2]", "f32[2,2]")


def test_what_only_captured_values_need_moves_out():
    module = scan_over(lambda h, w: Add(h, Tanh(Matmul(w, w) * 2.0)))
    main = after(module, hoist, drop)
    assert names(main)[-3:] == ["mul", "tanh", "scan"]
    assert names(main.ops[-1].body) == ["add"]


def test_code_leaves_a_whole_nest_in_one_pass():
    inner = region(lambda h, w: Add(h, Tanh(w)), "f32[2,2]", "f32[2,2]")
    module = scan_over(lambda h, w: Scan((h,), (), (w,), inner, 3).results[0])
    main = after(module, hoist, drop)
    assert names(main) == ["tanh", "scan"]


def test_what_is_read_through_stays_inside():
    module = scan_over(lambda h, w: h + splat(1.0, h.type))
    assert after(module, hoist) is module.main


def test_effects_stay_inside():
    def step(h: Value, w: Value) -> Value:
        Print(w, "w ")
        return Add(h, w)

    assert after(scan_over(step), hoist).ops[0].is_effect


def test_a_loop_that_may_not_end_is_not_moved():
    forever = region(lambda x: Less(x, splat(3.0, x.type)), "f32")

    def step(h: Value, w: Value) -> Value:
        total = Sum(w, (0, 1))
        (end,) = While((total,), (), forever, region(lambda x: x * 1.0, "f32")).results
        return Add(h, Broadcast(end, h.shape, ()))

    main = after(scan_over(step), hoist)
    assert names(main)[-2:] == ["sum", "scan"]


# -- what is known goes inside --------------------------------------------------------------------


def test_a_branch_on_a_constant_is_its_branch():
    def body(x: Value) -> Value:
        sides = region(lambda x: Tanh(x), "f32"), region(lambda x: -x, "f32")
        return Cond(splat(True, TensorType(BOOL)), (x,), *sides).results[0]

    assert names(after(function(body, "f32"), propagate, drop)) == ["tanh"]


def test_inside_a_branch_its_condition_is_known():
    def body(c: Value, x: Value) -> Value:
        then = region(lambda c, x: Select(c, Tanh(x), x), "bool", "f32")
        return Cond(c, (c, x), then, region(lambda c, x: -x, "bool", "f32")).results[0]

    (cond,) = after(function(body, "bool", "f32"), propagate, drop).ops
    assert isinstance(cond.then.ops[0], Constant) and len(cond.captured) == 1


def test_a_carry_that_never_changes_is_captured_and_known_after():
    def body(x: Value, n: Value) -> tuple[Value, ...]:
        types = ("i64", "f32", "i64")
        step = region(lambda k, c, n: (k + 1, c), *types)
        condition = region(lambda k, c, n: Less(k, n), *types)
        return While((splat(0, n.type), x), (n,), condition, step).results

    main = after(function(body, "f32", "i64"), propagate, drop)
    assert main.results[1] is main.params[0]
    assert len(main.ops[-1].init) == 1


def test_what_goes_in_or_comes_out_twice_does_so_once():
    def step(c: Value, u: Value, v: Value, w: Value, z: Value) -> tuple[Value, ...]:
        y = u * v
        return c + w * z, y, y

    def body(c: Value, xs: Value, w: Value) -> tuple[Value, ...]:
        inner = region(step, *["f32"] * 5)
        return Scan((c,), (xs, xs), (w, w), inner, 9).results

    main = after(function(body, "f32", "f32[9]", "f32"), propagate, drop)
    (scan,) = main.ops
    assert (len(scan.xs), len(scan.captured), len(scan.results)) == (1, 1, 2)
    assert main.results == (*scan.results, scan.results[1])


def test_constants_reach_any_depth_at_once():
    def body(h: Value, w: Value) -> Value:
        inner = region(lambda h, two: h * two, "f32", "f32")
        outer = region(lambda h, two: Scan((h,), (), (two,), inner, 3).results[0], "f32", "f32")
        two = splat(2.0, h.type)
        return Scan((h,), (), (two,), outer, 3).results[0]

    main = after(function(body, "f32", "f32"), propagate, drop)
    inner = main.ops[-1].body.ops[-1].body
    assert names(inner) == ["constant", "mul"] and len(inner.params) == 1


# -- dead code ------------------------------------------------------------------------------------


def test_a_carry_that_only_feeds_itself_is_dead():
    def body(x: Value, n: Value) -> Value:
        types = ("i64", "f32", "f32", "i64")
        step = region(lambda k, c, d, n: (k + 1, Tanh(c), d + c), *types)
        condition = region(lambda k, c, d, n: Less(k, n), *types)
        results = While((splat(0, n.type), x, x), (n,), condition, step).results
        return results[1]

    loop = after(function(body, "f32", "i64"), drop).ops[-1]
    assert isinstance(loop, While) and len(loop.init) == 2
    assert "add" in names(loop.body) and len(loop.body.ops) == 3


def test_results_that_nobody_reads_leave_both_branches():
    def body(c: Value, x: Value, y: Value) -> Value:
        then = region(lambda x, y: (Tanh(x), y * 2.0), "f32", "f32")
        return Cond(c, (x, y), then, region(lambda x, y: (x, -y), "f32", "f32")).results[0]

    (cond,) = after(function(body, "bool", "f32", "f32"), drop).ops
    assert len(cond.captured) == 1 and names(cond.then) == ["tanh"] and not cond.otherwise.ops


def test_what_acts_inside_keeps_what_holds_it():
    def body(c: Value, x: Value) -> Value:
        def shown(x: Value) -> Value:
            Print(Tanh(x), "")
            return x

        Cond(c, (x,), region(shown, "f32"), region(lambda x: x, "f32"))
        return x

    (cond,) = after(function(body, "bool", "f32"), drop).ops
    assert names(cond.then) == ["tanh", "print"] and cond.results == ()


# -- cheap branches -------------------------------------------------------------------------------


def choose(size: str, then=Tanh):
    def body(c: Value, x: Value) -> Value:
        return Cond(c, (x,), region(then, size), region(lambda x: -x, size)).results[0]

    return function(body, "bool", size)


def test_cheap_branches_become_selects():
    assert names(after(choose("f32[4]"), select_branches))[-1] == "select"
    assert after(choose("f32"), select_branches).ops[-1].name == "select"


@pytest.mark.parametrize("size", ["f32[B]", "f32[4096]"])
def test_dear_branches_and_unknown_sizes_stay(size: str):
    assert names(after(choose(size), select_branches)) == ["cond"]


def test_branches_that_act_or_raise_stay():
    def checked(x: Value) -> Value:
        Assert(Less(x, splat(1.0, x.type)), "")
        return x

    assert names(after(choose("f32", checked), select_branches)) == ["cond"]


def test_a_function_with_nothing_to_do_is_the_same_object():
    module = function(lambda x: Tanh(x), "f32[B]")
    for step in (hoist, propagate, drop, select_branches):
        assert step.run(module).main is module.main
