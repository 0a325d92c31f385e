"""Products for a GPU: tiles of every form, panels that are filled, instructions of a warp."""

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.ir import DTYPES

from .assembly import assembled
from .kinds import f32

SIZES = [(1, 1, 1), (3, 5, 2), (17, 1, 33), (1, 40, 70), (70, 40, 1), (65, 17, 130), (7, 0, 5)]
PRODUCTS = {
    "plain": lambda a, b: a @ b,
    "left transposed": lambda a, b: a.T.copy().T @ b,
    "relu": lambda a, b: dlvm.maximum(a, 0) @ b,
    "picked rows": lambda a, b: a[np.arange(a.shape[0])[::-1]] @ b,
    "finished": lambda a, b: dlvm.tanh(a @ b * 2 + 1),
}


def on_a_gpu(f, *arguments, **options):
    with using(EmulatedDevice(1)):
        return np.asarray(dlvm.function(f, target="cuda", **options)(*arguments))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("form", PRODUCTS)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_size_gives_the_bits_of_a_cpu(form, size):
    m, k, n = size
    a, b = f32(m, k), f32(k, n)
    f = PRODUCTS[form]
    assert np.array_equal(on_a_gpu(f, a, b), dlvm.function(f)(a, b))


@pytest.mark.parametrize("dtype", ["f64", "i32", "u8"])
def test_other_types_do_as_well(dtype):
    kind = DTYPES[dtype].numpy
    a, b = (np.abs(9 * f32(*s)).astype(kind) for s in ((33, 20), (20, 9)))
    assert np.array_equal(
        on_a_gpu(lambda a, b: a @ b, a, b), dlvm.function(lambda a, b: a @ b)(a, b)
    )


def test_batches_transposes_and_gradients():
    def loss(a, b, c):
        return (dlvm.tanh(a @ b).mT @ c).sum()

    arguments = f32(3, 20, 17), f32(3, 17, 9), f32(3, 20, 5)
    slope = dlvm.grad(loss, wrt=(0, 1, 2))
    with using(EmulatedDevice(2)):
        found = dlvm.function(slope, target="cuda")(*arguments)
    for a, b in zip(found, dlvm.function(slope)(*arguments), strict=True):
        assert np.array_equal(np.asarray(a), b)


def test_a_product_that_is_added_in_place():
    def update(a):
        a = a.copy()
        a[16:, 16:] -= a[16:, :16] @ a[:16, 16:]
        return a

    a = f32(50, 50)
    assert np.array_equal(on_a_gpu(update, a), dlvm.function(update)(a))


WARP_SIZES = [(16, 16, 16), (70, 50, 33)]


@pytest.mark.parametrize("size", WARP_SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_halves_by_an_instruction_of_a_warp(dtype, size):
    """Exact products, a sum in f32 and one rounding: as far apart as a sum of k terms may be."""
    m, k, n = size
    a, b = (f32(*s).astype(DTYPES[dtype].numpy) for s in ((m, k), (k, n)))
    for f, x, y in (
        (lambda a, b: a @ b, a, b),
        (lambda a, b: a.T @ b, np.ascontiguousarray(a.T), b),
        (lambda a, b: a @ b.T, a, np.ascontiguousarray(b.T)),
    ):
        found = on_a_gpu(f, x, y)
        wide = a.astype("f8"), b.astype("f8")
        exact, size_of_terms = wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1])
        half = {"bf16": 2.0**-8, "f16": 2.0**-11}[dtype]
        assert (np.abs(found - exact) <= half * np.abs(exact) + k * 2.0**-24 * size_of_terms).all()


def test_which_instruction_computes_stands_in_the_schedule():
    half, single = (f32(64, 64).astype(t) for t in ("f2", "f4"))
    f = dlvm.function(lambda a, b: a @ b, target="cuda")
    assert "instruction=mma.f16" in f.compile(half, half).text("schedule")
    assert "mma.sync.aligned.m16n8k16" in f.compile(half, half).text("ptx")
    assert "mma" not in f.compile(single, single).text("schedule")
    strict = dlvm.function(lambda a, b: a @ b, target="cuda", numerics="strict")
    assert "mma" not in strict.compile(half, half).text("schedule")
    old = dlvm.function(lambda a, b: a @ b, target="cuda:sm_75")
    assert "mma" not in old.compile(half, half).text("schedule")
    fast = dlvm.function(lambda a, b: a @ b, target="cuda", numerics="fast")
    assert "instruction=mma.tf32" in fast.compile(single, single).text("schedule")


def test_tf32_keeps_ten_digits_of_each_factor():
    a, b = f32(40, 50), f32(50, 33)
    found = on_a_gpu(lambda a, b: dlvm.maximum(a, 0) @ b, a, b, numerics="fast")
    wide = np.maximum(a, 0).astype("f8"), b.astype("f8")
    error = np.abs(found - wide[0] @ wide[1])
    assert (error <= 2.0**-10 * (np.abs(wide[0]) @ np.abs(wide[1]))).all()
    assert error.max() > 1e-5


@pytest.mark.parametrize("size", [(1024, 256, 1024), (100, 30, 40), (8, 200, 500)])
def test_products_spill_no_register(size, tmp_path):
    """Of one chunk of k; the sums of earlier chunks may lie in memory, as each is touched once."""
    m, k, n = size
    for dtype, mode in (("f4", "default"), ("f4", "fast"), ("f2", "default"), ("f8", "default")):
        x, y = (
            dlvm.spec(f"f{8 * int(dtype[1])}[{m},{k}]"),
            dlvm.spec(f"f{8 * int(dtype[1])}[{k},{n}]"),
        )
        f = dlvm.function(lambda a, b: a @ b + 1, target="cuda:sm_90", numerics=mode)
        assert not any(assembled(f.compile(x, y).text("ptx"), tmp_path).spilt)
