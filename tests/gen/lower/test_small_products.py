"""Small products of known sizes are plain loops, with the bits of a product."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.lower.products import FEW, SMALL, SMALL_ALONG, SMALLEST

RNG = np.random.default_rng(0)
SIZES = [(1, 1, 1), (1, 64, 48), (4, 32, 32), (8, 8, 8), (3, 0, 5), (0, 3, 5), (2, 5, 0), (4, 4, 4)]


def drawn(dtype, *shape):
    return (4 * RNG.normal(size=shape)).astype(dtype)


def is_loops(f, *specs):
    return "product" not in f.compile(*map(dlvm.spec, specs)).text("loops")


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4"])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_bits_are_those_of_a_product(sizes, dtype):
    """Which one of open sizes is."""
    m, k, n = sizes
    x, y, c = drawn(dtype, m, k), drawn(dtype, k, n), drawn(dtype, n)
    for f, args in (
        (lambda x, y: x @ y, (x, y)),
        (lambda x, y: x @ y.T, (x, np.ascontiguousarray(y.T))),
        (lambda x, y: x.T @ y, (np.ascontiguousarray(x.T), y)),
        (lambda x, y, c: dlvm.maximum(x @ y + c, 0) * 2, (x, y, c)),
    ):
        expected = dlvm.function(f, dynamic=True)(*args)
        assert np.array_equal(np.asarray(dlvm.function(f)(*args)), np.asarray(expected))


def test_batches_and_vectors():
    x, y, v = drawn("f4", 3, 4, 5), drawn("f4", 3, 5, 6), drawn("f4", 5)
    for f, args in ((lambda x, y: x @ y, (x, y)), (lambda x, v: x @ v, (x, v))):
        expected = dlvm.function(f, dynamic=True)(*args)
        assert np.array_equal(dlvm.function(f)(*args), expected)


def test_which_are_small():
    plain = dlvm.function(lambda x, y: x @ y)
    turned = dlvm.function(lambda x, y: x @ y.T)
    n = SMALL_ALONG // (FEW * 16)
    assert is_loops(plain, f"f32[{FEW},16]", f"f32[16,{n}]")
    assert not is_loops(plain, f"f32[{FEW},16]", f"f32[16,{n + 1}]")
    n = SMALL // (8 * 8)
    assert is_loops(plain, "f32[8,8]", f"f32[8,{n}]")
    assert not is_loops(plain, "f32[8,8]", f"f32[8,{n + 1}]")
    n = SMALLEST // (4 * 4)
    assert is_loops(turned, "f32[4,4]", f"f32[{n},4]")
    assert not is_loops(turned, "f32[4,4]", f"f32[{n + 1},4]")
    assert not is_loops(plain, "f32[1,257]", "f32[257,2]")  # of two chunks


def test_a_small_network_is_small_code():
    """Of a network of two layers for one image, on a processor without vectors."""
    w, v = drawn("f4", 64, 48), drawn("f4", 48, 10)

    def net(x):
        return dlvm.nn.softmax(dlvm.maximum(x @ w, 0) @ v)

    made = dlvm.aot(net, dlvm.spec("f32[64]"), target="thumbv7em-none-eabihf", size=True)
    header = made.files["net.h"].decode()
    assert len(made.files["net.o"]) < 8000
    stack = next(line for line in header.splitlines() if "STACK_BYTES" in line)
    assert int(stack.split()[-1]) < 8192
