"""What a control operation states on its class is all that passes, the verifier and code need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest

from dlvm.ad.activity import Activity
from dlvm.base.errors import DlvmError, IRError
from dlvm.gen.build import build
from dlvm.ir import OPS, Dim, Function, Module, Value, splat
from dlvm.ir.dataflow import Dataflow, Runs
from dlvm.ops import (
    Add,
    Checkpoint,
    Cond,
    Kernel,
    Less,
    Maximum,
    Recompute,
    Scan,
    Structured,
    Tanh,
    While,
)
from dlvm.opt import DEFAULT, drop, hoist, inline_calls, propagate, select_branches, share
from dlvm.passes import run
from tests.opt.building import function, region

X = np.array([0.5, -1.25, 2.0], np.float32)
ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


def compiled(module: Module, *arrays: Any) -> Sequence[Any]:
    return build(run(module, DEFAULT, verify=True)).run(list(arrays))


# -- the operations of the package, against plain Python -------------------------------------------


def grow() -> Function:
    return region(lambda n, x, c: (n + 1, x * c), "i64", "f32[3]", "f32[3]")


def loop(n: Value, x: Value, c: Value) -> Sequence[Value]:
    limit = region(lambda n, x, c: Less(n, splat(3, n.type)), "i64", "f32[3]", "f32[3]")
    return While((n, x), (c,), limit, grow()).results


def powers(start: int) -> tuple[Any, ...]:
    x, n = X, start
    while n < 3:
        x, n = x * X, n + 1
    return np.int64(n), x


def scanned(reverse: bool) -> tuple[Any, ...]:
    total, seen = X, np.zeros((4, 3), np.float32)
    for i in reversed(range(4)) if reverse else range(4):
        total = total * X + ROWS[i]
        seen[i] = total + ROWS[i]
    return total, seen


def scan(reverse: bool) -> Any:
    def body(total: Value, row: Value, c: Value) -> tuple[Value, Value]:
        total = total * c + row
        return total, total + row

    inside = region(body, "f32[3]", "f32[3]", "f32[3]")
    return lambda x, rows: Scan((x,), (rows,), (x,), inside, 4, reverse).results


def side(scale: float) -> Function:
    return region(lambda x: x * scale, "f32[3]")


def once(x: Value) -> Sequence[Value]:
    again = Checkpoint((x,), side(2)).results[0]
    again = Recompute((again,), (x,), side(3)).results[0]
    return Kernel((again,), side(5), "loops").results


CASES: dict[str, tuple[Any, tuple[str, ...], tuple[Any, ...], tuple[Any, ...]]] = {
    f"cond {flag}": (
        lambda c, x: Cond(c, (x,), side(2), side(3)).results,
        ("bool", "f32[3]"),
        (np.bool_(flag), X),
        (X * np.float32(2 if flag else 3),),
    )
    for flag in (True, False)
}
CASES |= {
    f"while from {n}": (loop, ("i64", "f32[3]", "f32[3]"), (np.int64(n), X, X), powers(n))
    for n in (0, 2, 7)
}
CASES |= {
    f"scan {reverse}": (scan(reverse), ("f32[3]", "f32[4,3]"), (X, ROWS), scanned(reverse))
    for reverse in (True, False)
}
CASES["once"] = (once, ("f32[3]",), (X,), (X * 2 * 3 * 5,))


@pytest.mark.parametrize("case", CASES)
def test_the_meaning_that_follows_from_the_dataflow_is_that_of_plain_loops(case: str):
    made, types, arrays, expected = CASES[case]
    module = function(made, *types)
    for found, right in zip(module.run("main", *arrays), expected, strict=True):
        np.testing.assert_array_equal(found, right)
    for found, right in zip(compiled(module, *arrays), expected, strict=True):
        np.testing.assert_array_equal(found, right)


def test_every_operation_that_states_its_dataflow_is_tried():
    tried = {
        type(op) for made, types, *_ in CASES.values() for op in function(made, *types).main.ops
    }
    assert {c for c in OPS.values() if c.dataflow is not None} <= tried


# -- operations from outside the package -----------------------------------------------------------


@pytest.fixture
def outside() -> Iterator[dict[str, type[Any]]]:
    known = set(OPS)

    class Walk(Structured):
        """Steps over rows, with a sum and a largest element carried in two fields."""

        name = "walk"
        dataflow = Dataflow(
            bodies=("step",),
            runs=Runs.COUNTED,
            carried=("sums", "largest"),
            sliced=("rows",),
            captured="weights",
            length="steps",
            backward="upward",
        )
        sums: tuple[Value, ...]
        largest: Value
        rows: tuple[Value, ...]
        weights: tuple[Value, ...]
        step: Function
        steps: Dim
        upward: bool = False

    class Unless(Structured):
        """The second of two bodies where a bool holds, whose names are its own."""

        name = "unless"
        dataflow = Dataflow(
            bodies=("yes", "no"), runs=Runs.CHOICE, steers=("flag",), captured="given"
        )
        flag: Value
        given: tuple[Value, ...]
        no: Function
        yes: Function

    class Grow(Structured):
        """Again while the bound holds; what grows stands before what bounds it."""

        name = "grow"
        dataflow = Dataflow(
            bodies=("more",), runs=Runs.WHILE, carried=("seed",), captured="bounds", test="under"
        )
        seed: Value
        bounds: tuple[Value, ...]
        under: Function
        more: Function

    yield {"walk": Walk, "unless": Unless, "grow": Grow}
    for name in set(OPS) - known:
        del OPS[name]


def step(total: Value, still: Value, dead: Value, most: Value, row: Value, *given: Value) -> Any:
    weight, same, _ = given
    every = Tanh(weight) * Tanh(same) + splat(1, weight.type)
    new = total * every + row
    return new, still, dead + row, Maximum(most, new), new * most, new * most


def walked(op: type[Any], upward: bool) -> Module:
    t = "f32[3]"

    def main(x: Value, rows: Value, weight: Value) -> tuple[Value, ...]:
        inside = region(step, *(t,) * 8)
        loops = [
            op((x, x, x), weight, (rows,), (weight, weight, rows_sum), inside, 4, upward).results
            for rows_sum in (weight, weight)
        ]
        first, second = loops
        return Add(first[0], second[0]), first[1], first[3], Add(first[4], second[5])

    return function(main, t, "f32[4,3]", t)


def walk(upward: bool, x: Any, rows: Any, weight: Any) -> tuple[Any, ...]:
    total, most, stacked = x, weight, np.zeros_like(rows)
    every = np.tanh(weight) * np.tanh(weight) + np.float32(1)
    for i in reversed(range(4)) if upward else range(4):
        total = total * every + rows[i]
        stacked[i] = total * most
        most = np.maximum(most, total)
    return total + total, x, most, stacked + stacked


@pytest.mark.parametrize("upward", [False, True])
def test_a_new_loop_goes_through_every_pass_and_runs(outside: Any, upward: bool):
    module = walked(outside["walk"], upward)
    arrays = (X, ROWS, X + 1)
    expected = walk(upward, *arrays)
    for passes in ((), (share,), (propagate,), (hoist,), (drop,), (inline_calls,), DEFAULT):
        for found, right in zip(
            run(module, passes, verify=True).run("main", *arrays), expected, strict=True
        ):
            np.testing.assert_allclose(found, right, rtol=1e-5)
    for found, right in zip(compiled(module, *arrays), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5)


def test_a_new_loop_loses_what_is_needless_shared_or_the_same_each_trip(outside: Any):
    best = run(walked(outside["walk"], False), (share, propagate, hoist, share, drop), verify=True)
    (op,) = [op for op in best.main.ops if op.name == "walk"]  # two equal ones are shared
    assert isinstance(op, Structured)
    assert op.carries == 2  # neither what never changes nor what only feeds itself is carried
    assert len(op.results) == 3  # of two equal stacks one is left
    (body,) = op.giving
    assert "tanh" not in [inner.name for inner in body.ops]
    assert len(body.params) == len(op.operands) == 4  # the two, a row, and what was hoisted


@pytest.mark.parametrize("flag", [True, False])
def test_a_new_branch_becomes_its_side_or_selects(outside: Any, flag: bool):
    def main(c: Value, x: Value) -> Sequence[Value]:
        known = outside["unless"](splat(flag, c.type), (x,), side(2), side(3)).results[0]
        return outside["unless"](c, (known,), side(5), side(7)).results

    module = function(main, "bool", "f32[3]")
    expected = X * np.float32(3 if flag else 2) * np.float32(7 if flag else 5)
    np.testing.assert_array_equal(module.run("main", np.bool_(flag), X)[0], expected)
    np.testing.assert_array_equal(compiled(module, np.bool_(flag), X)[0], expected)
    best = run(module, (propagate, select_branches), verify=True).main
    assert "unless" not in {op.name for op in best.ops}
    assert "select" in {op.name for op in best.ops}


def test_a_new_loop_without_a_count_is_hoisted_from_and_never_speculated(outside: Any):
    def main(x: Value, bound: Value) -> Sequence[Value]:
        under = region(lambda x, b: Less(x, Tanh(b) * 100.0), "f32", "f32")
        more = region(lambda x, b: x * (Tanh(b) + 2.0), "f32", "f32")
        return outside["grow"](x, (bound,), under, more).results

    module = function(main, "f32", "f32")
    best = run(module, (hoist,), verify=True)
    assert [op.name for op in best.main.ops].count("tanh") == 1
    x, factor = np.float32(1), np.tanh(np.float32(1)) + np.float32(2)
    while x < np.tanh(np.float32(1)) * 100:
        x = x * factor
    for found in (
        best.run("main", np.float32(1), np.float32(1)),
        compiled(module, np.float32(1), np.float32(1)),
    ):
        np.testing.assert_allclose(found[0], x, rtol=1e-5)


def test_activity_follows_the_carried_values_of_a_new_loop(outside: Any):
    module = walked(outside["walk"], False)
    main = module.main
    found = Activity(module.function).varied(main, (False, True, False))
    loops = [op for op in main.ops if op.name == "walk"]
    varied = [[r in found for r in op.results] for op in loops]
    assert varied == [[True, False, True, True, True, True]] * 2


# -- what cannot be stated -------------------------------------------------------------------------

numbers = count()
WRONG: dict[str, dict[str, Any]] = {
    "two bodies for a loop": {"bodies": ("body", "other")},
    "no length": {"length": ""},
    "a test in a counted loop": {"test": "other", "bodies": ("body",)},
    "slices before what is carried": {"carried": ("xs",), "sliced": ("init",)},
    "captured in the middle": {"captured": "xs", "sliced": ()},
    "nothing captured": {"captured": ""},
    "a choice by nothing": {"runs": Runs.CHOICE},
    "carried once": {"runs": Runs.ONCE, "length": "", "sliced": ()},
}


@pytest.mark.parametrize("problem", WRONG)
def test_a_dataflow_that_contradicts_the_fields_is_refused(problem: str):
    right: dict[str, Any] = {
        "runs": Runs.COUNTED,
        "carried": ("init",),
        "sliced": ("xs",),
        "captured": "captured",
        "length": "length",
    }
    fields: dict[str, Any] = {
        "init": tuple[Value, ...],
        "xs": tuple[Value, ...],
        "captured": tuple[Value, ...],
        "body": Function,
        **({"other": Function} if "other" in str(WRONG[problem]) else {}),
        "length": Dim,
    }
    stated = Dataflow(**(right | WRONG[problem]))
    name = f"misstated{next(numbers)}"
    made = {"name": name, "dataflow": stated, "__annotations__": fields, "__doc__": "Wrong."}
    with pytest.raises(IRError, match=f"the dataflow of {name}: expected"):
        type("Misstated", (Structured,), {**made, "__module__": __name__})
    assert name not in OPS


def test_a_body_that_does_not_fit_what_is_stated_is_refused(outside: Any):
    def bad(made: Any, *types: str) -> str:
        with pytest.raises(DlvmError) as found:
            function(made, *types)
        return str(found.value)

    t, rows = "f32[3]", "f32[4,3]"
    short = region(lambda x, row, w: (x,), t, t, t)
    walk_of = outside["walk"]
    assert "walk: step must have parameters" in bad(
        lambda x, r: walk_of((x,), x, (r,), (x,), short, 4).results, t, rows
    )
    wide = region(lambda x, m, row, w: (row, m), t, t, t, t)
    assert "expected 5 slices" in bad(
        lambda x, r: walk_of((x,), x, (r,), (x,), wide, 5).results, t, rows
    )
    assert "expected a scalar bool" in bad(
        lambda x: outside["unless"](x, (x,), side(2), side(3)).results, t
    )
