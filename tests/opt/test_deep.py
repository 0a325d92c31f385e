"""Programs of 10^5 operations pass through every pass: nothing recurses over length."""

from __future__ import annotations

import time

from dlvm.ir import Function, Module, Value
from dlvm.ops import Broadcast, Matmul, Neg, Reshape, Scan, Sum, Tanh
from dlvm.opt import DEFAULT, drop, simplify
from dlvm.passes import Pass, run

from .building import function, region


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


def test_a_hundred_thousand_operations_become_kernels():
    module = run(elementwise(100_000), dict.fromkeys(DEFAULT))
    assert len(module.main.ops) == 60_000 / 200


def test_a_hundred_thousand_operations_cancel():
    assert run(cancelling(100_000), [simplify, drop]).main.ops == ()


def mixed(n: int) -> Module:
    """Small products, reductions and aliases, which don't become one kernel."""

    def body(x: Value, w: Value) -> Value:
        for _ in range(n // 6):
            y = Reshape(Matmul(Reshape(x, (1, 8)), w), (8,)) + x
            x = Sum(Broadcast(y, (2, 8), (1,)), (0,))
        return x

    return function(body, "f32[8]", "f32[8,8]")


def seconds(step: Pass, module: Module) -> float:
    start = time.process_time()
    step.run(module)
    return time.process_time() - start


def test_time_grows_with_length_not_with_its_square():
    small, large = mixed(1_000), mixed(8_000)
    for step in dict.fromkeys(DEFAULT):
        ratio = (seconds(step, large) + 0.02) / (seconds(step, small) + 0.02)
        assert ratio < 30, f"{step.name}: 8 times the program took {ratio:.0f} times as long"
        small, large = step.run(small), step.run(large)


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
