"""Code that checks every access: right programs pass to the bit, planted mistakes are told."""

from __future__ import annotations

import ctypes
import re
from contextlib import contextmanager
from ctypes import CFUNCTYPE, c_int64, c_void_p

import numpy as np
import pytest
from llvmlite import binding

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.gen.checked import bounds
from dlvm.gen.cpu.access import Access
from dlvm.gen.llvm.binding import Library, object_code
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.target import Target

RNG = np.random.default_rng(0)


def step(params, x, y):
    def loss(params):
        h = dlvm.tanh(x @ params["w1"] + params["b1"])
        return dlvm.nn.cross_entropy(h @ params["w2"], y).mean()

    value, g = dlvm.value_and_grad(loss)(params)
    return value, {k: params[k] - 0.1 * g[k] for k in ("b1", "w1", "w2")}, dlvm.sort(x)[:, ::-1]


PARAMS = {
    "w1": RNG.normal(size=(18, 17)).astype(np.float32),
    "b1": np.zeros(17, np.float32),
    "w2": RNG.normal(size=(17, 10)).astype(np.float32),
}
X, Y = RNG.normal(size=(19, 18)).astype(np.float32), np.arange(19) % 10


def leaves(tree):
    return dlvm.tree.leaves(tree)


def test_a_training_step_gives_the_same_bits():
    staged = dlvm.function(step)
    plain = staged(PARAMS, X, Y)
    with dlvm.debug(bounds=True):
        checked = staged(PARAMS, X, Y)
    for a, b in zip(leaves(plain), leaves(checked), strict=True):
        assert a.tobytes() == b.tobytes()
    reasons = [c.reason for c in staged.explain().compiles]
    assert reasons == ["first call", "dlvm.debug(bounds=...) changed"]
    assert "dlvm_bounds" not in staged.compile(PARAMS, X, Y).text("llvm")


@contextmanager
def memory_from(malloc):
    """Code that is linked inside takes memory from a function of ours, and does not free it."""
    taken = CFUNCTYPE(c_void_p, c_int64)(malloc)
    freed = CFUNCTYPE(None, c_void_p)(lambda p: None)
    own = ctypes.CDLL(None)
    for name, function in (("malloc", taken), ("free", freed)):
        binding.add_symbol(name, ctypes.cast(function, c_void_p).value)
    try:
        yield
    finally:
        for name in ("malloc", "free"):
            binding.add_symbol(name, ctypes.cast(getattr(own, name), c_void_p).value)


def products(x, y, z):
    return x @ y.T, z.T @ z.T, dlvm.tanh(y.T @ x).sum(0)


def test_memory_that_was_given_back_is_forgotten():
    """A block that begins before one that is no more was judged by that, and refused."""
    room, taken = np.zeros(1 << 25, np.uint8), []

    def malloc(size):
        taken.append(size)
        return room.ctypes.data + (1 << 24) - 40_000 * len(taken)

    x, y, z = (RNG.normal(size=(n, n)) for n in (70, 70, 300))
    with memory_from(malloc):
        found = dlvm.function(products, debug="bounds", threads=1)(x, y, z)
    assert len(taken) >= 3
    for a, b in zip(found, dlvm.function(products)(x, y, z), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("debug", [(), "bounds"], ids=str)
def test_a_call_without_memory_for_its_products_ends(debug):
    """Wherever it runs out; the next call is right. What checks bounds told of a fault of ours."""
    room, taken, fails = np.zeros(1 << 25, np.uint8), [], -1

    def malloc(size):
        taken.append(size)
        used = sum(-(-size // 64) * 64 for size in taken[:-1])
        return None if len(taken) - 1 == fails else room.ctypes.data + used

    x, y, z = (RNG.normal(size=(n, n)).astype(np.float32) for n in (150, 150, 300))
    expected = dlvm.function(products)(x, y, z)
    with memory_from(malloc):
        staged = dlvm.function(products, debug=debug, threads=1)
        staged(x, y, z)
        for call in range(count := len(taken)):
            taken.clear()
            fails = call
            with pytest.raises(MemoryError):
                staged(x, y, z)
        taken.clear()
        fails = -1
        found = staged(x, y, z)
    assert count >= 3
    for a, b in zip(found, expected, strict=True):
        assert a.tobytes() == b.tobytes()


@dlvm.function(debug="bounds", dynamic=True)
def looped(x, n):
    def body(i, c):
        return dlvm.cond(c.sum() > 3.0, lambda c: dlvm.sqrt(abs(c)), lambda c: c * x + 1.0, c)

    return dlvm.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, body(c[0], c[1])), (0, x))[1]


def test_loops_tapes_and_open_sizes():
    slope = dlvm.function(lambda x: dlvm.grad(lambda x: looped(x, 5).sum())(x), debug="bounds")
    for n in (0, 1, 7, 40):
        x = RNG.normal(size=n)
        assert np.allclose(looped(x, 3), looped.python(x, 3))
        assert np.allclose(slope(x), dlvm.grad(lambda x: looped.python(x, 5).sum())(x))
    assert "dlvm_bounds" in looped.compile(np.ones(3), 3).text("llvm")


@pytest.mark.parametrize(("off", "index"), [(1, 7), (-1, -1)])
def test_an_access_that_is_off_by_one_is_told(off, index, monkeypatch):
    right = Access._address
    monkeypatch.setattr(Access, "_address", lambda a, place, at: right(a, place, at + off))
    f = dlvm.function(debug="bounds")(lambda x: dlvm.tanh(x) * 2.0)  # here
    with pytest.raises(CompilerError) as found:
        f(np.ones(7, np.float32))
    said = str(found.value)
    assert said.startswith("kernel k0 (test_bounds.py:")
    assert f"reads 4 bytes at index {index} of x, which has 7 elements (float32)" in said


def test_a_write_and_a_temporary_are_told(monkeypatch):
    right = Access.store

    def beyond(self, s, x):
        before = self._address
        self._address = lambda place, at: before(place, at + 2)
        try:
            right(self, s, x)
        finally:
            del self._address

    monkeypatch.setattr(Access, "store", beyond)
    f = dlvm.function(debug="bounds")(lambda x: dlvm.tanh(x) @ dlvm.exp(x).T)
    with pytest.raises(CompilerError, match=r"writes .* bytes at index \d+ of t\d+, which has 35"):
        f(np.ones((5, 7), np.float32))


def test_a_product_that_goes_too_far_is_told(monkeypatch):
    from dlvm.gen.products import micro_kernel as micro
    from dlvm.gen.products import objects as product

    right = micro.Vectors.load

    def far(v, pointer, *rest):
        return right(v, v.w.step("i8", pointer, 16777216), *rest)

    monkeypatch.setattr(product, "machine_code", product.machine_code.__wrapped__)
    monkeypatch.setattr(micro.Vectors, "load", far)
    f = dlvm.function(debug="bounds")(lambda x, y: x @ y)
    with pytest.raises(CompilerError, match=r"reads \d+ bytes at index 4194304"):
        f(np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))


def listened() -> FunctionWriter:
    """A function that is written with checks."""
    return FunctionWriter(Text.of(Target.host(), listener=bounds.Checks))


def test_an_access_that_nobody_was_told_of_is_no_secret():
    w = listened()
    w.store("float", w.load("float", "%p"), "%p")
    w.do("store float 0.0, ptr %p")
    with pytest.raises(CompilerError, match="3 instructions of k0 touch memory, and 2 were ann"):
        w.function("void @k0(ptr %p)")
    w = listened()
    w.load("float", w.value("getelementptr float, ptr %p, i64 1"))
    with pytest.raises(CompilerError, match="1 instructions of k0 step from a pointer, and 0 were"):
        w.function("void @k0(ptr %p)")


def test_a_trusted_function_is_checked_only_where_it_copies():
    w = FunctionWriter(Text.of(Target.host(), listener=bounds.Checks), trusted=True)
    w.store("float", w.load("float", "%p"), "%p")
    w.copy("%p", "%q", "8")
    form = r"@dlvm_bounds\.one\(ptr null, ptr (%\w+), i64 8, i64 (\d+)\)"
    checks = re.findall(form, w.function("void @f()"))
    assert [pointer for pointer, _ in checks] == ["%p", "%q"]
    assert [bounds.SITES[int(n)].writes for _, n in checks] == [True, False]


def test_each_check_has_a_number_of_its_own():
    w = listened()
    for _ in range(2):
        w.load("float", "%p")
    w.load("i64", "%p", 8, order="monotonic")
    numbers = re.findall(r"@dlvm_bounds\.one\(.*, i64 (\d+)\)", w.function("void @f()"))
    assert len(numbers) == len(set(numbers)) == 2
    assert {bounds.SITES[int(n)] for n in numbers} == {
        bounds.Site("f", "load float, ptr %p", writes=False)
    }


def test_a_copy_of_nothing_may_lie_anywhere():
    w, host = listened(), Target.host()
    w.copy("%p", "%p", "%size")
    failed = w.load("i64", "@dlvm_bounds", 8, order="monotonic")
    w.text.functions["try"] = w.function("i64 @try(ptr %p, i64 %size)", last=f"ret i64 {failed}")
    bounds.include_checks(w.text, owner=True)
    code = Library(object_code(str(w.text), host), host)
    copied = CFUNCTYPE(c_int64, c_void_p, c_int64)(code.address("try"))
    elsewhere = (c_int64 * 2)()
    assert copied(elsewhere, 0) == 0 and copied(elsewhere, 8) == 1


def test_calls_may_have_thousands_of_buffers():
    double = dlvm.function(lambda xs: [x * 2 for x in xs])
    many = list(RNG.normal(size=(520, 2)))
    with dlvm.debug(bounds=True):
        assert np.array_equal(double(many), 2 * np.array(many))


def test_every_load_and_store_of_a_kernel_has_a_check_in_front():
    text = dlvm.function(debug="bounds")(step).compile(PARAMS, X, Y).text("llvm")
    kernels = re.findall(r"^define internal void @k\d+\(.*?^}", text, re.M | re.S)
    assert len(kernels) > 3
    for body in kernels:
        touched = re.findall(r"= load [^,]+, ptr (%[\w.]+)", body)
        touched += re.findall(r"  store [^,]+, ptr (%[\w.]+)", body)
        assert all(p.startswith("%checked.") for p in touched)


def test_functions_that_call_themselves_are_checked_in_every_activation():
    @dlvm.function
    def power(n, x):
        return dlvm.cond(n <= 0, lambda: x * 0 + 1.0, lambda: x * power(n - 1, x))

    with dlvm.debug(bounds=True):
        np.testing.assert_array_equal(power(5, np.full(9, 2.0)), np.full(9, 32.0))
        np.testing.assert_array_equal(dlvm.grad(power, wrt=1)(3, 2.0), 12.0)
