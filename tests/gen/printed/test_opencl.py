"""Programs on a device of OpenCL, such as PoCL: the bits of machine code of the CPU."""

from functools import partial

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.build import build
from dlvm.gen.gpu.devices import opencl
from dlvm.gen.gpu.executable import built
from dlvm.ir import DTYPES, Builder, Function, Module, Param
from dlvm.ops import Kernel
from dlvm.targets import named
from tests.gen.math.test_instructions import all_of
from tests.gen.values import numbers, same_bits

from . import comparing
from .comparing import device_or_skip

rng = np.random.default_rng(0)


@pytest.fixture(scope="module", autouse=True)
def device():
    return device_or_skip("opencl")


def f32(*shape):
    return rng.normal(size=shape).astype("f4")


assert_same = partial(comparing.assert_close, "opencl")


@pytest.mark.parametrize("dtype", ["bool", "i8", "u16", "i64", "f16", "bf16", "f32", "f64"])
def test_every_element_wise_operation(dtype):
    op = all_of(DTYPES[dtype], 211)
    params = tuple(Param(x.type, x.name) for x in op.operands)
    with Builder() as b:
        kernel = Kernel(params, op.body, "loops")
    module = Module((Function("main", params, tuple(b.ops), kernel.results),))
    arrays = [numbers(x.type.dtype, (211,), rng) for x in params]
    expected = build(module).run([*map(np.array, arrays)], lambda _: None)
    found = built(module, named("opencl")).run(arrays)
    for result, a, b in zip(op.body.results, found, expected, strict=True):
        assert same_bits(np.asarray(a), b), result


ROWS, COLUMNS, INDICES = f32(5, 300), f32(400, 7), rng.integers(0, 5, 90)
PROGRAMS = {
    "rows": (lambda x: (x - x.mean(axis=1, keepdims=True)) / x.max(axis=1, keepdims=True), ROWS),
    "columns": (lambda x: x.sum(axis=0), COLUMNS),
    "product": (lambda x, y: dlvm.tanh(x @ y), f32(70, 40), f32(40, 50)),
    "gather": (lambda x, i: x[i] * 2, ROWS, INDICES),
    "scatter": (lambda x, i, u: x.at[i].add(u), ROWS, INDICES, f32(90, 300)),
    "search": (lambda x, v: dlvm.searchsorted(x, v), np.sort(f32(100)), f32(20)),
    "short rows": (lambda x: (dlvm.sort(x, axis=1), dlvm.argsort(x, axis=1)), f32(40, 3)),
    "random": (lambda x: dlvm.random.normal(dlvm.random.key(3), (100,), dtype="f32") + x, f32(100)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_bits_of_a_cpu(name):
    f, *arguments = PROGRAMS[name]
    assert_same(f, *arguments)


def test_steps_of_adam_on_a_network():
    optimiser = dlvm.optim.adam(0.01)
    params = {"w": f32(8, 16) / 4, "b": f32(16), "v": f32(16, 3) / 4}

    def loss(p, x, y):
        scores = dlvm.tanh(x @ p["w"] + p["b"]) @ p["v"]
        return dlvm.nn.cross_entropy(scores, y).mean()

    def step(p, state, x, y):
        value, slope = dlvm.value_and_grad(loss)(p, x, y)
        return *optimiser.update(slope, state, p), value

    assert_same(step, params, optimiser.init(params), f32(12, 8), rng.integers(0, 3, 12))


def test_open_sizes_loops_of_the_host_and_errors():
    row = dlvm.function(lambda x: x.sum(axis=1), target="opencl").compile(dlvm.spec("f32[B,N]"))
    for shape in (0, 5), (1, 1), (3, 33):
        x = f32(*shape)
        assert same_bits(np.asarray(row(x)), dlvm.function(lambda x: x.sum(axis=1))(x))
    assert_same(lambda x: dlvm.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x), abs(f32(4)))
    with pytest.raises(IndexError, match="7"):
        np.asarray(dlvm.function(lambda x, i: x[i], target="opencl")(f32(5), np.array([1, 7])))


def test_results_stay_on_the_device(device):
    f = dlvm.function(lambda x: x + 1, target="opencl")
    held = len(device.memory)
    found = f(f(f32(10)))
    assert found.block.device is device and len(device.memory) == held + 2  # and a status
    with pytest.raises(BufferError, match="asarray"):
        found.__dlpack__()
    assert not hasattr(found, "__cuda_array_interface__")


def test_a_missing_package_or_device_says_what_to_install(monkeypatch):
    with pytest.raises(UserError, match=r"expected device 99 of OpenCL, found 0: .*"):
        dlvm.function(lambda x: x, target="opencl:99")(f32(1))

    def absent(_):
        raise ImportError("No module named 'pyopencl'")

    monkeypatch.setattr(opencl, "import_module", absent)
    with pytest.raises(UserError, match=r"needs the package pyopencl") as found:
        opencl.OpenCL()
    assert "dlvm-compiler[opencl]" in str(found.value)


def test_a_device_without_f64_says_so(device, monkeypatch):
    monkeypatch.setattr(device, "doubles", False)
    with pytest.raises(UserError, match=r"f64, which .* does not compute"):
        dlvm.function(lambda x: x + 2, target="opencl")(np.ones(3))
    assert np.asarray(dlvm.function(lambda x: x + 3, target="opencl")(f32(3))).shape == (3,)
