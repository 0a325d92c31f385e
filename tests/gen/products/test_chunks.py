"""Long sums of products: each chunk of k is a chain, and chunks are added from first to last."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.gen.loops.interpreter import multiply_add
from dlvm.gen.loops.statements import CHUNK
from dlvm.ir import DTYPES

RNG = np.random.default_rng(0)
DEPTHS = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 1009)


def drawn(dtype, *shape):
    return (8 * RNG.normal(size=shape)).astype(dtype)


def chained(x, y, wide=None, chunk=CHUNK):
    """The sums as they are stated, each step rounded once, in the type of the sum."""
    wide = wide or (np.float32 if x.dtype == np.float16 else x.dtype)
    x, y = x.astype(wide), y.astype(wide)
    total = zero = np.zeros((x.shape[0], y.shape[1]), wide)
    for start in range(0, x.shape[1], chunk):
        part = zero
        for k in range(start, min(start + chunk, x.shape[1])):
            part = multiply_add(x[:, k : k + 1], y[k : k + 1], part)
        total = total + part if start else part
    return total


@pytest.mark.drawn(3)
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


@pytest.mark.drawn(3)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("few", [3, 12, 13, 20])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_few_rows_or_columns_times_a_large_matrix(dtype, few, turned):
    """Sums of earlier chunks lie on the stack, or of too many rows in the result."""
    for m, n in ((few, 301), (301, few)):
        x, y = drawn(dtype, m, 1009), drawn(dtype, 1009, n)
        given = [np.ascontiguousarray(a.T) if t else a for a, t in zip((x, y), turned, strict=True)]

        def f(a, b):
            return (a.T if turned[0] else a) @ (b.T if turned[1] else b)

        assert np.array_equal(np.asarray(dlvm.function(f)(*given)), chained(x, y))


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


def on_gpu(f, *arrays, target="cuda:sm_75"):
    """What the emulator of a GPU computes."""
    with using(EmulatedDevice()):
        return np.asarray(dlvm.function(f, target=target)(*arrays))


def multiplied(x, y):
    """The function of most tests."""
    return x @ y


@pytest.mark.parametrize("target", ["cuda:sm_75", "cuda:sm_90"])
def test_a_gpu_gives_the_same_bits(target):
    x, y = drawn("f4", 17, 600), drawn("f4", 600, 9)
    found = on_gpu(lambda x, y: x @ y + 1, x, y, target=target)
    assert np.array_equal(found, chained(x, y) + 1)
    assert np.array_equal(found, np.asarray(dlvm.function(lambda x, y: x @ y + 1)(x, y)))


@pytest.mark.parametrize("k", [0, 1, CHUNK, CHUNK + 1])
def test_a_zero_has_one_sign(k):
    """Products too small for a float round to -0.0, which a sum that starts from 0.0 loses."""
    x, y = np.full((5, k), -1e-30, "f4"), np.full((k, 9), 1e-30, "f4")
    expected = np.signbit(chained(x, y))
    assert expected.all() == (k > 0)
    for found in (np.asarray(dlvm.function(multiplied)(x, y)), on_gpu(multiplied, x, y)):
        assert np.array_equal(np.signbit(found), expected)
    open_k = dlvm.function(multiplied, target="cuda:sm_75", dynamic={"x": "5,K", "y": "K,9"})
    with using(EmulatedDevice()):
        assert np.array_equal(np.signbit(np.asarray(open_k(x, y))), expected)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64", "i8", "i32", "i64", "u8", "u64"])
@pytest.mark.parametrize("k", [CHUNK, 2 * CHUNK - 1])
def test_every_type(name, k):
    dtype = DTYPES[name].numpy
    x, y = (np.abs(drawn("f4", *shape)).astype(dtype) for shape in ((7, k), (k, 20)))
    found = np.asarray(dlvm.function(multiplied)(x, y))
    assert found.tobytes() == chained(x, y, DTYPES[name].compute.numpy).astype(dtype).tobytes()


def test_of_a_batch():
    x, y = drawn("f4", 3, 6, 700), drawn("f4", 3, 700, 10)
    expected = np.stack([chained(a, b) for a, b in zip(x, y, strict=True)])
    assert np.array_equal(np.asarray(dlvm.function(multiplied)(x, y)), expected)
    assert np.array_equal(on_gpu(multiplied, x, y), expected)


def test_of_vectors_where_sums_may_not_be_rewritten():
    x, y = drawn("f4", 1009), drawn("f4", 1009, 5)
    found = dlvm.function(multiplied, numerics="strict")(x, y)
    assert np.array_equal(np.asarray(found), chained(x[None], y)[0])
    found = dlvm.function(multiplied, numerics="strict")(x, y[:, 0])
    assert np.array_equal(np.asarray(found), chained(x[None], y[:, :1])[0, 0])


def test_of_a_gradient():
    """With respect to y it is ``x' dz``, a sum over the rows of x."""
    x, y, dz = drawn("f4", 700, 7), drawn("f4", 7, 9), drawn("f4", 700, 9)

    def loss(y, x, dz):
        return dlvm.sum((x @ y) * dz)

    expected = chained(np.ascontiguousarray(x.T), dz)
    assert np.array_equal(np.asarray(dlvm.function(dlvm.grad(loss))(y, x, dz)), expected)
    assert np.array_equal(on_gpu(dlvm.grad(loss), y, x, dz), expected)


def test_a_long_sum_is_nearly_as_good_as_numpys():
    x, y = (RNG.normal(size=s).astype("f4") for s in ((16, 100_000), (100_000, 16)))
    exact = x.astype("f8") @ y.astype("f8")
    ours = np.abs(np.asarray(dlvm.function(lambda x, y: x @ y)(x, y)) - exact).max()
    assert ours <= 3 * np.abs(x @ y - exact).max()


@pytest.mark.parametrize(("side", "channels"), [(3, 64), (3, 96), (5, 16), (11, 3), (3, 300)])
def test_windows_are_cut_as_matrices_are(side, channels):
    """Whether the columns of the windows are computed by units which a chunk holds or cuts."""
    x, w = drawn("f4", 2, side + 3, side + 2, channels), drawn("f4", side, side, channels, 5)
    windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), (1, 2))
    rows = np.moveaxis(windows, 3, 5).reshape(2 * 4 * 3, -1)
    expected = chained(rows, w.reshape(-1, 5)).reshape(2, 4, 3, 5)

    def conv(x, w):
        return dlvm.nn.conv(x, w, padding="VALID")

    for threads in (1, 2, 3):
        found = np.asarray(dlvm.function(conv, threads=threads)(x, w))
        assert np.array_equal(found, expected)
    if side * channels < 100:
        assert np.array_equal(on_gpu(conv, x, w), expected)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4"])
def test_any_number_of_rows(dtype, turned):
    """Rows that the widest micro kernel leaves are summed by lower ones, and one or two alone."""
    k, n = CHUNK + 7, 150
    y = drawn(dtype, k, n)
    for m in (*range(1, 20), 26, 48, 56, 127, 128):
        x = drawn(dtype, m, k)
        given = np.ascontiguousarray(x.T) if turned else x
        found = dlvm.function(lambda x, y: (x.T if turned else x) @ y)(given, y)
        assert np.array_equal(np.asarray(found), chained(x, y).astype(dtype)), m


@pytest.mark.parametrize("n", [10, 64, 300, 1100])
def test_one_row_and_two(n):
    """Into a row, a column of a transposed result, and with an epilogue; x near or apart."""
    k = 2 * CHUNK + 3
    y, c = drawn("f4", k, n), drawn("f4", n)
    for m in (1, 2):
        x = drawn("f4", m, k)
        expected = chained(x, y)
        apart = np.ascontiguousarray(x.T)
        assert np.array_equal(np.asarray(dlvm.function(lambda x, y: x @ y)(x, y)), expected)
        assert np.array_equal(dlvm.function(lambda x, y: x.T @ y)(apart, y), expected)
        assert np.array_equal(dlvm.function(lambda x, y: (x @ y).T * 1)(x, y), expected.T)
        found = dlvm.function(lambda x, y, c: dlvm.maximum(x @ y + c, 0))(x, y, c)
        assert np.array_equal(found, np.maximum(expected + c, 0))
