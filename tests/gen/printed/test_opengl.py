"""Programs on a device of OpenGL, such as Mesa's llvmpipe: the bits of a CPU without fma."""

import re
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.build import build
from dlvm.gen.gpu.devices import opengl
from dlvm.gen.gpu.executable import built
from dlvm.gen.printed.glsl import GLSL
from dlvm.ir import DTYPES, Builder, Function, Module, Param
from dlvm.ops import Kernel
from dlvm.target import Target
from dlvm.targets import named
from tests.gen.math.test_instructions import all_of
from tests.gen.values import numbers, same_bits

from . import comparing
from .comparing import device_or_skip

rng = np.random.default_rng(0)
WITHOUT_FMA = replace(Target.host(), fma=False)


@pytest.fixture(scope="module")
def device():
    return device_or_skip("opengl")


def f32(*shape):
    return rng.normal(size=shape).astype("f4")


on_device = partial(comparing.on_device, "opengl")
assert_close = partial(comparing.assert_close, "opengl")


# -- text ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("llvm", "x", "printed"),
    [
        ("float", "0x3FB99999A0000000", "uintBitsToFloat(1036831949u)"),
        ("float", "0xFFF0000000000000", "uintBitsToFloat(4286578688u)"),
        ("double", "0xBFF0000000000000", "packDouble2x32(uvec2(0u, 3220176896u))"),
        ("i64", "-2", "uvec2(4294967294u, 4294967295u)"),
        ("half", "0xH3C00", "15360u"),
    ],
)
def test_constants_are_exact(llvm, x, printed):
    assert GLSL.constant(llvm, x) == printed


def test_each_kernel_is_a_shader_of_its_own():
    f = dlvm.function(lambda x: (x / x.sum(axis=1, keepdims=True)).sum(axis=0), target="opengl")
    text = f.compile(np.ones((4, 40), "f4")).text("glsl")
    kernels = re.findall(r"#ifdef (\w+)\n(.*?)\n#endif", text, re.DOTALL)
    assert len(kernels) > 1 and text.startswith("#version 430\n")
    for name, body in kernels:
        assert body.count("void main()") == 1 and body.count("{") == body.count("}")
        assert f"{name}_sizes.at_status" in body and "precise const float" in body
    assert any("shared float" in body and "barrier();" in body for _, body in kernels)


def test_what_wgsl_gives_is_spelt_as_in_glsl():
    of_wgsl = re.compile(r"->|\b(let|var|fn|bitcast|select|half|[fiu]32)\b|vec\d<| \d+f\b")
    for text in (*GLSL.helpers.values(), *GLSL.forms.values()):
        assert not of_wgsl.search(text), text


# -- programs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["i8", "f32", "f64"])
def test_every_element_wise_operation_has_the_bits_of_code_without_fma(device, dtype):
    whole = all_of(DTYPES[dtype], 211)
    params = tuple(Param(x.type, x.name) for x in whole.operands)
    arrays = [numbers(x.type.dtype, (211,), rng) for x in params]
    most = device.limits[opengl.BLOCKS] * 3 // 5  # some have two results
    for first in range(0, len(whole.body.ops), most):
        some = whole.body.ops[first : first + most]
        results = tuple(r for op in some for r in op.results)
        with Builder() as b:
            kernel = Kernel(params, replace(whole.body, ops=some, results=results), "loops")
        module = Module((Function("main", params, tuple(b.ops), kernel.results),))
        expected = build(module, WITHOUT_FMA).run([*map(np.array, arrays)], lambda _: None)
        found = built(module, named("opengl")).run(arrays)
        for result, x, y in zip(results, found, expected, strict=True):
            assert same_bits(np.asarray(x), y), result


ROWS, COLUMNS = f32(5, 300), f32(400, 3)
SPECIAL = np.array([np.inf, np.nan, 1e38, 1e-40, -0.0, 0.0], "f4")
LONG = rng.integers(-(2**40), 2**40, (7, 11))
PROGRAMS = {
    "rows": (lambda x: (x - x.mean(axis=1, keepdims=True)) / x.max(axis=1, keepdims=True), ROWS),
    "zeros": (lambda x: (x - x, x + 0, 0 - x, x * 0, x * -0.0, 0 / x), SPECIAL),
    "scatter": (lambda x, i, u: x.at[i].add(u), ROWS, rng.integers(0, 5, 90), f32(90, 300)),
    "order": (lambda x: dlvm.argsort(x, axis=0), COLUMNS),
    "scan": (lambda x: dlvm.cumsum(x, axis=1), LONG),
    "long": (lambda x: (x * 12345678901) // 7 + x % 5, LONG),
    "short": (lambda x: (x[:, 1:] * 3)[::-1], rng.integers(-99, 99, (7, 33)).astype("i1")),
    "loop": (lambda x: dlvm.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x), abs(f32(4))),
    "branch": (lambda x: dlvm.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x), f32(4)),
}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_bits_of_a_cpu(name):
    f, *arguments = PROGRAMS[name]
    assert_close(f, *arguments)


@pytest.mark.usefixtures("device")
def test_functions_are_as_near_as_their_bounds():
    assert_close(lambda x, y: x @ y, f32(20, 40), f32(40, 30), ulp=64)
    key = dlvm.random.key(3)
    assert_close(lambda x: dlvm.random.normal(key, (100,)) + x, f32(100).astype("f8"), ulp=64)


@pytest.mark.usefixtures("device")
def test_a_step_of_adam_on_a_network():
    optimiser = dlvm.optim.adam(0.01)
    params = {"w": f32(8, 16) / 4, "v": f32(16, 3) / 4}

    def step(p, state, x, y):
        def loss(p):
            return dlvm.nn.cross_entropy(dlvm.tanh(x @ p["w"]) @ p["v"], y).mean()

        value, slope = dlvm.value_and_grad(loss)(p)
        return *optimiser.update(slope, state, p), value

    state = optimiser.init(params)
    assert_close(step, params, state, f32(12, 8), rng.integers(0, 3, 12), ulp=256)


# -- the device ------------------------------------------------------------------------------------


def test_any_thread_may_call_and_memory_comes_back(device):
    f = dlvm.function(lambda x: x + 1, target="opengl")
    held, found = len(device.memory), []
    first = f(f32(10))
    assert first.block.device is device
    with pytest.raises(BufferError, match="asarray"):
        first.__dlpack__()

    def other():
        found.append(np.asarray(f(first)) - np.asarray(first))

    threads = [threading.Thread(target=other) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.allclose(found, 1, atol=1e-6) and len(found) == 4
    first = None
    assert len(device.memory) == held + 1  # the status of the program


def test_open_sizes_and_errors(device):
    row = dlvm.function(lambda x: x.sum(axis=1), target="opengl").compile(dlvm.spec("f32[B,N]"))
    for shape in (0, 5), (3, 33):
        x = f32(*shape)
        assert same_bits(np.asarray(row(x)), dlvm.function(lambda x: x.sum(axis=1))(x))
    with pytest.raises(IndexError, match="7"):
        np.asarray(dlvm.function(lambda x, i: x[i], target="opengl")(f32(5), np.array([1, 7])))


def test_what_a_device_has_not_says_so(device, monkeypatch):
    with pytest.raises(UserError, match=r"expected device 99 of OpenGL 4\.3, found none: .*") as e:
        dlvm.function(lambda x: x, target="opengl:99")(f32(1))
    assert "write target='opengl:0'" in str(e.value)
    with pytest.raises(MemoryError, match=r"has no .* bytes left"):
        device.allocate(1 << 45)
    monkeypatch.setitem(device.limits, opengl.BLOCKS, 2)
    with pytest.raises(UserError, match=r"a kernel has 3 arrays, and .* gives a kernel 1"):
        dlvm.function(lambda x, y: x * y + 5, target="opengl")(f32(3), f32(3))
    monkeypatch.undo()
    monkeypatch.setitem(device.limits, opengl.BYTES, 1000)
    with pytest.raises(UserError, match=r"reaches 1,000 bytes of an array, not 4,000"):
        dlvm.function(lambda x: x * 7, target="opengl")(f32(1000))


def test_a_missing_package_says_what_to_install(monkeypatch):
    def absent(_):
        raise ImportError("No module named 'moderngl'")

    monkeypatch.setattr(opengl, "import_module", absent)
    with pytest.raises(UserError, match=r"needs the package moderngl") as found:
        opengl.OpenGL()
    assert "dlvm-compiler[opengl]" in str(found.value)
