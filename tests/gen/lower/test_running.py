"""Running scans as loops: one kernel with what is around, the same bits in every schedule."""

import numpy as np
import pytest

from dlvm.gen.loops.work import flops
from dlvm.ir import DTYPES
from dlvm.ir.sizes.dims import evaluate
from tests.gen.compiled import Compiled, cpu, gpu, interpret, kernel, loops, ptx_of
from tests.gen.values import numbers, same_bits

SIZES = [(2, 5, 3), (1, 1, 1), (0, 4, 2), (3, 0, 2), (2, 3, 0), (1, 17, 67), (67, 9, 1)]
SCAN = """func @f(%x: T[L,N,M]) -> T[L,N,M] {{
  %0 = {op} %x axis={axis} reverse={reverse} exclusive={exclusive} : T[L,N,M]
  return %0
}}"""
FUSED = """func @f(%x: f32[L,N,M], %a: f32[L,N,M]) -> (f32[L,N,M], f32[L,N,M]) {
  %y = mul %x, %x : f32[L,N,M]
  %s = cumulative_sum %y axis=1 reverse=true : f32[L,N,M]
  %r = linear_recurrence %a, %s axis=1 reverse=true exclusive=true : f32[L,N,M]
  %z = sub %r, %x : f32[L,N,M]
  return %z, %s
}"""


def scan(op, dtype="f32", axis=1, reverse=False, exclusive=False):
    flags = {"reverse": str(reverse).lower(), "exclusive": str(exclusive).lower()}
    return kernel(SCAN.format(op=op, axis=axis, **flags).replace("T", dtype), "running")


@pytest.mark.parametrize("axis", (0, 1, 2))
@pytest.mark.parametrize("dtype", ("f32", "f64", "bf16", "f16", "i8", "u64"))
def test_every_axis_and_type_is_what_the_interpreter_of_the_ir_says(dtype, axis):
    for i, name in enumerate(("cumulative_sum", "cumulative_max")):
        op, module = scan(name, dtype, axis, bool(i), axis == 1)
        code = Compiled(op)
        for shape in SIZES:
            x = numbers(DTYPES[dtype], shape, np.random.default_rng(5))
            (expected,) = module.run("f", x)
            assert same_bits(code(x)[0][0], expected)
            if x.size < 100:
                assert same_bits(interpret(op, [x])[0][0], expected)


@pytest.mark.parametrize("how", [cpu(2), cpu(16), gpu(4), gpu(96)], ids=str)
def test_no_schedule_changes_a_bit(how):
    op, module = kernel(FUSED, "running")
    code = Compiled(op)
    for shape in SIZES:
        rng = np.random.default_rng(6)
        x, a = (rng.uniform(-1, 1, shape).astype(np.float32) for _ in range(2))
        expected = code(x, a)[0]
        for found, exact in zip(expected, module.run("f", x, a), strict=True):
            np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)
        if x.size < 1000:
            assert all(map(same_bits, interpret(op, [x, a], how)[0], expected))
        if not how.block:
            assert all(map(same_bits, Compiled(op, how)(x, a)[0], expected))


def test_what_stands_around_a_scan_is_in_its_loop():
    text = str(loops(kernel(FUSED, "running")[0]))
    assert text.count("serial %i") == 1 and text.count("vector %i") == 1


def test_logsumexp_is_near_the_definition():
    op, module = scan("cumulative_logsumexp")
    x = np.random.default_rng(7).normal(0, 30, (3, 50, 20)).astype(np.float32)
    for found in (Compiled(op)(x)[0][0], interpret(op, [x])[0][0]):
        np.testing.assert_allclose(found, module.run("f", x)[0], rtol=1e-6, atol=1e-6)


def test_flops_are_those_that_the_interpreter_counts():
    for op in (kernel(FUSED, "running")[0], scan("cumulative_logsumexp")[0]):
        x = np.ones((3, 4, 5), np.float32)
        _, _, counts = interpret(op, [x] * len(op.body.params))
        assert counts.flops == evaluate(flops(loops(op).body), {"L": 3, "N": 4, "M": 5}) > 0


def test_it_becomes_ptx():
    lowered = loops(kernel(FUSED, "running")[0], gpu(128))
    assert ".visible .entry k(" in ptx_of([lowered])
