"""Long sums of products: each chunk of k is a chain, and chunks are added from first to last."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.gen.loops.interpreter import multiply_add
from dlvm.gen.loops.statements import CHUNK

RNG = np.random.default_rng(0)
DEPTHS = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 1009)


def drawn(dtype, *shape):
    return (8 * RNG.normal(size=shape)).astype(dtype)


def chained(x, y, chunk=CHUNK):
    """The sums as they are stated, each step rounded once, in the type of the sum."""
    wide = np.float32 if x.dtype == np.float16 else x.dtype
    x, y = x.astype(wide), y.astype(wide)
    total = zero = np.zeros((x.shape[0], y.shape[1]), wide)
    for start in range(0, x.shape[1], chunk):
        part = zero
        for k in range(start, min(start + chunk, x.shape[1])):
            part = multiply_add(x[:, k : k + 1], y[k : k + 1], part)
        total = total + part if start else part
    return total


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("k", DEPTHS)
@pytest.mark.parametrize(("m", "n"), [(1, 33), (37, 1), (5, 40), (31, 70)])
def test_the_order_is_the_stated_one(m, n, k, turned):
    for dtype in ("f4", "i4", "f2"):
        x, y = drawn(dtype, m, k), drawn(dtype, k, n)
        given = [np.ascontiguousarray(a.T) if t else a for a, t in zip((x, y), turned, strict=True)]

        def f(a, b):
            return (a.T if turned[0] else a) @ (b.T if turned[1] else b)

        expected = chained(x, y).astype(dtype)
        for threads in (1, 2, 3):
            found = np.asarray(dlvm.function(f, threads=threads)(*given))
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("k", [CHUNK, CHUNK + 1, 1009])
def test_sums_in_tiles_and_computed_operands_too(k):
    x, y, c = drawn("f4", 40, k), drawn("f4", k, 70), drawn("f4", 70)
    found = dlvm.function(lambda x, y, c: dlvm.maximum(x @ y + c, 0).astype("f2"))(x, y, c)
    expected = np.maximum(chained(x, y) + c, 0).astype("f2")
    assert np.array_equal(np.asarray(found), expected)
    found = dlvm.function(lambda x, y: dlvm.maximum(x, 0) @ y)(x, y)
    assert np.array_equal(np.asarray(found), chained(np.maximum(x, 0), y))


def test_up_to_a_chunk_no_bit_is_another():
    x, y = drawn("f4", 31, CHUNK), drawn("f4", CHUNK, 70)
    assert np.array_equal(chained(x, y), chained(x, y, chunk=1 << 30))
    assert np.array_equal(np.asarray(dlvm.function(lambda x, y: x @ y)(x, y)), chained(x, y))


@pytest.mark.parametrize("target", ["cuda:sm_75", "cuda:sm_90"])
def test_a_gpu_gives_the_same_bits(target):
    x, y = drawn("f4", 17, 600), drawn("f4", 600, 9)
    with using(EmulatedDevice()):
        found = np.asarray(dlvm.function(lambda x, y: x @ y + 1, target=target)(x, y))
    assert np.array_equal(found, chained(x, y) + 1)
    assert np.array_equal(found, np.asarray(dlvm.function(lambda x, y: x @ y + 1)(x, y)))


def test_a_long_sum_is_nearly_as_good_as_numpys():
    x, y = (RNG.normal(size=s).astype("f4") for s in ((16, 100_000), (100_000, 16)))
    exact = x.astype("f8") @ y.astype("f8")
    ours = np.abs(np.asarray(dlvm.function(lambda x, y: x @ y)(x, y)) - exact).max()
    assert ours <= 3 * np.abs(x @ y - exact).max()


def test_convolutions_too():
    """By windows of 9 x 64: whole rows of windows are a chunk."""
    x, w = drawn("f4", 2, 7, 7, 64), drawn("f4", 3, 3, 64, 5)
    f = lambda x, w: dlvm.nn.conv(x, w)  # noqa: E731
    found = np.asarray(dlvm.function(f)(x, w))
    exact = np.asarray(dlvm.function(f)(x.astype("f8"), w.astype("f8")))
    sizes = np.asarray(dlvm.function(f)(np.abs(x).astype("f8"), np.abs(w).astype("f8")))
    assert (np.abs(found - exact) <= 2.0**-24 * 3 * np.sqrt(576) * sizes).all()
    for threads in (1, 2, 3):
        again = np.asarray(dlvm.function(f, threads=threads)(x, w))
        assert np.array_equal(again, found)


def test_the_sign_of_a_sum_that_underflows_is_that_of_a_cpu():
    """The first chunk is no sum with a zero, which would take the sign of -0.0 away."""
    x = np.zeros((2, 300), "f4")
    y = np.zeros((300, 3), "f4")
    x[:, 0], y[0] = -1e-30, 1e-30
    f = lambda x, y: x @ y  # noqa: E731
    expected = np.asarray(dlvm.function(f)(x, y))
    with using(EmulatedDevice()):
        found = np.asarray(dlvm.function(f, target="cuda")(x, y))
    assert np.array_equal(np.signbit(found), np.signbit(expected))


def test_an_open_size_of_no_terms_gives_zeros():
    f = dlvm.function(lambda x, y: x @ y, target="cuda").compile(
        dlvm.spec("f32[3,K]"), dlvm.spec("f32[K,2]")
    )
    with using(EmulatedDevice()):
        found = np.asarray(f(np.zeros((3, 0), "f4"), np.zeros((0, 2), "f4")))
    assert np.array_equal(found, np.zeros((3, 2), "f4")) and not np.signbit(found).any()
