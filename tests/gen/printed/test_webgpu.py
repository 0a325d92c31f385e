"""Programs on a device of WebGPU, such as Mesa's llvmpipe: the bits of a CPU without fma."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.build import build
from dlvm.gen.gpu.devices import webgpu
from dlvm.gen.gpu.executable import built
from dlvm.ir import DTYPES, Builder, Function, Module, Param
from dlvm.ops import Digamma, Kernel, LGamma, Polygamma
from dlvm.target import Target
from dlvm.targets import named
from tests.gen.math.test_instructions import all_of
from tests.gen.values import numbers, same_bits

from . import comparing
from .comparing import device_or_skip

rng = np.random.default_rng(0)
IN_F64 = (LGamma, Digamma, Polygamma)
WITHOUT_FMA = replace(Target.host(), fma=False)


@pytest.fixture(scope="module", autouse=True)
def device():
    return device_or_skip("webgpu")


def f32(*shape):
    return rng.normal(size=shape).astype("f4")


on_device = partial(comparing.on_device, "webgpu")
assert_close = partial(comparing.assert_close, "webgpu")


def assert_bits(found, expected):
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert same_bits(a, b) or (np.isnan(a) and np.isnan(b))


def is_there(op):
    """Whether WGSL has an operation and the types of its results."""
    return not isinstance(op, IN_F64) and all(x.type.dtype.name != "f64" for x in op.results)


@pytest.mark.parametrize("dtype", ["i8", "u64", "f32"])
def test_every_element_wise_operation_has_the_bits_of_code_without_fma(device, dtype):
    """In several kernels, as the device gives only some arrays to one."""
    whole = all_of(DTYPES[dtype], 211)
    params = tuple(Param(x.type, x.name) for x in whole.operands)
    arrays = [numbers(x.type.dtype, (211,), rng) for x in params]
    ops = tuple(op for op in whole.body.ops if is_there(op))
    most = device.limits["max-storage-buffers-per-shader-stage"] * 3 // 4  # some have two results
    for first in range(0, len(ops), most):
        some = ops[first : first + most]
        results = tuple(r for op in some for r in op.results)
        with Builder() as b:
            kernel = Kernel(params, replace(whole.body, ops=some, results=results), "loops")
        module = Module((Function("main", params, tuple(b.ops), kernel.results),))
        expected = build(module, WITHOUT_FMA).run([*map(np.array, arrays)], lambda _: None)
        found = built(module, named("webgpu")).run(arrays)
        for result, x, y in zip(results, found, expected, strict=True):
            assert same_bits(np.asarray(x), y), result


ROWS, COLUMNS, INDICES = f32(5, 300), f32(400, 7), rng.integers(0, 5, 90)
HALF = np.append(f32(500), [np.inf, 65504, 7e-5, 6e-8, 0.0]).astype("f2")
LONG = rng.integers(-(2**40), 2**40, (7, 11))
PROGRAMS = {
    "rows": (lambda x: (x - x.mean(axis=1, keepdims=True)) / x.max(axis=1, keepdims=True), ROWS),
    "infinities": (
        lambda x: (x - x, x / x, x + 1e30),
        np.array([np.inf, np.nan, 1e38, 1e-40], "f4"),
    ),
    "columns": (lambda x: x.sum(axis=0), COLUMNS),
    "gather": (lambda x, i: x[i] * 2, ROWS, INDICES),
    "scatter": (lambda x, i, u: x.at[i].add(u), ROWS, INDICES, f32(90, 300)),
    "search": (lambda x, v: dlvm.searchsorted(x, v), np.sort(f32(100)), f32(20)),
    "sort": (lambda x: dlvm.sort(x, axis=1), ROWS),
    "short rows": (lambda x: (dlvm.sort(x, axis=1), dlvm.argsort(x, axis=1)), f32(40, 3)),
    "order": (lambda x: dlvm.argsort(x, axis=0), COLUMNS),
    "scan": (lambda x: dlvm.cumsum(x, axis=1), LONG),
    "bits": (lambda x: dlvm.random.bits(dlvm.random.key(3), (50,)) + x, LONG.reshape(-1)[:50]),
    "long": (lambda x: (x * 12345678901) // 7 + x % 5, LONG),
    "short": (lambda x: (x[:, 1:] * 3)[::-1], rng.integers(-99, 99, (7, 33)).astype("i1")),
    "half": (lambda x: (x * 3 + 1, (x.astype("f4") * 1e-3).astype("f2")), HALF),
    "truths": (lambda x: (x > 0).any(axis=1), ROWS),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_bits_of_a_cpu(name):
    f, *arguments = PROGRAMS[name]
    assert_close(f, *arguments)


def test_functions_are_as_near_as_their_bounds():
    assert_close(lambda x: dlvm.nn.softmax(x, axis=1), ROWS, ulp=8)
    assert_close(lambda x, y: dlvm.tanh(x @ y), f32(70, 40), f32(40, 50), ulp=512)
    key = dlvm.random.key(3)
    assert_close(lambda x: dlvm.random.normal(key, (100,), dtype="f32") + x, f32(100), ulp=64)


def test_steps_of_adam_on_a_network():
    optimiser = dlvm.optim.adam(0.01)
    params = {"w": f32(8, 16) / 4, "b": f32(16), "v": f32(16, 3) / 4}

    def loss(p, x, y):
        scores = dlvm.tanh(x @ p["w"] + p["b"]) @ p["v"]
        return dlvm.nn.cross_entropy(scores, y).mean()

    def step(p, state, x, y):
        value, slope = dlvm.value_and_grad(loss)(p, x, y)
        return *optimiser.update(slope, state, p), value

    state = optimiser.init(params)
    assert_close(step, params, state, f32(12, 8), rng.integers(0, 3, 12), ulp=256)


def test_open_sizes_loops_of_the_host_and_errors():
    row = dlvm.function(lambda x: x.sum(axis=1), target="webgpu").compile(dlvm.spec("f32[B,N]"))
    for shape in (0, 5), (1, 1), (3, 33):
        x = f32(*shape)
        assert same_bits(np.asarray(row(x)), dlvm.function(lambda x: x.sum(axis=1))(x))
    assert_close(lambda x: dlvm.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x), abs(f32(4)))
    assert_close(lambda x: dlvm.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x), f32(4))
    with pytest.raises(IndexError, match="7"):
        np.asarray(dlvm.function(lambda x, i: x[i], target="webgpu")(f32(5), np.array([1, 7])))


def test_single_numbers_of_f64_are_their_bits():
    """Sums, products, quotients, roots, conversions and whole powers; no other function."""
    x = np.array([5e-324, -2.5, 0.1, 1e308, np.inf, -0.0, np.nan, 3.0])
    y = np.array([0.75, 1e-320, 7.0, -3.3])
    of_two = lambda x, y: (x + y, x - y, x * y, x / y, x < y)  # noqa: E731
    of_one = lambda x, n: (dlvm.sqrt(x), dlvm.round(x), x.astype("f4"), x.astype("i8"))  # noqa: E731
    one, two = (dlvm.function(f, target="webgpu") for f in (of_one, of_two))
    for a in x:
        for b in y:
            assert_bits(two(a, b), dlvm.function(of_two)(a, b))
        assert_bits(one(a, 3), dlvm.function(of_one)(a, 3))
    power = dlvm.function(lambda x, n: 1 - x**n, target="webgpu")
    for n in (1, 2, 1000, -3):
        assert np.isclose(np.asarray(power(0.999, n)), 1 - 0.999**n, rtol=1e-12)
    with pytest.raises(UserError, match="WGSL has no exp of f64"):
        dlvm.function(lambda x: dlvm.exp(x), target="webgpu")(1.5)


def test_large_arguments_of_a_sine_and_remainders_need_no_f64():
    power = 10.0 ** rng.integers(-30, 38, 99)
    x = np.append(rng.normal(size=99) * power, [np.inf, np.nan, 1e22, -0.0]).astype("f4")
    assert_close(lambda x: (dlvm.sin(x), dlvm.cos(x)), x, ulp=3)
    assert_close(lambda x, y: dlvm.fmod(x, y), x, x[::-1].copy())


def test_results_stay_on_the_device_and_parts_of_words_are_copied(device):
    f = dlvm.function(lambda x: x + 1, target="webgpu")
    held = len(device.memory)
    found = f(f(f32(10)))
    assert found.block.device is device and len(device.memory) == held + 2  # and a status
    with pytest.raises(BufferError, match="asarray"):
        found.__dlpack__()
    start = device.allocate(11)
    device.write(start, np.arange(11, dtype="u1"))
    device.write(start + 3, np.array([7, 8], "u1"))
    device.copy(start + 6, start + 3, 3)
    whole = np.empty(11, "u1")
    device.read(start, whole)
    assert whole.tolist() == [0, 1, 2, 7, 8, 5, 7, 8, 5, 9, 10]
    device.free(start)


def test_what_a_device_has_not_says_so(device, monkeypatch):
    with pytest.raises(UserError, match=r"expected device 99 of WebGPU, found 0: .*"):
        dlvm.function(lambda x: x, target="webgpu:99")(f32(1))
    with pytest.raises(MemoryError, match="at most"):
        device.allocate(1 << 40)
    monkeypatch.setitem(device.limits, "max-storage-buffers-per-shader-stage", 2)
    with pytest.raises(UserError, match=r"a kernel has 3 arrays, and .* gives a kernel 1"):
        dlvm.function(lambda x, y: x * y + 5, target="webgpu")(f32(3), f32(3))
    monkeypatch.undo()
    monkeypatch.setitem(device.limits, "max-storage-buffer-binding-size", 1000)
    with pytest.raises(UserError, match=r"reaches 1,000 bytes of an array, not 4,000"):
        dlvm.function(lambda x: x * 7, target="webgpu")(f32(1000))

    def absent(_):
        raise ImportError("No module named 'wgpu'")

    monkeypatch.setattr(webgpu, "import_module", absent)
    with pytest.raises(UserError, match=r"needs the package wgpu") as found:
        webgpu.WebGPU()
    assert "dlvm-compiler[webgpu]" in str(found.value)
