"""Products: every shape, type, transposition and layout, to the bit where that is possible."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.gen.cpu.product_calls import place_of_sums
from dlvm.gen.llvm.binding import Library, assembly, object_code
from dlvm.gen.loops.status import OUT_OF_MEMORY
from dlvm.gen.products import objects as products
from dlvm.gen.products.objects import Generic
from dlvm.gen.products.panels import WORDS
from dlvm.gen.runtime import call_words
from dlvm.ir import DTYPES
from dlvm.target import Target
from tests.gen.compiled import Compiled, interpret, kernel, loops
from tests.gen.values import same_bits

SIDES = [(False, False), (True, False), (False, True), (True, True)]
NUMERIC = [t for t in DTYPES.values() if t.kind in "iuf"]
F32 = DTYPES["f32"]
SMALL = [0, 1, 2, 5, 6, 7, 13, 17, 67]
BLOCKS = [(97, 17, 5), (13, 257, 1030), (49, 65, 257), (1, 300, 3), (300, 1, 3), (2, 1100, 33)]
BLOCKS += [(9, 1100, 131), (1100, 9, 131), (23, 2100, 70), (2150, 30, 270)]
BLOCKS += [(1, 70, 35), (70, 1, 35), (1, 1, 40), (1, 5, 0), (5, 1, 0)]


def matrix(rows, cols, dtype, seed=0):
    """Small whole numbers: every sum of products is exact."""
    found = np.random.default_rng(seed).integers(0 if dtype.kind == "u" else -3, 4, (rows, cols))
    return found.astype(dtype.numpy)


def product(dtype, x_transposed, y_transposed, rest=""):
    t = str(dtype)
    x = f"{t}[K,M]" if x_transposed else f"{t}[M,K]"
    y = f"{t}[N,K]" if y_transposed else f"{t}[K,N]"
    xs, ys = ("%xt" if x_transposed else "%x"), ("%yt" if y_transposed else "%y")
    return kernel(
        f"""func @f(%x: {x}, %y: {y}) -> {t}[M,N] {{
      {f"%xt = permute %x perm=(1,0) : {t}[M,K]" if x_transposed else ""}
      {f"%yt = permute %y perm=(1,0) : {t}[K,N]" if y_transposed else ""}
      %p = matmul {xs}, {ys} : {t}[M,N]
      {rest}
      return {"%q" if rest else "%p"}
    }}""",
        "product",
    )


def exact(x, y, dtype):
    return (x.astype(np.int64) @ y.astype(np.int64)).astype(dtype.numpy)


def operands(sides, m, n, k, dtype, seed=0):
    x, y = matrix(m, k, dtype, seed), matrix(k, n, dtype, seed + 1)
    stored = [np.ascontiguousarray(a.T) if t else a for a, t in zip((x, y), sides, strict=True)]
    return stored, exact(x, y, dtype)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_every_type_and_transposition_in_exact_arithmetic(dtype, sides):
    """Sizes of nothing, of less than a vector, and just over every block."""
    compiled = Compiled(product(dtype, *sides)[0])
    rng = np.random.default_rng(0)
    sizes = [tuple(rng.choice(SMALL, 3)) for _ in range(12)]
    for m, n, k in [*sizes, (0, 5, 3), (5, 0, 3), (5, 3, 0), *BLOCKS]:
        arrays, expected = operands(sides, m, n, k, dtype)
        np.testing.assert_array_equal(compiled(*arrays)[0][0], expected, err_msg=f"{m} {n} {k}")


@pytest.mark.parametrize("rest", ["", "%q = neg %p : f32[M,N]"], ids=["stored", "finished"])
@pytest.mark.parametrize("sides", SIDES)
def test_operands_of_every_alignment(sides, rest):
    op, _ = product(F32, *sides, rest)
    compiled = Compiled(op)
    (x, y), expected = operands(sides, 31, 70, 40, F32)
    for start in (1, 3, 7, 16):
        moved = [np.empty(a.size + start, a.dtype)[start:].reshape(a.shape) for a in (x, y)]
        for a, b in zip(moved, (x, y), strict=True):
            a[...] = b
        found = compiled(*moved)[0][0]
        np.testing.assert_array_equal(found, -expected if rest else expected)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16"])
def test_the_sum_is_one_chain_over_k(name, sides):
    """To the bit what the interpreter of loops computes, over blocks, tails and panels of k."""
    dtype = DTYPES[name]
    op, _ = product(dtype, *sides)
    compiled, rng = Compiled(op), np.random.default_rng(0)
    for m, n, k in (
        (7, 33, 300),
        (50, 20, 67),
        (26, 70, 600),
        (98, 130, 263),
        (1, 70, 67),
        (70, 1, 67),
        (3, 1030, 137),
        (1030, 3, 137),
    ):
        x = rng.standard_normal((k, m) if sides[0] else (m, k)).astype(dtype.numpy)
        y = rng.standard_normal((n, k) if sides[1] else (k, n)).astype(dtype.numpy)
        assert same_bits(compiled(x, y)[0][0], interpret(op, (x, y))[0][0])


@pytest.mark.parametrize("rest", ["", "%q = neg %p : f32[M,N]"], ids=["stored", "finished"])
@pytest.mark.parametrize("sides", SIDES)
def test_threads_change_no_bit(sides, rest):
    op, _ = product(F32, *sides, rest)
    compiled, rng = Compiled(op), np.random.default_rng(0)
    sizes = (
        (200, 70, 300),
        (20, 700, 300),
        (1, 5000, 64),
        (5000, 1, 64),
        (7, 5000, 64),
        (5000, 7, 64),
    )
    for m, n, k in sizes:
        x = rng.standard_normal((k, m) if sides[0] else (m, k)).astype(np.float32)
        y = rng.standard_normal((n, k) if sides[1] else (k, n)).astype(np.float32)
        alone = compiled(x, y)[0][0]
        for threads in (2, 3):
            assert same_bits(compiled(x, y, threads=threads)[0][0], alone)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_the_error_is_within_its_bound(name):
    """``|error| <= k * eps / (1 - k * eps) * |x| @ |y|``, whatever the order of the sum."""
    dtype = DTYPES[name]
    compiled, rng = Compiled(product(dtype, False, True)[0]), np.random.default_rng(0)
    for k in (3, 700, 5000):
        x, y = (rng.standard_normal((9, k)).astype(dtype.numpy) for _ in range(2))
        wide = np.longdouble if name == "f64" else np.float64
        error = np.abs(compiled(x, y)[0][0] - x.astype(wide) @ y.T.astype(wide))
        unit = k * float(np.finfo(dtype.numpy).eps) / 2
        assert (error <= unit / (1 - unit) * (np.abs(x) @ np.abs(y).T)).all()
        assert error.max() > 0


# -- layouts --------------------------------------------------------------------------------------

HEADS = """func @f(%x: f32[T,5,D+3], %y: f32[S,4,D]) -> f32[2,T,S] {
  %0 = slice %x starts=(0,1,2) sizes=(T,2,D) steps=(1,2,1) : f32[T,2,D]
  %1 = permute %0 perm=(1,0,2) : f32[2,T,D]
  %2 = slice %y starts=(0,3,0) sizes=(S,2,D) steps=(1,-2,1) : f32[S,2,D]
  %3 = permute %2 perm=(1,2,0) : f32[2,D,S]
  %4 = matmul %1, %3 : f32[2,T,S]
  return %4
}"""
ONE_FOR_ALL = """func @f(%x: f32[B,M,K], %y: f32[K,N]) -> f32[B,M,N] {
  %0 = broadcast %y shape=(B,K,N) axes=(1,2) : f32[B,K,N]
  %1 = matmul %x, %0 : f32[B,M,N]
  return %1
}"""


def test_slices_and_heads_are_multiplied_where_they_lie():
    op, module = kernel(HEADS, "product")
    compiled = Compiled(op)
    assert "step 5*D+15 " in str(compiled.lowered) and "transposed" in str(compiled.lowered)
    for t, s, d in ((0, 1, 2), (3, 5, 4), (33, 70, 20)):
        x, y = matrix(t, 5 * (d + 3), F32).reshape(t, 5, d + 3), matrix(s, 4 * d, F32, 1)
        arrays = x, y.reshape(s, 4, d)
        expected = module.run("f", *arrays)[0]
        assert same_bits(compiled(*arrays)[0][0], expected)
        assert same_bits(interpret(op, arrays)[0][0], expected)


def test_a_matrix_for_all_of_a_batch_is_not_repeated():
    op, module = kernel(ONE_FOR_ALL, "product")
    arrays = matrix(6, 35, F32).reshape(6, 5, 7), matrix(7, 9, F32, 1)
    assert same_bits(Compiled(op)(*arrays)[0][0], module.run("f", *arrays)[0])


# -- epilogues ------------------------------------------------------------------------------------


def epilogue(dtype):
    t = str(dtype)
    operands = f"%x: {t}[M,K], %y: {t}[K,N], %c: {t}[M,N], %b: {t}[N], %d: bool[M,N]"
    out = f"{t}[M,N], bool[M,N], f32[M,N]"
    return kernel(
        f"""func @f({operands}) -> ({out}) {{
      %p = matmul %x, %y : {t}[M,N]
      %s = add %c, %p : {t}[M,N]
      %bb = broadcast %b shape=(M,N) axes=(1) : {t}[M,N]
      %q = add %s, %bb : {t}[M,N]
      %z = constant value=0 : {t}
      %zb = broadcast %z shape=(M,N) axes=() : {t}[M,N]
      %r = maximum %q, %zb : {t}[M,N]
      %w = select %d, %r, %zb : {t}[M,N]
      %h = less %zb, %q : bool[M,N]
      %f = cast %w dtype=f32 : f32[M,N]
      return %w, %h, %f
    }}""",
        "product",
    )


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_epilogues_of_every_type(dtype):
    """C + A B, a bias, a kink, a mask; results of other types beside it."""
    op, module = epilogue(dtype)
    compiled = Compiled(op)
    assert "product" in str(compiled.lowered)
    for m, n, k in ((5, 17, 3), (97, 70, 33), (3, 2, 0)):
        keep = np.random.default_rng(2).random((m, n)) < 0.5
        arrays = [matrix(m, k, dtype), matrix(k, n, dtype, 1), matrix(m, n, dtype, 2)]
        arrays += [matrix(1, n, dtype, 3)[0], keep]
        expected = module.run("f", *arrays)
        assert all(map(same_bits, compiled(*arrays)[0], expected))
        assert all(map(same_bits, interpret(op, arrays)[0], expected))


RESIDUAL = """func @f(%x: f32[M,K], %y: f32[K,N], %c: f32[M,N]) -> (f32[M,N], f32[M,N]) {
  %p = matmul %x, %y : f32[M,N]
  %s = add %c, %p : f32[M,N]
  %t = mul %s, %p : f32[M,N]
  return %s, %t
}"""


def statement(op):
    (found,) = loops(op).body
    return found


def test_only_a_plain_store_needs_no_function():
    for rest, plain in (("", True), ("%q = neg %p : f32[M,N]", False)):
        op, _ = product(F32, False, False, rest)
        found = place_of_sums(statement(op), frozenset())
        assert found.place.buffer.name == "b2" and found.plain == plain
        assert ("define internal void @k.tile" in Compiled(op).text) != plain


def test_sums_lie_in_a_result_that_overwrites_each_after_its_last_use():
    """Both results need the sum: it lies where the one is stored that is stored last."""
    op, module = kernel(RESIDUAL, "product")
    found = place_of_sums(statement(op), frozenset())
    assert not found.plain and found.place.buffer.name in ("b3", "b4")
    compiled = Compiled(op)
    for m, n, k in ((100, 300, 600), (1, 1, 1), (5, 70, 0)):
        arrays = matrix(m, k, F32), matrix(k, n, F32, 1), matrix(m, n, F32, 2)
        for threads in (1, 2):
            found = compiled(*arrays, threads=threads)[0]
            assert all(map(same_bits, found, module.run("f", *arrays)))


def test_sums_lie_in_tiles_where_no_result_is_alone_or_of_their_type():
    op, _ = kernel(RESIDUAL, "product")
    assert place_of_sums(statement(op), frozenset({"b3", "b4"})) is None
    assert place_of_sums(statement(product(DTYPES["f16"], False, False)[0]), frozenset()) is None


@pytest.mark.parametrize("sides", SIDES)
@pytest.mark.parametrize("sizes", [(5, 4, 0), (0, 4, 3), (5, 0, 3), (0, 0, 0), (1, 1, 0)])
def test_known_sizes_of_nothing(sides, sizes):
    """Nothing of an operand of no elements lies in memory."""
    m, n, k = sizes

    def f(x, y):
        return (x.T if sides[0] else x) @ (y.T if sides[1] else y)

    (x, y), expected = operands(sides, m, n, k, F32)
    assert same_bits(dlvm.function(f)(x, y), expected)
    assert same_bits(dlvm.function(lambda x, y: f(x, y) + 1)(x, y), expected + 1)


# -- the objects ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0)], ids=str)
def test_nothing_in_a_batch_of_open_sizes(shape):
    """A known size of 0 leaves no matrix in memory to point at."""
    batch, k, n = shape
    x, y = np.ones((batch, 5, k)), np.ones((batch, k, n))
    f = dlvm.function(lambda x, y: dlvm.tanh(x @ y), dynamic={"x": f"{batch},B,{k}"})
    found = f(x, y)
    assert np.array_equal(found, np.tanh(x @ y)) and found.shape == (batch, 5, n)


def test_a_product_is_compiled_once(monkeypatch):
    """Its own code, and what it has in common with products whose y lies otherwise."""
    made = []
    monkeypatch.setattr(products, "object_code", lambda *a: (made.append(a), object_code(*a))[1])
    products.machine_code.cache_clear()
    first = Compiled(product(F32, False, False)[0])
    second = Compiled(product(F32, False, False, "%q = neg %p : f32[M,N]")[0])
    assert len(made) == 3
    Compiled(product(F32, False, True)[0])
    assert len(made) == 4
    assert "llvm.fma" not in first.text + second.text


def test_types_with_the_same_sums_have_one_object_in_a_program():
    def f(x, y):
        return x @ x, y @ y

    x, y = (np.arange(16, dtype=t).reshape(4, 4) for t in (np.int32, np.uint32))
    assert all(map(same_bits, dlvm.function(f)(x, y), f(x, y)))


MACHINES = {
    "x86-64-v3": Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 256, 16, 1),
    "x86-64-v4": Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 512, 32, 1),
    "neoverse": Target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", 128, 32, 1),
}
FUSED = {"x86-64-v3": "vfmadd231ps", "x86-64-v4": "vfmadd231ps", "neoverse": "fmla"}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["f32", "bf16", "i16"])
def test_other_processors_have_tiles_that_fit_their_registers(machine, name):
    """No accumulator is spilt in the loop over k: it has as many fma as the tile has vectors."""
    target = MACHINES[machine]
    pieces = products.pieces(Generic(DTYPES[name], True, True, 96, 256))
    text = "".join(assembly(products.code(piece, target), target) for piece in pieces)
    if name != "i16":
        assert text.count(FUSED[machine]) >= 24 if target.registers == 32 else 12
    assert "micro" in text and "fmaf" not in text


def test_a_product_without_memory_for_its_copy_ends_the_call():
    target, generic = Target.host(), Generic(F32, True, False, 96, 256)
    text = products.code(generic, replace(target, threads=1))
    declared = "declare ptr @malloc(i64)"
    assert declared in text
    none = "define internal ptr @malloc(i64 %bytes) {\n  ret ptr null\n}"
    others = [products.machine_code(piece, target) for piece in products.pieces(generic)[1:]]
    library = Library(object_code(text.replace(declared, none), target), target, *others)
    x, y, out = np.ones((200, 100), np.float32), np.ones((200, 70), np.float32), np.zeros((100, 70))
    context = np.zeros(call_words.WORDS, np.int64)
    facts = {"m": 100, "n": 70, "k": 200, "x.step": 100, "y.step": 70, "out.step": 70}
    arrays = {"x": x, "y": y, "out": out, "context": context}
    facts |= {name: array.ctypes.data for name, array in arrays.items()}
    call = np.array([facts.get(word, 0) for word in WORDS], np.int64)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address(generic.name))
    run(context.ctypes.data, call.ctypes.data)
    assert context[call_words.HALT] == OUT_OF_MEMORY and not out.any()
