"""Programs of 10^5 operations pass through every pass: nothing recurses over length."""

from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any

from dlvm.ir import Function, Module, Value
from dlvm.ops import Broadcast, Matmul, Neg, Reshape, Scan, Sum, Tanh
from dlvm.opt import DEFAULT, drop, simplify
from dlvm.passes import Pass, run

from .building import function, region

MANY = 100_000 if os.environ.get("HYPOTHESIS_PROFILE") == "long" else 20_000
"""Operations, far more than Python's stack has frames."""


def elementwise(n: int) -> Module:
    def body(x: Value) -> Value:
        for _ in range(n // 5):
            x = Tanh(x * 1.5) + x
        return x

    return function(body, "f32[B]")


def cancelling(n: int) -> Module:
    """Half of it undoes the other half."""

    def body(x: Value) -> Value:
        for _ in range(n):
            x = Neg(x)
        return x

    return function(body, "f32[B]")


def test_many_operations_become_kernels():
    module = run(elementwise(MANY), dict.fromkeys(DEFAULT))
    assert len(module.main.ops) == 0.6 * MANY / 200


def test_many_operations_cancel():
    assert run(cancelling(MANY), [simplify, drop]).main.ops == ()


def mixed(n: int) -> Module:
    """Small products, reductions and aliases, which don't become one kernel."""

    def body(x: Value, w: Value) -> Value:
        for _ in range(n // 6):
            y = Reshape(Matmul(Reshape(x, (1, 8)), w), (8,)) + x
            x = Sum(Broadcast(y, (2, 8), (1,)), (0,))
        return x

    return function(body, "f32[8]", "f32[8,8]")


def calls(step: Pass, module: Module) -> tuple[Module, int]:
    """What a pass makes, and how many functions of Python's and of C's it calls on the way."""
    count = 0

    def met(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(met)
    try:
        return step.run(module), count
    finally:
        sys.setprofile(None)


def test_work_grows_with_length_not_with_its_square():
    small, large = mixed(600), mixed(4_800)
    for step in dict.fromkeys(DEFAULT):
        (small, few), (large, many) = calls(step, small), calls(step, large)
        assert many < 12 * few + 1000, f"{step.name}: {few} calls, {many} for 8 times the program"


def test_regions_may_nest_deeply():
    inner: Function = region(lambda h, w: h * w + 1.0, "f32", "f32")
    for _ in range(50):
        held = inner
        inner = region(lambda h, w, r=held: Scan((h,), (), (w,), r, 2).results[0], "f32", "f32")
    module = Module((Function("main", inner.params, inner.ops, inner.results),))
    depth, fn = 0, run(module, DEFAULT, verify=True).main
    while any(op.name == "scan" for op in fn.ops):
        fn, depth = fn.ops[-1].body, depth + 1
    assert depth == 50
