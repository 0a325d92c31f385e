"""Kernels that several threads share: the same bits on any number of them, the same errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.statements import Loop, LoopKernel, statements
from dlvm.gen.loops.verifier import verify
from dlvm.gen.schedule.grains import strips
from tests.gen.compiled import cpu

from .compiled import USUAL, Compiled, interpret, kernel, loops
from .lower.test_kernels import CENTRED, SOFTMAX
from .values import same_bits

FINE = cpu(work=64)
"""A schedule that shares loops of any size."""
ALONE = cpu(work=0)
THREADS = (1, 2, 3, 7)

FLAT = """func @f(%x: f32[N], %k: f32) -> (f32[N], f64[N]) {
  %e = exp %x : f32[N]
  %kb = broadcast %k shape=(N) axes=() : f32[N]
  %y = mul %e, %kb : f32[N]
  %z = cast %y dtype=f64 : f64[N]
  return %y, %z
}"""
ADDED = """func @f(%x: f32[N,M], %y: f32[M]) -> f32[N,M] {
  %b = broadcast %y shape=(N,M) axes=(1) : f32[N,M]
  %z = add %x, %b : f32[N,M]
  return %z
}"""
PERMUTED = """func @f(%x: i16[A,B,C]) -> i16[C,A,B] {
  %t = permute %x perm=(2,0,1) : i16[C,A,B]
  %z = add %t, %t : i16[C,A,B]
  return %z
}"""
TRANSPOSED = """func @f(%x: f32[N,M], %y: f32[M,N], %w: f64[M,N]) -> (f32[N,M], f64[N,M]) {
  %t = permute %y perm=(1,0) : f32[N,M]
  %z = add %x, %t : f32[N,M]
  %u = permute %w perm=(1,0) : f64[N,M]
  %v = add %u, %u : f64[N,M]
  return %z, %v
}"""
COLUMNS = """func @f(%x: f32[N,M]) -> f32[M] {
  %s = sum %x axes=(0) : f32[M]
  return %s
}"""
BOTH = """func @f(%x: f32[N,M]) -> (f32[M], f32[N,M], f32) {
  %s = sum %x axes=(0) : f32[M]
  %t = exp %s : f32[M]
  %y = mul %x, %x : f32[N,M]
  %z = max %t axes=(0) : f32
  return %t, %y, %z
}"""
PICKED = """func @f(%x: f32[N,M], %i: i64[K]) -> f32[K,M] {
  %g = gather %x, %i axis=0 : f32[K,M]
  return %g
}"""


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(*shape):
    return np.random.default_rng(1).integers(-99, 99, shape).astype(np.int16)


NORMALISED = """func @f(%x: f32[N]) -> (f32, f32[N]) {
  %s = sum %x axes=(0) : f32
  %b = broadcast %s shape=(N) axes=() : f32[N]
  %c = sub %x, %b : f32[N]
  %q = mul %c, %c : f32[N]
  %t = sum %q axes=(0) : f32
  %tb = broadcast %t shape=(N) axes=() : f32[N]
  %y = div %x, %tb : f32[N]
  return %s, %y
}"""
FEW_ROWS = """func @f(%x: f64[3,N]) -> (i64[3], f64[3]) {
  %i = argmax %x axes=(1) : i64[3]
  %s = sum %x axes=(1) : f64[3]
  return %i, %s
}"""
IN_ORDER = """func @f(%x: f32[N], %y: f32[N]) -> (f32, f32) {
  %m, %c = fold [%x, %y] identities=(1.0, 0.0) axes=(0) : f32, f32
    combine(%a: f32, %b: f32, %c: f32, %d: f32) -> (f32, f32) {
      %m = mul %a, %c : f32
      %e = mul %b, %c : f32
      %f = add %e, %d : f32
      return %m, %f
    }
  return %m, %c
}"""


def affine(n):
    """Maps x -> a x + b, which do not commute."""
    return np.where(np.arange(n) % 2, np.float32(0.5), np.float32(2)), normal(n)


CASES = {
    "flat": (FLAT, [(normal(n), np.float32(2)) for n in (0, 1, 17, 64, 1000, 4099)]),
    "rows and columns": (
        ADDED,
        [
            (normal(n, m), normal(m))
            for n, m in ((0, 5), (3, 0), (7, 67), (2, 3001), (31, 65), (32, 65), (33, 0), (501, 3))
        ],
    ),
    "three axes": (PERMUTED, [(whole(*s),) for s in ((3, 4, 5), (1, 67, 2), (70, 1, 3))]),
    "transposed": (
        TRANSPOSED,
        [
            (normal(n, m), normal(m, n), normal(m, n).astype(np.float64))
            for n, m in ((0, 3), (1, 1), (17, 65), (70, 200), (128, 64), (257, 67))
        ],
    ),
    "softmax": (SOFTMAX, [(normal(n, m), np.float32(2)) for n, m in ((1, 9), (40, 67), (3, 5000))]),
    "centred": (CENTRED, [(normal(n, m), normal(m)) for n, m in ((1, 9), (41, 130), (2, 4200))]),
    "columns": (COLUMNS, [(normal(n, m),) for n, m in ((3, 9), (130, 67), (4200, 33))]),
    "several nests": (BOTH, [(normal(n, m),) for n, m in ((3, 9), (37, 33), (2, 150))]),
    "long": (NORMALISED, [(normal(n),) for n in (0, 1, 64, 65, 1003)]),
    "a few long rows": (FEW_ROWS, [(normal(3, n).astype(np.float64),) for n in (1, 64, 1003)]),
    "in order": (IN_ORDER, [affine(n) for n in (0, 1, 64, 65, 1003)]),
    "picked": (
        PICKED,
        [(normal(9, m), np.arange(k) % 9) for k, m in ((5, 1), (150, 3), (2, 900))],
    ),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", CASES)
def test_the_number_of_threads_changes_no_bit(name):
    text, calls = CASES[name]
    op, _ = kernel(text, tree=(64, 32))
    compiled, alone = Compiled(op, FINE), Compiled(op, ALONE)
    assert compiled.lowered.forks and not alone.lowered.forks
    for arrays in calls:
        expected, _ = alone(*arrays)
        for found, here in zip(interpret(op, arrays, FINE)[0], expected, strict=True):
            np.testing.assert_allclose(found, here, rtol=1e-5)
        for threads in THREADS:
            found, _ = compiled(*arrays, threads=threads)
            assert all(map(same_bits, found, expected)), threads


@pytest.mark.parametrize(
    ("width", "lanes"), [(31, 0), (34, 0), (40, 16), (64, 32), (300, 64), (511, 64), (1000, 64)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_are_folded_in_strips(width, lanes, dtype):
    """Each column by itself, row after row: the last strip is masked, the rest is whole."""
    text = COLUMNS.replace("f32", "f64" if dtype == np.float64 else "f32")
    op, _ = kernel(text.replace("M", str(width)), tree=(64, 1))
    (outer,) = (s for s in loops(op).body if isinstance(s, Loop))
    assert outer.width == lanes and outer.grain % (lanes or 64) == 0
    x = normal(37, width).astype(dtype)
    expected = np.add.accumulate(x, axis=0)[-1]
    for threads in (1, 2):
        (found,), _ = Compiled(op)(x, threads=threads)
        assert same_bits(found, expected)


def test_strips_are_what_registers_hold():
    wide, narrow = replace(USUAL, vector_bits=512, registers=32), USUAL
    assert (strips(wide), strips(narrow)) == ((512, 256, 128), (64, 32, 16))


def test_small_kernels_are_not_shared():
    for text in (FLAT, CENTRED):
        small = kernel(text.replace("N", "32").replace("B", "4"))[0]
        assert not loops(small).forks
        assert loops(kernel(text)[0]).forks


def test_a_grain_is_enough_work_where_sizes_are_known():
    """Cheap turns are taken by the thousand, dear ones one by one; short rows as whole rows."""

    def shared(text):
        (found,) = (s for s in statements(loops(kernel(text)[0]).body) if getattr(s, "grain", 0))
        return found

    cheap = shared(ADDED.replace("M", "1024").replace("N", "4096"))
    assert cheap.kind == "parallel" and cheap.levels == 1 and 2 <= cheap.grain <= 32
    wide = shared(ADDED.replace("M", "1000000").replace("N", "3"))
    assert wide.levels == 2 and 2048 <= wide.grain <= 65536
    assert shared(SOFTMAX.replace("N", "30000")).grain == 1


def test_the_first_error_is_that_of_one_thread():
    """Whichever thread meets one first."""
    op, _ = kernel(PICKED)
    compiled = Compiled(op, FINE)
    x, good = normal(9, 3), np.arange(700) % 9
    assert not compiled(x, good, threads=2)[1].any()
    for bad in ({699: 9}, {200: -10, 500: 44}, {i: 100 + i for i in range(13, 700, 7)}):
        indices = good.copy()
        indices[list(bad)] = list(bad.values())
        expected = interpret(op, (x, indices), FINE)[1]
        assert tuple(expected[1:3]) == (bad[min(bad)], 9)
        for threads in THREADS:
            for _ in range(5):
                assert np.array_equal(compiled(x, indices, threads=threads)[1], expected)


def test_an_error_before_the_loop_comes_first():
    """The second nest of a kernel that has failed leaves the status as it is."""
    op, _ = kernel("""func @f(%x: f32[N], %i: i64[K], %j: i64[L]) -> (f32[K], f32[L]) {
      %g = gather %x, %i axis=0 : f32[K]
      %h = gather %x, %j axis=0 : f32[L]
      return %g, %h
    }""")
    compiled = Compiled(op, FINE)
    i, j = np.zeros(900, np.int64), np.zeros(800, np.int64)
    i[899], j[0] = 70, 71
    for threads in THREADS:
        assert compiled(normal(9), i, j, threads=threads)[1][1] == 70
        assert compiled(normal(9), 0 * i, j, threads=threads)[1][1] == 71


def with_grain(op, **changes):
    """The loops of a kernel, with other ones on their first loop."""
    lowered = loops(op, ALONE)
    at = next(i for i, s in enumerate(lowered.body) if isinstance(s, Loop))
    loop = lowered.body[at]
    fields = {n: getattr(loop, n) for n in loop.__dataclass_fields__}
    body = (*lowered.body[:at], Loop(**{**fields, **changes}), *lowered.body[at + 1 :])
    return LoopKernel("k", lowered.buffers, lowered.symbols, body, False)


def test_the_verifier_lets_no_dependent_loop_be_shared():
    total = kernel(
        COLUMNS.replace("axes=(0) : f32[M]", "axes=(0,1) : f32").replace("f32[M]", "f32")
    )
    with pytest.raises(CompilerError, match="threads can't share"):
        verify(with_grain(total[0], grain=1))
    verify(with_grain(kernel(ADDED)[0], grain=1, levels=2))
    with pytest.raises(CompilerError, match="threads can't share"):
        verify(with_grain(kernel(ADDED)[0], grain=1, levels=3))
    with pytest.raises(CompilerError, match="threads can't share"):
        verify(with_grain(kernel(CENTRED)[0], grain=1, levels=2))


def test_what_lies_transposed_is_turned_in_registers():
    """Where the type is that of vectors; else element by element, with the same result."""
    op, _ = kernel(TRANSPOSED)
    compiled = Compiled(op, FINE)
    assert "@turn.f32.64(" in compiled.text and "@turn.f64.64(" in compiled.text
    assert any(step.startswith("stage") for step in compiled.lowered.steps)
    for arrays in CASES["transposed"][1]:
        x, y, w = arrays
        for found, expected in zip(compiled(*arrays)[0], (x + y.T, 2 * w.T), strict=True):
            assert np.array_equal(found, expected)
    whole_numbers = Compiled(kernel(PERMUTED)[0], FINE)
    assert "@turn." not in whole_numbers.text
    for (x,) in CASES["three axes"][1]:
        assert np.array_equal(whole_numbers(x)[0][0], 2 * x.transpose(2, 0, 1))
