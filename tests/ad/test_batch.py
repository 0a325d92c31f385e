"""A batched function is a Python loop over its lanes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from dlvm import ops
from dlvm.ad import expand
from dlvm.ad.batch import BATCHED
from dlvm.base.errors import IndexOutOfRange, UserError
from dlvm.ir import OPS, Declaration, Dim, Function, FunctionRef, Module, Op, Value, parse
from dlvm.ir.sizes.dims import symbol

from .building import checked, derivatives, draw, floats, function
from .controls import CASES, counted, number, region
from .counting import work
from .leaves import LEAVES

RNG = np.random.default_rng
L = symbol("L")


def batched(fn: Function, axes: tuple[int | None, ...], size: Dim, *others: Function) -> Module:
    return checked(fn, *others, Declaration("batched", "b", fn.name, axes=axes, size=size))


def assert_lanes(
    module: Module, of: str, axes: tuple[int | None, ...], stacked: list[np.ndarray], size: int
) -> None:
    """Each lane gives what the function gives on the slices of that lane."""
    found = module.run("b", *stacked)
    for lane in range(size):
        args = [
            x if axis is None else np.take(x, lane, axis)
            for x, axis in zip(stacked, axes, strict=True)
        ]
        for whole, part in zip(found, module.run(of, *args), strict=True):
            assert np.allclose(whole[lane], part, rtol=1e-12, atol=1e-13)


def stack(args: list[list[np.ndarray]], axes: tuple[int | None, ...]) -> list[np.ndarray]:
    return [
        column[0] if axis is None else np.stack(column, axis)
        for column, axis in zip(map(list, zip(*args, strict=True)), axes, strict=True)
    ]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("leaf", LEAVES)
def test_leaves_with_every_choice_of_batched_operands(leaf: str) -> None:
    types, body = LEAVES[leaf]
    fn = function("f", types, body)
    for flags in product((None, 0), repeat=len(fn.params)):
        axes = tuple(flags)
        if not any(a == 0 for a in axes):
            continue
        lanes = [[draw(p.type, RNG(k), N=3, M=2) for p in fn.params] for k in range(3)]
        assert_lanes(batched(fn, axes, L), "f", axes, stack(lanes, axes), 3)
    inner = tuple(p.type.rank for p in fn.params)
    lanes = [[draw(p.type, RNG(k), N=3, M=2) for p in fn.params] for k in range(2)]
    assert_lanes(batched(fn, inner, 2), "f", inner, stack(lanes, inner), 2)
    nothing = [np.take(x, [], 0) for x in stack(lanes, (0,) * len(inner))]
    out = batched(fn, (0,) * len(inner), L).run("b", *nothing)
    assert all(len(y) == 0 for y in out)


@pytest.mark.parametrize("name", CASES)
def test_control_with_every_choice_of_batched_floats(name: str) -> None:
    case = CASES[name]
    fn, *others = case.functions
    wrt = floats(fn)
    for flags in product((False, True), repeat=len(wrt)):
        if not any(flags):
            continue
        where = {i for i, f in zip(wrt, flags, strict=True) if f}
        axes = tuple(0 if i in where else None for i in range(len(fn.params)))
        lanes = [case.arguments(RNG(k)) for k in range(3)]
        assert_lanes(batched(fn, axes, L, *others), "f", axes, stack(lanes, axes), 3)


@pytest.mark.parametrize("name", ["cond, then", "while", "while in while in scan"])
def test_a_batched_predicate_takes_both_ways_and_selects(name: str) -> None:
    case = CASES[name]
    fn = case.functions[0]
    axes = (0,) * len(fn.params)
    lanes = [case.arguments(RNG(k)) for k in range(4)]
    for k, args in enumerate(lanes):
        for i, p in enumerate(fn.params):
            if p.type.dtype.is_integer:
                args[i] = (args[i] * k + k) % 4
    assert_lanes(batched(fn, axes, L), "f", axes, stack(lanes, axes), 4)


def test_a_while_by_data_runs_until_every_lane_is_done() -> None:
    fn = counted(by_data=True)
    axes = (0, None, 0)
    stacked = [np.array([0.1, 0.9, 0.5]), np.array(0), np.array([0.5, 0.9, 0.95])]
    assert_lanes(batched(fn, axes, 3), "f", axes, stacked, 3)


@pytest.mark.parametrize("name", CASES)
def test_batched_gradients_are_gradients_of_lanes(name: str) -> None:
    case = CASES[name]
    fn, *others = case.functions
    wrt = floats(fn)
    first = Declaration("adjoint", "d", "f", wrt, seeded=True)
    params = Module((*case.functions, first)).signature("d").params
    axes = tuple(0 if t.dtype.is_float else None for t in params)
    module = checked(fn, *others, first, Declaration("batched", "b", "d", axes=axes, size=L))
    lanes = []
    for k in range(3):
        args = case.arguments(RNG(k))
        outs = [o for o in module.run("f", *args) if o.dtype.kind == "f"]
        lanes.append([*args, *(RNG(50 + k).normal(size=o.shape) for o in outs)])
    assert_lanes(module, "d", axes, stack(lanes, axes), 3)


STEERED = ["recursion", "cond, then", "while", "while in while in scan", "while in cond in scan"]


@pytest.mark.parametrize("name", STEERED)
@pytest.mark.parametrize("order", [1, 2])
def test_lanes_steer_for_themselves_forward_and_back(name: str, order: int) -> None:
    """Each lane has integers of its own: trips, branches, and what the tape holds."""
    case = CASES[name]
    module = derivatives(*case.functions)
    of = ("d", "dd")[order - 1]
    full = lanes_of(module, of)
    params = module.function(of).params
    lanes = []
    for k in range(4):
        args = case.arguments(RNG(k))
        for i, p in enumerate(case.functions[0].params):
            if p.type.dtype.is_integer:
                args[i] = (args[i] * k + k) % 4
        more = [draw(p.type, RNG(60 + k), **case.sizes) for p in params[len(args) :]]
        lanes.append([*args, *more])
    axes = (0,) * len(params)
    assert_lanes(full, of, axes, stack(lanes, axes), 4)


def lanes_of(module: Module, of: str) -> Module:
    axes = (0,) * len(module.function(of).params)
    return checked(*module.functions, Declaration("batched", "b", of, axes=axes, size=L))


def test_the_gradient_of_a_batched_while_by_data() -> None:
    b = Declaration("batched", "b", "f", axes=(0, None, 0), size=L)
    d = Declaration("adjoint", "d", "b", (0, 2), seeded=True)
    e = Declaration("adjoint", "e", "f", (0, 2), seeded=True)
    module = checked(counted(by_data=True), b, d, e)
    x, a, w = np.array([0.1, 0.9, 0.5]), np.array([0.5, 0.9, 0.95]), np.array([1.0, 2.0, 3.0])
    found = module.run("d", x, np.array(0), a, w)
    for lane in range(3):
        alone = module.run("e", x[lane], np.array(0), a[lane], w[lane])
        assert np.allclose([g[lane] for g in found], alone, rtol=1e-12)


def test_what_does_not_depend_on_lanes_is_left_as_it_is() -> None:
    fn = function("f", "f64[N] f64[N]", lambda a, b: ops.Exp(a) * b)
    b = batched(fn, (None, 0), L).function("b")
    assert [str(op.type) for op in b.ops if op.name == "exp"] == ["f64[N]"]


def test_a_product_with_one_batched_operand_broadcasts_nothing() -> None:
    fn = function("f", "f64[2,3] f64[3,4]", ops.Matmul)
    for axes in ((0, None), (None, 0)):
        b = batched(fn, axes, L).function("b")
        assert "broadcast" not in {op.name for op in b.ops}
        assert [op.type.rank for op in b.ops if op.name == "matmul"] == [2]


def noisy() -> Function:
    """Prints inside a branch, a loop of each lane's own length, and a scan."""

    def trip(x: Value, n: Value) -> tuple[Value, Value]:
        ops.Print(n, "n = ")
        return x * x, n - number(1)

    until = region("f64 i64", lambda x, n: ops.Less(number(0), n))
    step = region("f64 i64", trip)

    def then(x: Value, n: Value) -> Value:
        ops.Print(x, "x = ")
        return ops.While((x, n), (), until, step).results[0]

    branches = region("f64 i64", then), region("f64 i64", lambda x, n: x)

    def body(x: Value, n: Value) -> Value:
        (y,) = ops.Cond(ops.Less(number(1), n), (x, n), *branches).results
        ops.Assert(ops.Less(y, number(10.0)), "too large")
        return y

    return function("f", "f64 i64", body)


def test_effects_are_those_of_the_lanes_that_come_there(capsys: pytest.CaptureFixture[str]) -> None:
    module = batched(noisy(), (0, 0), L)
    x, n = np.array([0.5, 2.0, 0.25]), np.array([3, 0, 2])
    module.run("b", x, n)
    found = capsys.readouterr().out.split("\n")
    assert found == ["x = 0.5", "x = 0.25", "n = 3", "n = 2", "n = 2", "n = 1", "n = 1", ""]
    for lane in (0, 2):
        module.run("f", x[lane], n[lane])
        alone = capsys.readouterr().out.split()
        assert [w for w in alone if w.startswith("0")] == [str(x[lane])]
    with pytest.raises(UserError, match="too large"):
        module.run("b", np.array([1.0, 4.0]), np.array([1, 2]))
    module.run("b", np.array([4.0, 1.0]), np.array([0, 2]))


def test_an_effect_that_is_the_same_in_every_lane_happens_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def body(x: Value) -> Value:
        ops.Print(number(1.0), "here ")
        return x

    batched(function("f", "f64", body), (0,), L).run("b", np.ones(3))
    assert capsys.readouterr().out == "here 1.0\n"


def looked_up(types: str = "f64[5] i64") -> Function:
    """``x[i]`` where ``i < 5``, by way of a scan and a callee; else 0."""
    step = region("f64 f64[5] i64", lambda c, x, i: (c + ops.Gather(x, i, 0),))

    def then(x: Value, i: Value) -> Value:
        (found,) = ops.Scan((number(0.0),), (), (x, i), step, 2).results
        return ops.Call((x, i), FunctionRef("g"), (found.type,)).results[0] + found

    branches = region(types, then), region(types, lambda x, i: number(0.0))

    def guarded(x: Value, i: Value) -> Value:
        return ops.Cond(ops.Less(i, number(5)), (x, i), *branches).results[0]

    return function("f", types, guarded)


def test_only_lanes_that_come_there_can_be_out_of_range() -> None:
    g = function("g", "f64[5] i64", lambda x, i: ops.Gather(x, i, 0))
    module = batched(looked_up(), (None, 0), L, g)
    x = RNG(0).normal(size=5)
    (found,) = module.run("b", x, np.array([4, 7, 0]))
    assert np.allclose(found, [3 * x[4], 0, 3 * x[0]])
    with pytest.raises(IndexOutOfRange):
        module.run("b", x, np.array([4, -7, 0]))


def test_a_lane_that_is_done_looks_nothing_up() -> None:
    """Follow links until one leads out of the table."""
    until = region("i64 i64[4]", lambda i, at: ops.Less(i, number(4)))
    step = region("i64 i64[4]", lambda i, at: (ops.Gather(at, i, 0),))
    fn = function("f", "i64 i64[4]", lambda i, at: ops.While((i,), (at,), until, step).results)
    module = batched(fn, (0, None), L)
    assert module.run("b", np.array([0, 3, 9]), np.array([2, 5, 3, 6]))[0].tolist() == [6, 6, 9]


def either(then: Callable[..., Value], other: Callable[..., Value]) -> Function:
    """``then`` where ``i < 5``, else ``other``, of a table of unknown length."""
    types = "f64[N] i64"
    branches = region(types, then), region(types, other)

    def body(x: Value, i: Value) -> Value:
        return ops.Cond(ops.Less(i, number(5)), (x, i), *branches).results[0]

    return function("f", types, body)


def test_an_axis_that_may_be_empty_is_read_only_if_a_lane_comes_there() -> None:
    read = either(lambda x, i: ops.Gather(x, i, 0), lambda x, i: number(7.0))
    written = either(lambda x, i: ops.ScatterAdd(x, i, number(1.0), 0), lambda x, i: x)
    for axes in ((None, 0), (0, 0)):
        reading, writing = (batched(fn, axes, L) for fn in (read, written))
        x = np.arange(6.0).reshape(2, 3) if axes[0] == 0 else np.arange(3.0)
        rows = np.broadcast_to(x, (2, 3))
        assert reading.run("b", x, np.array([9, 2]))[0].tolist() == [7.0, rows[1, 2]]
        assert reading.run("b", x[..., :0], np.array([9, 8]))[0].tolist() == [7.0, 7.0]
        added = rows + np.array([[0, 0, 0], [0, 0, 1.0]])
        assert writing.run("b", x, np.array([9, 2]))[0].tolist() == added.tolist()
        for module in (reading, writing):
            for table, i in ((x, [9, -4]), (x[..., :0], [9, 0])):
                with pytest.raises(IndexOutOfRange):
                    module.run("b", table, np.array(i))


def halved() -> tuple[Function, Function]:
    """``x`` halved until it is below 1, where ``x > 0``; elsewhere that would take long."""
    until = region("f64", lambda x: ops.LessEqual(number(1.0), x * x))
    step = region("f64", lambda x: (x * 0.5,))
    loop = region("f64", lambda x: ops.While((x,), (), until, step).results[0])
    scan = region("f64", lambda x: ops.Call((x,), FunctionRef("g"), (x.type,)).results)
    taken = region("f64", lambda x: ops.Scan((x,), (), (), scan, 2).results[0])
    again = region("f64", lambda x: ops.Checkpoint((x,), taken).results)
    other = region("f64", lambda x: x)
    return function(
        "f", "f64", lambda x: ops.Cond(positive(x), (x,), again, other).results
    ), function("g", "f64", lambda x: ops.Cond(positive(x), (x,), loop, loop).results)


def positive(x: Value) -> Value:
    return ops.Less(number(0.0), x)


def test_a_lane_that_is_elsewhere_makes_no_trip() -> None:
    f, g = halved()
    d = Declaration("adjoint", "d", "f", (0,), seeded=True)
    entries = (
        f,
        g,
        d,
        *(
            Declaration("batched", "b" + of, of, axes=(0,) * n, size=L)
            for of, n in (("f", 1), ("d", 2))
        ),
    )
    module = checked(*entries)
    x, y = np.array([5.0, -1e300, 0.25]), np.array([5.0, 0.0, 0.25])
    assert module.run("bf", x)[0].tolist() == [0.625, -1e300, 0.25]
    assert module.run("bd", x, np.ones(3))[0].tolist() == [0.125, 1.0, 1.0]
    for of, *seeds in (("bf",), ("bd", np.ones(3))):
        assert work(module, of, x, *seeds) == work(module, of, y, *seeds)


def test_a_condition_may_look_something_up() -> None:
    until = region("i64 f64[N]", lambda i, x: ops.Less(ops.Gather(x, i, 0), number(2.0)))
    step = region("i64 f64[N]", lambda i, x: (i + 1,))

    def loop(x: Value, i: Value) -> Value:
        return ops.While((i,), (x,), until, step).results[0]

    plain = function("f", "f64[N] i64", loop)
    x = np.arange(4.0)
    assert batched(plain, (None, 0), L).run("b", x, np.array([0, 3]))[0].tolist() == [2, 3]
    guarded = either(loop, lambda x, i: i)
    module = batched(guarded, (None, 0), L)
    assert module.run("b", x, np.array([0, 9]))[0].tolist() == [2, 9]
    assert module.run("b", x[:0], np.array([9, 9]))[0].tolist() == [9, 9]
    with pytest.raises(IndexOutOfRange):
        module.run("b", x[:2], np.array([0, 9]))


def test_every_leaf_says_how_it_is_batched() -> None:
    for name, cls in OPS.items():
        operands = any(spec.kind.startswith("operand") for spec in cls.layout)
        ruled = any(base in BATCHED for base in cls.__mro__) or cls.stage  # behind all batches
        assert ruled or not operands or cls.batched is not Op.batched, name


HANDED = """dlvm 1
func @main(%x: f64[3]) -> f64[3] {
  %0 = constant value=0 : i64
  %1, %2, %3 = call [%0, %x, %x] callee=@loop : i64, f64[3], f64[3]
  return %3
}
func @step(%x: f64[3]) -> f64[3] {
  %0 = tanh %x : f64[3]
  %1 = exp %0 : f64[3]
  return %1
}
func @loop(%n: i64, %x: f64[3], %y: f64[3]) -> (i64, f64[3], f64[3]) {
  %0, %1, %2 = while [%n, %x, %y], [] : i64, f64[3], f64[3]
    condition(%n: i64, %x: f64[3], %y: f64[3]) -> bool {
      %0 = constant value=2 : i64
      %1 = less %n, %0 : bool
      return %1
    }
    body(%n: i64, %x: f64[3], %y: f64[3]) -> (i64, f64[3], f64[3]) {
      %0 = call [%y] callee=@step : f64[3]
      %1 = constant value=1 : i64
      %2 = add %n, %1 : i64
      return %2, %0, %0
    }
  return %0, %1, %2
}
adjoint @d of @main wrt (0) keep (0) seeded
batched @b of @d axes (none, 0) size Lanes
"""


def test_a_callee_that_is_handed_nothing_but_a_tape_knows_how_many_lanes_there_are() -> None:
    full = expand(parse(HANDED)).verify()
    x, seeds = np.arange(3.0), np.arange(6.0).reshape(2, 3)
    found = full.run("b", x, seeds)
    for lane, seed in enumerate(seeds):
        for a, b in zip(found, full.run("d", x, seed), strict=True):
            np.testing.assert_allclose(a[lane], b)
