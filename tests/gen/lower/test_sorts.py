"""Sorts and searches as kernels: to the bit what the operations say, with planned scratch."""

import numpy as np
import pytest

from dlvm.base.errors import CompilerError
from dlvm.gen.build import build
from dlvm.gen.loops.statements import Buffer, Loop, LoopKernel, Sort
from dlvm.gen.loops.verifier import verify
from dlvm.ir import DTYPES, F32, TensorType, parse
from dlvm.ir.sizes.dims import symbol
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run
from tests.gen.compiled import Compiled, gpu, interpret, kernel, loops, ptx_of
from tests.gen.values import numbers, same_bits

SHAPES = [(3, 0), (0, 3), (1, 1), (2, 2), (3, 15), (2, 16), (1, 33), (3, 67), (2, 1000), (1, 4099)]
NUMBERS = [d for d in DTYPES if d != "tape"]
WANTED = {"values": "%v", "order": "%i", "both": "%v, %i"}


def sorting(dtype, descending, wanted):
    types = {"values": f"{dtype}[B,N]", "order": "i64[B,N]", "both": f"({dtype}[B,N], i64[B,N])"}
    return kernel(
        f"""func @f(%x: {dtype}[B,N]) -> {types[wanted]} {{
      %v, %i = sort %x descending={str(descending).lower()} : {dtype}[B,N], i64[B,N]
      return {WANTED[wanted]}
    }}""",
        "ordering",
    )


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("descending", (False, True))
def test_every_type_and_size_is_sorted_as_the_operation_says(dtype, descending):
    wanted = list(WANTED)[(NUMBERS.index(dtype) + descending) % 3]
    op, module = sorting(dtype, descending, wanted)
    code = Compiled(op)
    for shape in SHAPES:
        x = numbers(DTYPES[dtype], shape, np.random.default_rng(5))
        expected = module.run("f", x)
        assert all(map(same_bits, code(x)[0], expected))
        if x.size < 300:
            assert all(map(same_bits, interpret(op, [x])[0], expected))
            assert all(map(same_bits, interpret(op, [x], gpu(4))[0], expected))


def test_rows_that_are_in_order_or_nearly_so():
    op, module = sorting("f32", False, "both")
    code = Compiled(op)
    n = np.arange(1000, dtype=np.float32)
    rows = [n, n[::-1], n // 7, np.roll(n, 300), np.where(n == 500, np.nan, n), n % 2, 0 * n]
    x = np.ascontiguousarray(np.stack(rows))
    assert all(map(same_bits, code(x)[0], module.run("f", x)))


@pytest.mark.parametrize("dtype", NUMBERS)
def test_searching(dtype):
    for right in ("false", "true"):
        op, module = kernel(
            f"""func @f(%a: {dtype}[B,N], %v: {dtype}[B,M,2]) -> i64[B,M,2] {{
          %0 = searchsorted %a, %v right={right} : i64[B,M,2]
          return %0
        }}""",
            "ordering",
        )
        code = Compiled(op)
        for b, n, m in ((2, 0, 3), (0, 4, 1), (3, 1, 2), (2, 67, 30), (1, 64, 9)):
            rng = np.random.default_rng(6)
            a, v = (numbers(DTYPES[dtype], s, rng) for s in ((b, n), (b, m, 2)))
            expected = module.run("f", a, v)[0]  # of rows in no order, too: it is defined
            assert same_bits(code(a, v)[0][0], expected)
            assert same_bits(interpret(op, [a, v])[0][0], expected)


def test_text():
    op, _ = sorting("f32", True, "both")
    last = str(loops(op)).splitlines()[-3]
    assert last.strip() == "sort %b1[%i3*N] count N with %b2 spare (%spare1, %spare2) descending"


def test_scratch_memory_is_the_plans_and_an_argument_stays_as_it_is():
    module = parse("""dlvm 1
func @f(%x: f32[N]) -> f32[N] {
  %v, %i = sort %x : f32[N], i64[N]
  return %v
}
""")
    code = build(run(module, DEFAULT))
    x = np.random.default_rng(7).normal(size=501).astype(np.float32)
    before = x.copy()
    assert same_bits(code.run([x])[0], np.sort(x)) and same_bits(x, before)
    assert 501 * 4 <= code.report.at(N=501).peak_bytes < 501 * 4 + 128


def test_a_row_that_another_turn_sorts_is_refused():
    n = symbol("N")
    x = Buffer("b0", TensorType(F32, (n, n)), "out")
    spare = Buffer("s", TensorType(F32, (n * n,)), "scratch")

    def rows(step):
        row = Sort(x, None, (spare,), symbol("%i") * step, n, False)
        return LoopKernel("k", (x, spare), ("N",), (Loop("%i", n, "parallel", (row,)),), False)

    verify(rows(n))
    with pytest.raises(CompilerError, match=r"share an element|sort one element|inside"):
        verify(rows(n - 1))
    with pytest.raises(CompilerError, match="not provably inside"):
        verify(rows(n + 1))


def test_it_becomes_ptx():
    text = ptx_of([loops(sorting("f32", False, "both")[0], gpu(128))])
    assert ".visible .entry k(" in text and "call" in text
