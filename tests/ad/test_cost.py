"""What a derivative costs: residuals, operations, writes, and the depth of Python's stack."""

from __future__ import annotations

import os

import numpy as np

from dlvm import ops
from dlvm.ad import expand
from dlvm.ir import Declaration, Function, FunctionRef, Module, Value
from dlvm.ir.sizes.dims import symbol

from .building import checked, function
from .controls import updates
from .counting import work

MANY = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 20_000
"""Operations, far more than Python's stack has frames."""

N, T = symbol("N"), symbol("T")
RNG = np.random.default_rng


def test_updates_of_a_carried_array_and_their_gradient_cost_the_array_once() -> None:
    f = updates()
    module = checked(f, Declaration("adjoint", "d", "f", (0, 2), seeded=True))
    found: dict[tuple[int, int], int] = {}
    for n, trips in ((100, 10), (1100, 10), (100, 60)):
        at = RNG(0).integers(0, n, trips)
        args = [RNG(1).normal(size=n), at, RNG(2).normal(size=n)]
        seeds = [RNG(3).normal(size=n), RNG(4).normal(size=trips)]
        found[n, trips] = work(module, "d", *args, *seeds)["writes"]
    per_element = (found[1100, 10] - found[100, 10]) / 1000
    per_trip = (found[100, 60] - found[100, 10]) / 50
    assert per_element <= 2 and per_trip <= 60, found


def test_the_gradient_of_assigned_elements_costs_as_many() -> None:
    """Equal indices among them: the array itself is neither copied nor searched."""

    def body(x: Value, i: Value, u: Value) -> Value:
        return ops.ScatterSet(x, i, u, 0)

    d = Declaration("adjoint", "d", "f", (0, 2), seeded=True)
    module = checked(function("f", "f64[N] i64[M] f64[M]", body), d)
    i, u = np.array([3, 5, 3]), RNG(0).normal(size=3)
    counts = [work(module, "d", *(np.ones(n), i, u, np.ones(n)))["writes"] for n in (10, 1010)]
    assert counts[0] == counts[1] <= 9, counts


def test_no_residual_of_the_carried_arrays_size_is_kept() -> None:
    module = checked(updates(), Declaration("adjoint", "d", "f", (0, 2), seeded=True))
    forward = next(op for op in module.function("d").ops if isinstance(op, ops.Scan))
    stacked = [str(p) for p in forward.result_types[len(forward.init) :]]
    assert stacked and "f64[T,N]" not in stacked, stacked


def chain(depth: int) -> tuple[Function, ...]:
    """``f0`` calls ``f1`` calls ... ; each does a little of its own."""
    out: list[Function] = []
    for k in range(depth):

        def body(x: Value, k: int = k) -> Value:
            y = ops.Tanh(x * x + x)
            return y if k + 1 == depth else call(k + 1, y) * y

        out.append(function(f"f{k}", "f64[N]", body))
    return tuple(out)


def call(k: int, x: Value) -> Value:
    return ops.Call((x,), FunctionRef(f"f{k}"), (x.type,)).results[0]


def test_a_chain_of_calls_is_never_run_again() -> None:
    module = checked(*chain(50), Declaration("adjoint", "d", "f0", (0,), seeded=True))
    x, dy = RNG(0).normal(size=7), RNG(1).normal(size=7)
    ratio = work(module, "d", x, dy)["flops"] / work(module, "f0", x)["flops"]
    assert ratio <= 5, ratio


def test_loops_nested_fifty_deep_are_never_run_again() -> None:
    body = function("body", "f64 f64", lambda c, w: (ops.Tanh(c * w),))
    for _ in range(49):

        def trip(c: Value, w: Value, inner: Function = body) -> tuple[Value, ...]:
            return ops.Scan((ops.Tanh(c * w),), (), (w,), inner, 1).results

        body = function("body", "f64 f64", trip)
    f = function("f", "f64 f64", lambda c, w: ops.Scan((c,), (), (w,), body, 1).results)
    module = checked(f, Declaration("adjoint", "d", "f", (0, 1), seeded=True))
    args = (np.array(0.9), np.array(1.1))
    ratio = work(module, "d", *args, np.array(1.0))["flops"] / work(module, "f", *args)["flops"]
    assert ratio <= 5, ratio


def test_static_windows_of_one_array_are_added_in_place() -> None:
    def body(x: Value) -> Value:
        parts = [ops.Slice(x, (i,), (2,), (1,)) for i in range(0, 98, 2)]
        return ops.Sum(sum((p * p for p in parts[1:]), parts[0]), (0,))

    module = checked(function("f", "f64[100]", body), Declaration("adjoint", "d", "f", (0,)))
    assert work(module, "d", np.ones(100))["writes"] < 1000


def test_many_operations_differentiate_without_recursion() -> None:
    def body(x: Value) -> Value:
        for i in range(MANY):
            x = x * x if i % 2 else ops.Tanh(x)
        return x

    fn = function("f", "f64", body)
    full = expand(Module((fn, Declaration("adjoint", "d", "f", (0,)))))
    ops_of_d = full.function("d").ops
    assert len(ops_of_d) > 2 * MANY
    made = {r: i for i, op in enumerate(ops_of_d) for r in op.results}
    assert all(made.get(v, -1) < i for i, op in enumerate(ops_of_d) for v in op.operands)
