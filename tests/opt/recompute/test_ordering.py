"""The order of operations: little memory alive, nothing recomputed too early, effects in order."""

from __future__ import annotations

from hypothesis import given, settings

from dlvm.ir import Function, Value
from dlvm.ops import Exp, Gather, Kernel, Print, Recompute, Scan, ScatterAdd, Sum, Tanh
from dlvm.opt import DEFAULT, fuse, open_recompute, order
from dlvm.opt.recompute.ordering import donations, peak
from dlvm.passes import run
from dlvm.testing.drawing.random_programs import EVERY, Program
from dlvm.testing.strategies import programs
from tests.opt.building import function, region

KERNELS = [fuse, open_recompute, order]


def alive(fn: Function) -> int:
    return peak(fn, fn.ops, donations(fn).values())


def test_large_values_are_made_when_they_are_read():
    def body(x: Value) -> tuple[Value, ...]:
        large = [Exp(x * float(i)) for i in range(1, 5)]
        return tuple(Sum(Tanh(v), (0,)) for v in reversed(large))

    module = function(body, "f32[1024]")
    assert alive(order.run(module).main) < 2 * 4096 + 4 * 4 + 4096 < alive(module.main)


@settings(max_examples=60)
@given(programs(EVERY, max_ops=25))
def test_an_order_is_never_worse_than_the_old_one(program: Program):
    before = program.module.main
    after = order.run(program.module).main
    assert alive(after) <= alive(before)
    assert len(after.ops) == len(before.ops)


def test_effects_keep_their_order():
    def body(x: Value) -> Value:
        for i in range(4):
            Print(Exp(x * float(i)), f"{i}")
        return Sum(x, (0,))

    main = run(function(body, "f32[64]"), DEFAULT, verify=True).main
    assert [op.label for op in main.ops if isinstance(op, Print)] == ["0", "1", "2", "3"]


def recomputed(x: Value, w: Value) -> Value:
    """What a checkpoint's gradient looks like: forward, a long way, then forward again."""
    again = region(lambda x: Tanh(Exp(x)), "f32[1024]")
    top = Sum(Tanh(Exp(x)) * w, (0,))
    for _ in range(3):
        top = Tanh(top)
    return Recompute((x,), (top,), again).results[0] * w


def test_what_is_recomputed_waits_for_its_trigger():
    module = function(recomputed, "f32[1024]", "f32[1024]")
    fn = run(module, KERNELS, verify=True).main
    assert "recompute" not in [op.name for op in fn.ops]
    maker = next(op for op in fn.ops if set(op.results) & set(fn.ops[-1].operands))
    assert fn.ops.index(maker) == len(fn.ops) - 2
    assert alive(fn) <= 2 * 4096 + 4


def test_what_is_recomputed_needs_no_trigger_where_one_kernel_keeps_nothing():
    main = run(function(recomputed, "f32[1024]", "f32[1024]"), DEFAULT, verify=True).main
    assert [op.name for op in main.ops] == ["kernel"]
    assert alive(main) <= 4096


def test_a_donated_target_is_overwritten_last():
    def body(x: Value, i: Value, u: Value) -> tuple[Value, ...]:
        new = ScatterAdd(x, i, u, 0)
        return new, Sum(x, (0,))

    module = function(body, "f32[64]", "i64[3]", "f32[3]")
    module.main.params[0].donated = True
    main = run(module, DEFAULT, verify=True).main
    assert [op.family for op in main.ops] == ["loops", "scatter"]


def test_a_carried_target_is_overwritten_last():
    def step(c: Value, i: Value, u: Value) -> tuple[Value, Value]:
        return ScatterAdd(c, i, u, 0), Sum(c, (0,))

    def loop(c: Value, i: Value, u: Value) -> tuple[Value, ...]:
        body = region(step, "f32[64]", "i64[3]", "f32[3]")
        return Scan((c,), (i, u), (), body, 9).results

    (scan,) = run(function(loop, "f32[64]", "i64[9,3]", "f32[9,3]"), DEFAULT, verify=True).main.ops
    assert [op.family for op in scan.body.ops] == ["loops", "scatter"]


def test_bodies_of_loops_are_ordered_too():
    def step(c: Value, x: Value) -> tuple[Value, Value]:
        large = [Exp(x * float(i)) for i in range(1, 5)]
        sums = [Sum(Tanh(v), (0,)) for v in reversed(large)]
        return c + sums[0] * sums[1], sums[2] + sums[3]

    def loop(c: Value, x: Value) -> tuple[Value, ...]:
        return Scan((c,), (x,), (), region(step, "f32", "f32[1024]"), 9).results

    module = function(loop, "f32", "f32[9,1024]")
    assert alive(order.run(module).main) < alive(module.main) - 2 * 4096


def test_a_scatter_comes_after_what_else_reads_its_target():
    def body(x: Value, i: Value, u: Value) -> tuple[Value, ...]:
        written = ScatterAdd(x, i, u, 0)
        return written, Gather(x, i, 0) * u  # both may raise, and no effect stands between

    ops = order.run(fuse.run(function(body, "f32[64]", "i64[2]", "f32[2]"))).main.ops
    assert [op.family for op in ops if isinstance(op, Kernel)] == ["loops", "scatter"]


def test_a_reader_that_may_raise_does_not_pass_an_effect():
    def body(x: Value, i: Value, u: Value) -> tuple[Value, ...]:
        written = ScatterAdd(x, i, u, 0)
        Print(u, "between")
        return written, Gather(x, i, 0) * u

    ops = order.run(fuse.run(function(body, "f32[64]", "i64[2]", "f32[2]"))).main.ops
    kinds = [op.family if isinstance(op, Kernel) else op.name for op in ops]
    assert kinds == ["scatter", "print", "loops"]
