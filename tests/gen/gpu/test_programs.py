"""Programs for a GPU in the emulator: the same bits as the machine code of a CPU."""

import re
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.build import build
from dlvm.gen.gpu.arrays import DeviceArray
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.gen.gpu.executable import built
from dlvm.ir import BOOL, F32, F64, I64
from dlvm.ops.families import Factorisation
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run
from dlvm.target import Target
from dlvm.testing.drawing.random_programs import TRACED, Program
from dlvm.testing.strategies import programs
from tests.gen.program.test_reference_calls import OPERATIONS

from .assembly import assembled
from .kinds import KINDS, f32

PROCESSORS = ("sm_80", "sm_90", "sm_90a", "sm_100")
LIGHT = tuple(c for c in TRACED if not issubclass(c, Factorisation))
"""Factorisations have tests of their own; of some open sizes they take a minute to compile."""


def emulated(f, *arguments, seed=0, target="cuda"):
    with using(EmulatedDevice(seed)):
        found = dlvm.function(f, target=target)(*arguments)
    return found if isinstance(found, tuple) else (found,)


def flat(found):
    return [np.asarray(a) for x in found for a in (x if isinstance(x, tuple | list) else (x,))]


def assert_same_bits(found, expected):
    for a, b in zip(flat(found), flat(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.array_equal(a, b, equal_nan=True)


def machine_code(f, *arguments):
    found = dlvm.function(f)(*arguments)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_bits_of_a_cpu(kind):
    f, arguments = KINDS[kind]
    expected = machine_code(f, *arguments)
    for seed in (0, 1):
        assert_same_bits(emulated(f, *arguments, seed=seed), expected)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_every_kind_assembles_without_a_spilt_register(processor, tmp_path):
    texts = [
        dlvm.function(f, target=f"cuda:{processor}").compile(*arguments).text("ptx")
        for f, arguments in KINDS.values()
    ]
    for text in texts:
        assert f".target {processor}\n" in text
        assert ".extern .func" not in text
    for text in texts:
        assert not any(assembled(text, tmp_path).spilt)


@settings(max_examples=30)
@given(programs(LIGHT, (F32, F64, I64, BOOL), max_ops=10), st.integers(0, 99))
def test_random_programs_give_the_bits_of_a_cpu(program: Program, seed: int):
    check_bits(program, seed)


def check_bits(program: Program, seed: int):
    module = run(program.module, DEFAULT)
    arrays = [np.array(a) for a in program.arrays]
    try:
        expected = build(module).run(arrays, lambda _: None)
    except UserError as error:
        with pytest.raises(type(error)), using(EmulatedDevice(seed)):
            built(module, Target.cuda()).run(program.arrays)
    else:
        with using(EmulatedDevice(seed)):
            assert_same_bits(built(module, Target.cuda()).run(program.arrays), expected)


@settings(max_examples=12)
@given(programs(LIGHT, (F32, F64, I64, BOOL), max_ops=8, sizes=(1, 17, 32, 48)), st.integers(0, 9))
def test_larger_sizes_do_as_well(program: Program, seed: int):
    check_bits(program, seed)


FACTORS = {
    "eigh": lambda a: dlvm.linalg.eigh(a + a.mT),
    "svd": lambda a: dlvm.linalg.svd(a, full_matrices=False),
    "solve": lambda a: dlvm.linalg.solve(a, a[..., :1]),
    "qr": lambda a: dlvm.linalg.qr(a),
}


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 17, 17)], ids=str)
def test_factorisations(name, shape):
    a = f32(*shape)
    assert_same_bits(emulated(FACTORS[name], a), machine_code(FACTORS[name], a))


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 33), (130, 7)])
def test_open_sizes(shape):
    x = f32(*shape)
    f = dlvm.function(KINDS["softmax"][0], target="cuda")
    g = dlvm.function(KINDS["softmax"][0])
    open_ = dlvm.spec("f32[B,N]")
    with using(EmulatedDevice()):
        assert_same_bits((f.compile(open_)(x),), (g.compile(open_)(x),))


def test_control_from_the_host():
    def recurrence(w, xs):
        def step(h, x):
            h = dlvm.tanh(h @ w + x)
            return h, h.sum()

        return dlvm.scan(step, np.zeros(8, "f4"), xs)[0].sum()

    slope = dlvm.grad(recurrence)
    x = f32(8, 8), f32(9, 8)
    assert_same_bits(emulated(slope, *x), machine_code(slope, *x))

    def either(x):
        return dlvm.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x)

    for x in (f32(40), -abs(f32(40))):
        assert_same_bits(emulated(either, x), machine_code(either, x))


LONG = {
    "sum": lambda x: x.sum(),
    "variance": lambda x: ((x - x.mean()) ** 2).sum(),
    "softmax": KINDS["softmax"][0],
    "where the largest is": lambda x: (np.argmax(x), np.argmax(x, axis=1), x.max()),
    "logsumexp": lambda x: dlvm.logsumexp(x, axis=1),
}


@pytest.mark.parametrize("name", LONG)
def test_long_rows_are_folded_in_two_stages(name):
    x = f32(3, 9000)
    with using(EmulatedDevice()) as device:
        found = dlvm.function(LONG[name], target="cuda")(x)
    assert device.launches > 1
    found = found if isinstance(found, tuple) else (found,)
    assert_same_bits(found, machine_code(LONG[name], x))


def test_rows_are_read_once():
    for kind, buffers in (("softmax", 1), ("layer norm", 3)):
        f, arguments = KINDS[kind]
        text = dlvm.function(f, target="cuda").compile(*arguments).text("loops")
        assert len(set(re.findall(r"load (%b\d)", text))) == buffers
        assert text.count("load %b0[") == text.count("store %i1.b0[") > 0


def test_a_schedule_can_be_given():
    for kind in ("softmax", "gelu", "gather"):
        f, arguments = KINDS[kind]
        planned = dlvm.function(f, target="cuda").compile(*arguments)
        text = planned.text("schedule")
        given = dlvm.function(f, target="cuda").compile(*arguments, schedule=text)
        assert given.text("loops") == planned.text("loops")


TURNED = {
    "one": lambda a, b: a.T + 1,
    "several": lambda a, b: a.T * b + dlvm.tanh(a.T) * b,
    "batched": lambda a, b: np.stack([a, 2 * a]).transpose(0, 2, 1) * b,
}


@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize("shape", [(32, 32), (70, 50), (17, 100)], ids=str)
def test_transposes_go_through_shared_memory(name, shape):
    a, b = f32(*shape), f32(*reversed(shape))
    f = dlvm.function(TURNED[name], target="cuda")
    assert "transpose" in f.compile(a, b).text("schedule")
    assert_same_bits(emulated(TURNED[name], a, b), machine_code(TURNED[name], a, b))


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i1", "?"])
def test_lanes_take_sixteen_bytes(dtype):
    x = (9 * f32(24, 32)).astype(dtype)
    f = dlvm.function(lambda x: x + x, target="cuda:sm_90")
    assert "vectorize" in f.compile(x).text("schedule")
    assert ".v4." in f.compile(x).text("ptx") or ".v2." in f.compile(x).text("ptx")
    assert_same_bits(emulated(lambda x: x + x, x), machine_code(lambda x: x + x, x))


def test_random_bits_are_those_of_a_cpu():
    def draw(key):
        return dlvm.random.normal(key, (100,)), dlvm.random.uniform(key, (7, 3))

    key = dlvm.random.key(3)
    assert_same_bits(emulated(draw, key), machine_code(draw, key))


def test_an_index_out_of_range_is_told_at_its_line():
    with pytest.raises(dlvm.UserError, match=r"index 9 .* 5") as caught:
        emulated(lambda a, i: a[i], f32(5), np.array([1, 9, 2]))
    assert "test_programs.py" in str(caught.value)


def test_results_stay_on_the_device_and_are_arguments():
    with using(EmulatedDevice()) as device:
        f = dlvm.function(lambda x: x * 2, target="cuda")
        once = f(f32(10))
        assert isinstance(once, DeviceArray)
        held = len(device.held)
        twice = f(once)
        assert len(device.held) > held
        assert np.array_equal(np.asarray(twice), 2 * np.asarray(once))
        told = twice.__cuda_array_interface__
        assert (told["shape"], told["typestr"]) == ((10,), "<f4")
        assert told["data"][0] == twice.block.address
        assert float(f(np.float32(3))) == 6


def test_memory_is_given_back():
    with using(EmulatedDevice()) as device:
        f = dlvm.function(KINDS["gradient"][0], target="cuda")
        f(*KINDS["gradient"][1])
        held = len(device.held)
        for _ in range(3):
            f(*KINDS["gradient"][1])
        assert len(device.held) == held


def test_without_a_driver_a_call_says_what_is_missing():
    from dlvm.gen.gpu.devices import driver

    with suppress(dlvm.UserError):
        driver.library()
        pytest.skip("there is a driver here")
    with pytest.raises(dlvm.UserError, match="needs NVIDIA's driver"):
        dlvm.function(lambda x: x + 1, target="cuda")(f32(3))


def test_a_gpu_that_is_not_known_is_named():
    with pytest.raises(dlvm.UserError, match="sm_12"):
        dlvm.function(lambda x: x + 1, target="cuda:sm_12")(f32(3))


def test_what_is_for_the_cpu_alone_is_refused():
    with pytest.raises(dlvm.UserError, match="aot: expected a processor"):
        dlvm.aot(lambda x: x + 1, f32(3), target="cuda")
    with pytest.raises(dlvm.UserError, match="accesses are checked in code for one CPU"):
        dlvm.function(lambda x: x + 1, target="cuda", debug=("bounds",)).compile(f32(3))


def test_what_only_python_computes_is_refused_by_name():
    """In a process of its own, as an operation that was made stays in the registry."""
    asked = 'dlvm.function(lambda x: dlvm.called_wave(x), target="cuda").compile(np.ones(3))'
    command = [sys.executable, "-c", f"{OPERATIONS}\n{asked}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "UserError: called_wave has no kernel for a GPU" in done.stderr
