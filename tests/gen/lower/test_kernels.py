"""Whole kernels: rows with several folds, products with epilogues, updates, random ones."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from dlvm.base.errors import UserError
from dlvm.gen.loops.work import flops
from dlvm.ir import F64, I64, NUMBERS
from dlvm.ir.sizes.dims import evaluate
from dlvm.ops import EmptyTape, Factorisation, Kernel, Ordering, Reduction, Scatter
from dlvm.target import Target
from dlvm.testing.drawing.random_programs import STRAIGHT
from dlvm.testing.strategies import programs
from tests.gen.compiled import Compiled, cpu, gpu, interpret, kernel, loops
from tests.gen.values import same_bits

SOFTMAX = """func @f(%x: f32[B,N], %k: f32) -> (f32[B,N], f32[B]) {
  %m = max %x axes=(1) : f32[B]
  %mb = broadcast %m shape=(B,N) axes=(0) : f32[B,N]
  %d = sub %x, %mb : f32[B,N]
  %e = exp %d : f32[B,N]
  %s = sum %e axes=(1) : f32[B]
  %sb = broadcast %s shape=(B,N) axes=(0) : f32[B,N]
  %q = div %e, %sb : f32[B,N]
  %kb = broadcast %k shape=(B,N) axes=() : f32[B,N]
  %r = mul %q, %kb : f32[B,N]
  return %r, %s
}"""
CENTRED = """func @f(%x: f32[B,N], %g: f32[N]) -> (f32[B,N], f32[B]) {
  %s = sum %x axes=(1) : f32[B]
  %xx = mul %x, %x : f32[B,N]
  %t = sum %xx axes=(1) : f32[B]
  %n = constant value=0.125 : f32
  %nb = broadcast %n shape=(B) axes=() : f32[B]
  %mean = mul %s, %nb : f32[B]
  %mb = broadcast %mean shape=(B,N) axes=(0) : f32[B,N]
  %c = sub %x, %mb : f32[B,N]
  %tb = broadcast %t shape=(B,N) axes=(0) : f32[B,N]
  %y = div %c, %tb : f32[B,N]
  %gb = broadcast %g shape=(B,N) axes=(1) : f32[B,N]
  %z = mul %y, %gb : f32[B,N]
  return %z, %t
}"""
WIDTHS = [cpu(2), cpu(4), cpu(8), cpu(16), cpu(32)]


def rows(n, m, seed=0):
    return np.random.default_rng(seed).standard_normal((n, m)).astype(np.float32)


def test_softmax():
    op, module = kernel(SOFTMAX)
    compiled = Compiled(op)
    for b, n in ((0, 5), (1, 1), (3, 0), (5, 67), (4, 128), (2, 5000)):
        arrays = (rows(b, n), np.float32(2.0))
        for found, expected in zip(compiled(*arrays)[0], module.run("f", *arrays), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_rows_are_folded_in_one_loop_for_each_level():
    """Two sums that don't need one another share their loops, and each row is written once."""
    text = str(loops(kernel(CENTRED)[0]))
    assert text.count("serial %chunk") == text.count("serial %last") == 1
    assert str(loops(kernel(SOFTMAX)[0])).count("serial %chunk") == 2


@pytest.mark.parametrize("how", [*WIDTHS, gpu(32), gpu(96)], ids=str)
def test_no_schedule_changes_a_bit(how):
    """Vectors of any width, lanes of a block and the interpreter give the same sums."""
    op, _ = kernel(CENTRED)
    default = Compiled(op)
    compiled = default if how.block else Compiled(op, how)
    for b, n in ((3, 67), (1, 4200), (2, 4096), (1, 8193)):
        arrays = (rows(b, n), rows(1, n, 1)[0])
        expected = default(*arrays)[0]
        assert all(map(same_bits, compiled(*arrays)[0], expected))
        assert all(map(same_bits, interpret(op, arrays, how)[0], expected))


@pytest.mark.parametrize("name, bits", [("haswell", 256), ("x86-64", 128)])
def test_narrower_processors_give_the_same_bits(name, bits):
    """Where this machine can run their code."""
    host = Target.host()
    if not host.triple.startswith("x86_64") or host.vector_bits < bits:
        pytest.skip(f"{host} can't run the code of {name}")
    target = replace(host, cpu=name, features="", vector_bits=bits, registers=16)
    centred = (rows(3, 67), rows(1, 67, 1)[0])
    factors = (rows(67, 130), rows(33, 130, 1), rows(1, 33, 2)[0], np.float32(0.25))
    for (op, _), arrays in ((kernel(CENTRED), centred), (product(0, 1), factors)):
        assert all(
            map(same_bits, Compiled(op, target=target)(*arrays)[0], Compiled(op)(*arrays)[0])
        )


@pytest.mark.parametrize("bits", [8, 128, 256, 512])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "i8"])
def test_one_lane_stores_no_more_than_its_element(dtype, bits):
    """LLVM stores the wide element that a narrow one was made of, where it knows the mask."""
    host = Target.host()
    if host.vector_bits < bits:
        pytest.skip(f"{host} has no such vectors")
    for n in (5, 9, 17, 33, 65):
        op, _ = kernel(
            f"func @f(%x: {dtype}[3,{n}]) -> {dtype}[3,{n}] {{\n"
            f"%0 = cumulative_max %x axis=0 : {dtype}[3,{n}]\nreturn %0\n}}"
        )
        x = np.random.default_rng(n).integers(-9, 9, (3, n)).astype(op.body.params[0].dtype.numpy)
        found = Compiled(op, target=replace(host, vector_bits=bits))(x)[0][0]
        np.testing.assert_array_equal(found, np.maximum.accumulate(x, 0))


def test_flops_are_those_that_the_interpreter_counts():
    for text in (SOFTMAX, CENTRED):
        op, _ = kernel(text)
        arrays = (rows(3, 70), rows(1, 70, 1)[0] if text is CENTRED else np.float32(1))
        _, _, counts = interpret(op, arrays)
        assert counts.flops == evaluate(flops(loops(op).body), {"B": 3, "N": 70}) > 3 * 70 * 4


@pytest.mark.parametrize("a", [0, 1, 8])
def test_rows_whose_length_is_a_sum_with_their_source_as_a_result(a):
    op = kernel(
        """\
func @main(%x: f32[3,3,2*A+1]) -> (f32[3,3,2*A+1], f32[3,3]) {
  %0 = max %x axes=(2) : f32[3,3]
  return %x, %0
}
"""
    )[0]
    x = np.random.default_rng(a).normal(size=(3, 3, 2 * a + 1)).astype(np.float32)
    for how in (None, gpu(32)):
        same, largest = interpret(op, [x], how)[0]
        np.testing.assert_array_equal(same, x)
        np.testing.assert_array_equal(largest, x.max(2))


def test_results_of_unrelated_shapes():
    op, module = kernel("""func @f(%x: f32[N,M]) -> (f32[M], f32[N,M], f32) {
      %s = sum %x axes=(0) : f32[M]
      %t = exp %s : f32[M]
      %y = mul %x, %x : f32[N,M]
      %z = max %t axes=(0) : f32
      return %t, %y, %z
    }""")
    compiled = Compiled(op)
    for n, m in ((3, 5), (0, 4), (2, 0), (37, 33)):
        for found, expected in zip(
            compiled(rows(n, m))[0], module.run("f", rows(n, m)), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_long_chain_does_not_recurse():
    lines = "\n".join(f"  %{i + 1} = add %{i}, %{i} : f64[N]" for i in range(3000))
    start = "  %0 = neg %x : f64[N]\n"
    op, _ = kernel(f"func @f(%x: f64[N]) -> f64[N] {{\n{start}{lines}\n  return %3000\n}}")
    assert len(loops(op).body[0].body) == 3003


# -- products -----------------------------------------------------------------------------------


def product(x_transposed, y_transposed, dtype="f32"):
    x = f"{dtype}[K,M]" if x_transposed else f"{dtype}[M,K]"
    y = f"{dtype}[N,K]" if y_transposed else f"{dtype}[K,N]"
    xs, ys = ("%xt" if x_transposed else "%x"), ("%yt" if y_transposed else "%y")
    out = f"{dtype}[M,N]"
    return kernel(
        f"""func @f(%x: {x}, %y: {y}, %b: {dtype}[N], %k: {dtype}) -> ({out}, {out}) {{
      {f"%xt = permute %x perm=(1,0) : {dtype}[M,K]" if x_transposed else ""}
      {f"%yt = permute %y perm=(1,0) : {dtype}[K,N]" if y_transposed else ""}
      %p = matmul {xs}, {ys} : {dtype}[M,N]
      %bb = broadcast %b shape=(M,N) axes=(1) : {dtype}[M,N]
      %kb = broadcast %k shape=(M,N) axes=() : {dtype}[M,N]
      %q = add %p, %bb : {dtype}[M,N]
      %r = mul %q, %kb : {dtype}[M,N]
      %t = tanh %r : {dtype}[M,N]
      return %t, %r
    }}""",
        "product",
    )


SIZES = [(0, 1, 5), (1, 0, 3), (4, 3, 0), (1, 1, 1), (5, 17, 64), (64, 67, 17), (67, 5, 1)]


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_products_with_bias_and_tanh(transposed):
    op, module = product(*transposed)
    compiled = Compiled(op)
    assert "product" in str(compiled.lowered)
    for m, n, k in [*SIZES, (200, 210, 700), (7, 33, 600)]:
        x, y = (
            rows(*((k, m) if transposed[0] else (m, k))),
            rows(*((n, k) if transposed[1] else (k, n))),
        )
        arrays = (x, y, rows(1, n, 2)[0], np.float32(0.25))
        found, expected = compiled(*arrays)[0], module.run("f", *arrays)
        scale = np.sqrt(k + 1) * 1e-6
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=scale)


def test_products_are_the_bits_of_a_chain_of_fma():
    """So no tile shows in the answer: the interpreter sums each element in order."""
    op, _ = product(0, 1)
    compiled = Compiled(op)
    for m, n, k in ((5, 17, 64), (67, 64, 300)):
        arrays = (rows(m, k), rows(n, k, 1), rows(1, n, 2)[0], np.float32(0.25))
        assert same_bits(compiled(*arrays)[0][1], interpret(op, arrays)[0][1])
        _, _, counts = interpret(op, arrays)
        assert counts.flops == m * n * (2 * k + 3)
        sizes = {"M": m, "N": n, "K": k}
        assert counts.flops == evaluate(flops(compiled.lowered.body), sizes)


@pytest.mark.parametrize("x_turned", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "i16"])
def test_what_is_made_of_a_column_is_made_in_vectors(x_turned, dtype):
    """A column is computed as the row that it is of the transposes, to the same bits."""
    x = f"{dtype}[K,M]" if x_turned else f"{dtype}[M,K]"
    op, module = kernel(
        f"""func @f(%x: {x}, %y: {dtype}[K,4], %z: {dtype}[M,1]) -> ({dtype}[M,1], {dtype}[M,1]) {{
      {f"%t = permute %x perm=(1,0) : {dtype}[M,K]" if x_turned else ""}
      %c = slice %y starts=(0,2) sizes=(K,1) steps=(1,1) : {dtype}[K,1]
      %p = matmul {"%t" if x_turned else "%x"}, %c : {dtype}[M,1]
      %q = mul %p, %z : {dtype}[M,1]
      return %q, %p
    }}""",
        "product",
    )
    assert "m=1 n=M" in str(loops(op))
    compiled = Compiled(op)
    rng = np.random.default_rng(0)
    for m, k in ((0, 3), (3, 0), (1, 1), (1, 9), (17, 5), (1100, 40), (33, 1030)):
        numbers = (rng.integers(-9, 9, s) for s in ((k, m) if x_turned else (m, k), (k, 4), (m, 1)))
        kind = np.float32 if dtype == "f32" else np.int16
        arrays = [(n / 4 if kind is np.float32 else n).astype(kind) for n in numbers]
        expected = interpret(op, arrays)[0]
        for threads in (1, 2):
            found = compiled(*arrays, threads=threads)[0]
            assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))
        for found, exact in zip(expected, module.run("f", *arrays), strict=True):
            np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_batched_products_in_f64():
    op, module = kernel(
        """func @f(%x: f64[B,M,K], %y: f64[B,N,K]) -> f64[B,M,N] {
      %t = permute %y perm=(0,2,1) : f64[B,K,N]
      %p = matmul %x, %t : f64[B,M,N]
      %q = neg %p : f64[B,M,N]
      return %q
    }""",
        "product",
    )
    rng = np.random.default_rng(0)
    compiled = Compiled(op)
    for b, m, n, k in ((0, 2, 2, 2), (3, 5, 9, 4), (2, 70, 65, 33)):
        x, y = rng.standard_normal((b, m, k)), rng.standard_normal((b, n, k))
        np.testing.assert_allclose(compiled(x, y)[0][0], module.run("f", x, y)[0], atol=1e-12)


# -- in place -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["error", "clip", "drop"])
@pytest.mark.parametrize("name", ["scatter_add", "scatter_set"])
def test_scatter_in_place(name, mode):
    op, module = kernel(
        f"""func @f(%x: f32[V,D], %i: i32[K], %u: f32[K,D]) -> f32[V,D] {{
      %n = neg %u : f32[K,D]
      %0 = {name} %x, %i, %n axis=0 batch=0 mode="{mode}" : f32[V,D]
      return %0
    }}""",
        "scatter",
    )
    compiled, rng = Compiled(op), np.random.default_rng(0)
    assert [b.role for b in compiled.lowered.buffers] == ["inout", "in", "in"]
    for v, d, k in ((5, 17, 40), (1, 1, 3), (3, 0, 2), (4, 3, 0)):
        wide = 0 if mode == "error" else v
        i = rng.integers(-v - wide, v + wide, k).astype(np.int32)
        arrays = (rows(v, d), i, rows(k, d, 1))
        (found,), status = compiled(*arrays)
        assert same_bits(found, module.run("f", *arrays)[0]) and not status.any()
        assert same_bits(found, interpret(op, arrays)[0][0])


def test_update_in_place():
    op, module = kernel(
        """func @f(%x: f32[N,40], %y: f32[N,13]) -> f32[N,40] {
      %n = neg %y : f32[N,13]
      %0 = update %x, %n starts=(0,37) steps=(1,-3) : f32[N,40]
      return %0
    }""",
        "scatter",
    )
    arrays = (rows(6, 40), rows(6, 13))
    assert same_bits(Compiled(op)(*arrays)[0][0], module.run("f", *arrays)[0])


# -- the ends of rows ---------------------------------------------------------------------------

NARROW = [t for t in NUMBERS if t.bytes <= 4]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("source", [*NARROW, F64, I64], ids=str)
def test_the_last_lane_of_a_row_does_not_reach_the_next(source):
    """A store of a single lane of narrow elements writes nothing behind it."""
    for i, target in enumerate(NARROW):
        for n in ((1, 33), (17, 65))[i % 2]:
            op, module = kernel(
                f"""func @f(%x: {source}[N,{n}]) -> {target}[N,{n}] {{
                  %s = maximum %x, %x : {source}[N,{n}]
                  %r = cast %s dtype={target} : {target}[N,{n}]
                  return %r
                }}"""
            )
            x = (np.arange(7 * n).reshape(7, n) % 19).astype(source.numpy)
            (found,), _ = Compiled(op)(x)
            assert same_bits(found, module.run("f", x)[0]), (target, n)


# -- random programs ----------------------------------------------------------------------------

LEAVES = [
    c
    for c in STRAIGHT
    if c is not EmptyTape and not issubclass(c, Scatter | Ordering | Factorisation)
]


def close(a, b, narrowest=8):
    if a.dtype.kind in "biu":
        return np.array_equal(a, b)
    tolerance = {2: 0.03, 4: 1e-4, 8: 1e-9}[min(narrowest, a.dtype.itemsize)]
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(classes=LEAVES, max_ops=8))
def test_random_bodies_in_every_schedule(program):
    """Lowered, verified, interpreted on CPU and GPU schedules; compiled in narrow vectors."""
    op = Kernel(program.module.main.params, program.module.main, "loops")
    folds = any(isinstance(o, Reduction) for o in op.body.ops)
    blocks = gpu(32) if folds else gpu(4)
    try:
        expected = program.run()
    except UserError:
        assert interpret(op, program.arrays)[1][0] != 0
        return
    runs = [interpret(op, program.arrays, how)[0] for how in (None, blocks)]
    runs.append(Compiled(op, cpu(2))(*program.arrays)[0])
    values = [*op.body.params, *(r for o in op.body.walk() for r in o.results)]
    narrowest = min((v.dtype.bytes for v in values if v.dtype.is_float), default=8)
    for found in runs:
        assert all(close(a, b, narrowest) for a, b in zip(found, expected, strict=True))
