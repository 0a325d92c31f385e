"""What becomes one kernel, and what must not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from dlvm.ir import F32, Function, Module, TensorType, Value, parse, splat
from dlvm.ir.sizes import dims
from dlvm.ops import (
    ArgMax,
    Broadcast,
    Cast,
    DimSize,
    Exp,
    Gather,
    Kernel,
    Log,
    LogSumExp,
    Matmul,
    Max,
    Permute,
    Print,
    Scan,
    ScatterAdd,
    Slice,
    Sqrt,
    Sum,
    Tanh,
    Update,
    overwriter,
    spread,
    transposed,
    updates_in_order,
    written_over,
)
from dlvm.ops.families import Creation, Elementwise, Movement, Reduction, Running
from dlvm.opt import DEFAULT
from dlvm.passes import run
from dlvm.testing.drawing.random_programs import EVERY, Program
from dlvm.testing.strategies import programs
from tests.opt.answers import families, kernels
from tests.opt.building import function, region

B = dims.symbol("B")


def fused(module: Module) -> Function:
    return run(module, DEFAULT, verify=True).main


def rows(x: Value, like: Value) -> Value:
    return spread(x, like.type, (like.type.rank - 1,))


def softmax(x: Value) -> Value:
    e = Exp(x - rows(Max(x, (1,)), x))
    return e / rows(Sum(e, (1,)), x)


def test_softmax_is_one_kernel_of_two_passes():
    (kernel,) = fused(function(softmax, "f32[B,10]")).ops
    assert isinstance(kernel, Kernel) and kernel.tree == (4096, 32)
    reductions = [op.name for op in kernel.body.ops if isinstance(op, Reduction)]
    assert reductions == ["max", "sum"]


def test_a_softmax_by_logsumexp_has_one_exponential():
    def body(x: Value) -> tuple[Value, ...]:
        norm = LogSumExp(x, (0,))
        return Exp(x - spread(norm, x.type, (0,))), norm

    (kernel,) = fused(function(body, "f64[4,B]")).ops
    assert [op.name for op in kernel.body.ops if isinstance(op, Reduction)] == ["max", "sum"]
    assert [op.name for op in kernel.body.ops].count("exp") == 1
    assert kernel.tree == (4096, 1)


def test_bias_and_tanh_are_the_epilogue_of_a_product():
    def layer(x: Value, w: Value, b: Value) -> Value:
        y = Matmul(x, w)
        return Tanh(y + Broadcast(b, y.shape, (1,)))

    assert families(fused(function(layer, "f32[B,8]", "f32[8,4]", "f32[4]"))) == ["product"]


def test_products_read_through_transpositions():
    def body(x: Value, y: Value) -> Value:
        return Matmul(transposed(x), transposed(y))

    (kernel,) = fused(function(body, "f32[2,8,B]", "f32[2,4,8]")).ops
    assert kernel.family == "product"
    assert [p.type.shape for p in kernel.body.params] == [(2, 8, B), (2, 4, 8)]


def test_heads_and_slices_are_read_by_a_product_where_they_lie():
    """Rows or columns whose elements are neighbours in memory need no copy."""

    def heads(x: Value) -> Value:
        return Permute(Slice(x, (0, 1, 2), (8, 2, B), (1, 1, 1)), (1, 0, 2))

    def body(x: Value, y: Value) -> Value:
        return Matmul(heads(x), transposed(heads(y)))

    assert families(fused(function(body, "f32[8,5,9+B]", "f32[8,5,9+B]"))) == ["product"]


@pytest.mark.parametrize("perm", [(2, 1, 0), (1, 2, 0)])
def test_a_permutation_that_scatters_rows_is_written_before_a_product(perm):
    """Of (2, 1, 0) the last axis of x is a batch axis; (1, 2, 0) is a transposed matrix."""

    def body(x: Value, y: Value) -> Value:
        return Matmul(Permute(x, perm), y)

    y = "f32[B,8,4]" if perm == (2, 1, 0) else "f32[2,8,4]"
    expected = ["loops", "product"] if perm == (2, 1, 0) else ["product"]
    assert families(fused(function(body, "f32[8,2,B]", y))) == expected


def layer_norm(x: Value, r: Value, g: Value, b: Value) -> Value:
    y = x + r
    n = Cast(DimSize(y.shape[1]), F32)
    count = Broadcast(n, (y.shape[0],), ())
    d = y - rows(Sum(y, (1,)) / count, y)
    scale = 1.0 / Sqrt(Sum(d * d, (1,)) / count + 1e-5)
    return d * rows(scale, y) * Broadcast(g, y.shape, (1,)) + Broadcast(b, y.shape, (1,))


def test_layer_norm_with_residual_is_one_kernel():
    types = ("f32[B,16]", "f32[B,16]", "f32[16]", "f32[16]")
    assert families(fused(function(layer_norm, *types))) == ["loops"]


def test_reductions_along_other_axes_are_other_kernels():
    def body(x: Value) -> tuple[Value, ...]:
        e = Exp(x)
        return Sum(e, (1,)), Sum(e, (0,)), ArgMax(e, (1,))

    first, second = kernels(fused(function(body, "f32[B,8]")))
    assert [op.name for op in first.body.ops] == ["exp", "sum", "argmax"]
    assert first.tree == (4096, 32) and second.tree == (4096, 1)


def test_a_value_read_at_other_places_is_written_first():
    def body(x: Value) -> Value:
        e = Exp(x)
        return e + Permute(e, (1, 0))

    assert families(fused(function(body, "f32[8,8]"))) == ["loops", "loops"]


def test_movements_are_read_through_by_each_reader():
    def body(x: Value) -> tuple[Value, ...]:
        part = Slice(Permute(x, (1, 0)), (1, 0), (2, B), (1, 1))
        return Exp(part), Sum(part, (1,))

    main = fused(function(body, "f32[B,4]"))
    assert all(isinstance(op, Kernel) and op.xs == main.params for op in main.ops)


def test_zeros_of_each_scatter_are_its_own():
    def body(i: Value, u: Value, v: Value) -> tuple[Value, ...]:
        zero = splat(0.0, TensorType(F32, (6, 2)))
        return ScatterAdd(zero, i, Exp(u), 0), ScatterAdd(zero, i, v, 0)

    main = fused(function(body, "i64[3]", "f32[3,2]", "f32[3,2]"))
    assert sorted(families(main)) == ["loops", "loops", "scatter", "scatter"]
    scatters = [op for op in kernels(main) if op.family == "scatter"]
    targets = [op.xs[op.body.params.index(op.body.ops[-1].x)] for op in scatters]
    assert len(set(targets)) == 2
    assert "exp" in {o.name for op in scatters for o in op.body.ops}


def test_what_is_written_in_place_is_not_read_beside_it():
    def body(x: Value) -> Value:
        return Update(x, Slice(x, (0,), (3,), (1,)) + Slice(x, (2,), (3,), (1,)), (1,), (1,))

    main = fused(function(body, "f32[5]"))
    assert families(main) == ["loops", "scatter"]
    (scatter,) = [op for op in kernels(main) if op.family == "scatter"]
    assert [o.name for o in scatter.body.ops] == ["update"]


def test_a_row_can_join_the_kernel_of_its_frame():
    def nll(z: Value, y: Value) -> Value:
        picked = Gather(z, y, axis=1, batch=1)
        return LogSumExp(z, (1,)) - picked

    assert families(fused(function(nll, "f32[B,10]", "i64[B]"))) == ["loops"]


def test_kernels_that_depend_on_one_another_are_not_merged():
    def body(x: Value, w: Value) -> Value:
        e = Exp(x)
        return Log(e + Matmul(e, w))

    assert families(fused(function(body, "f32[B,4]", "f32[4,4]"))) == ["loops", "product"]


def test_a_kernel_holds_at_most_two_hundred_operations():
    def chain(x: Value) -> Value:
        for _ in range(500):
            x = Tanh(x)
        return x

    assert [len(k.body.ops) for k in kernels(fused(function(chain, "f32[B]")))] == [200, 200, 100]


def test_bodies_of_loops_become_kernels():
    def step(h: Value, x: Value, w: Value) -> tuple[Value, Value]:
        new = Tanh(Matmul(h, w) + x)
        return new, new

    def loop(h: Value, xs: Value, w: Value) -> Value:
        body = region(step, "f32[2,4]", "f32[2,4]", "f32[4,4]")
        return Scan((h,), (xs,), (w,), body, 7).results[1]

    (scan,) = fused(function(loop, "f32[2,4]", "f32[7,2,4]", "f32[4,4]")).ops
    assert [op.family for op in scan.body.ops] == ["product"]


def test_effects_keep_their_order_and_read_what_is_in_memory():
    def body(x: Value) -> Value:
        Print(Exp(x), "first ")
        Print(x * 2.0, "second ")
        return x

    main = fused(function(body, "f32[B]"))
    assert [op.label for op in main.ops if isinstance(op, Print)] == ["first ", "second "]


def test_what_an_effect_reads_is_in_memory_whoever_else_reads_it():
    def body(x: Value, y: Value) -> Value:
        z = Exp(x)
        Print(z, "")
        return Sum(Tanh(z) * y, (0,))

    main = fused(function(body, "f32[B]", "f32[B]"))
    shown = next(op.x for op in main.ops if isinstance(op, Print))
    assert any(shown in kernel.results for kernel in kernels(main))


FREE = {"constant", "reshape", "empty_tape", "push", "pop", "print", "tap"}
FREE |= {"assert", "kernel", "call", "cond", "while", "scan"}


@settings(max_examples=60)
@given(programs(EVERY, max_ops=25))
def test_the_contract_of_kernels_holds(program: Program):
    for fn in run(program.module, DEFAULT, verify=True).functions:
        assert {op.name for op in fn.walk() if op not in inner(fn)} <= FREE
        for kernel in kernels(fn):
            if kernel.family != "map":  # as the random programs call theirs
                check_kernel(kernel)


def inner(fn: Function) -> set:
    """What stands inside of kernels."""
    return {op for k in kernels(fn) for op in k.body.walk()}


def check_kernel(kernel: Kernel) -> None:
    body = kernel.body
    match kernel.family:
        case "product":
            (product,) = (op for op in body.ops if isinstance(op, Matmul))
            assert all(r.shape == product.shape for r in body.results)
        case "scatter":
            (root,) = {op for r in body.results if (op := overwriter(r)) is not None}
            assert [*written_over(root)][-1] in body.params
            assert set(body.results) <= set(root.results)
            if isinstance(root, Update):
                updates = [op for op in body.ops if isinstance(op, Update)]
                assert list(updates_in_order(root)) == updates
        case "running":
            scans = [op for op in body.ops if isinstance(op, Running)]
            assert len({(op.axis, op.reverse) for op in scans}) == 1
            assert {v.shape for v in (*scans, *body.results)} == {scans[0].shape}
        case "loops":
            check_frame(kernel)


def check_frame(kernel: Kernel) -> None:
    """Reductions run over the same axes of one shape; results have it, or it without them.

    What is element-wise may run over any shapes side by side.
    """
    body = kernel.body
    for op in body.ops:
        assert isinstance(op, Creation | Elementwise | Movement | Reduction)
    folds = [op for op in body.ops if isinstance(op, Reduction)]
    frames = {(op.operands[0].shape, op.axes) for op in folds}
    assert len(frames) <= 1
    for shape, axes in frames:
        row = tuple(d for i, d in enumerate(shape) if i not in axes)
        assert {r.shape for r in body.results} <= {shape, row}


def test_a_chain_is_computed_where_it_is_read():
    """As in a gradient: forward, something large, then ``1 - h * h`` on the way back."""

    def body(x: Value, w: Value, v: Value) -> tuple[Value, ...]:
        h = Tanh(Matmul(x, w))
        slope = 1.0 - h * h
        return h, Matmul(Matmul(h, v), transposed(v)) * slope

    main = fused(function(body, "f32[B,4]", "f32[4,8]", "f32[8,3]"))
    assert [len(op.results) for op in kernels(main)] == [1, 1, 1]
    assert [op.name for op in kernels(main)[2].body.ops if isinstance(op, Elementwise)] == [
        "mul",
        "sub",
        "mul",
    ]


@pytest.mark.parametrize("axis", [0, 1])
def test_a_square_is_folded_along_the_axis_that_is_stated(axis: int):
    """No type tells the two axes apart."""
    text = f"""dlvm 1
func @f(%x: f64[3,3]) -> f64[3] {{
  %0 = mul %x, %x : f64[3,3]
  %1 = sum %0 axes=({axis}) : f64[3]
  return %1
}}
"""
    x = np.arange(9.0).reshape(3, 3)
    module = run(parse(text), DEFAULT, verify=True)
    assert any(isinstance(op, Kernel) for op in module.main.ops)
    np.testing.assert_array_equal(module.run("f", x)[0], (x * x).sum(axis))


def test_what_is_read_twice_is_computed_once():
    def body(x: Value, w: Value) -> tuple[Value, ...]:
        e = Exp(x) + 1.0
        return Matmul(x, w) * e, Matmul(x, transposed(w)) * e

    main = fused(function(body, "f32[4,4]", "f32[4,4]"))
    assert sum(op.name == "exp" for k in kernels(main) for op in k.body.ops) == 1


def test_a_donated_parameter_is_read_before_its_new_value_is_made():
    def step(w: Value, x: Value, d: Value) -> tuple[Value, ...]:
        new = w - Matmul(transposed(x), d)
        return new, Matmul(d, transposed(w))

    module = function(step, "f32[8,4]", "f32[B,8]", "f32[B,4]")
    module.main.params[0].donated = True
    main = fused(module)
    assert [len(k.xs) for k in kernels(main)] == [2, 3]
    assert main.results == (kernels(main)[1].results[0], kernels(main)[0].results[0])
