"""pycuda as the way to the device, through a stand-in for the package."""

import sys
import threading

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.devices import choosing
from dlvm.gen.gpu.devices.driver import DriverError

from .kinds import KINDS, f32
from .standing_in_pycuda import Package
from .test_arrays import Foreign
from .test_programs import assert_same_bits, machine_code


@pytest.fixture
def pycuda(monkeypatch):
    """The package, and no choice of a device before and afterwards."""
    monkeypatch.setattr(choosing, "_chosen", {})
    package = Package()
    package.install(monkeypatch)
    return package


def compiled(pycuda, f, *arguments, **options):
    made = dlvm.function(f, target="cuda:sm_90", **options).compile(*arguments)
    pycuda.learn(made)
    return made


@pytest.mark.parametrize("kind", ["axpy", "softmax", "gather", "gradient"])
def test_whole_programs_run_by_pycuda(pycuda, kind):
    f, arguments = KINDS[kind]
    made = compiled(pycuda, f, *arguments)
    dlvm.gpu.use("pycuda")
    found = made(*arguments)
    expected = machine_code(f, *arguments)
    assert_same_bits(found if isinstance(found, tuple) else (found,), expected)


def test_later_calls_take_memory_from_the_pool_and_load_nothing(pycuda):
    f, arguments = KINDS["gradient"]
    made = compiled(pycuda, f, *arguments)
    dlvm.gpu.use("pycuda")
    for _ in range(2):
        result = made(*arguments)
    names = ("new memory", "module_from_buffer", "get_function")
    counts = [pycuda.calls.count(n) for n in names]
    for _ in range(3):
        result = made(*arguments)
    assert [pycuda.calls.count(n) for n in names] == counts
    assert counts[1] == 1
    assert_same_bits(result, machine_code(f, *arguments))


def test_its_stream_takes_all_copies_and_launches(pycuda):
    made, x = compiled(pycuda, lambda x: x * 2, f32(40)), f32(40)
    dlvm.gpu.use("pycuda", stream=pycuda.stream)
    result = made(x)
    assert np.array_equal(np.asarray(result), 2 * x)
    assert pycuda.calls.count("stream.synchronize") == 2
    assert result.__cuda_array_interface__["stream"] == 55


def test_its_arrays_are_arguments(pycuda):
    made, x = compiled(pycuda, lambda x: x * 2, f32(40)), f32(40)
    dlvm.gpu.use("pycuda")
    pool = sys.modules["pycuda.tools"].DeviceMemoryPool()
    memory = pool.allocate(x.nbytes)
    sys.modules["pycuda.driver"].memcpy_htod(int(memory), x)
    pycuda.calls.clear()
    found = made(Foreign(x, data=(int(memory), False)))
    assert "memcpy_htod" not in pycuda.calls
    assert np.array_equal(np.asarray(found), 2 * x)
    assert found.__dlpack_device__() == (2, 0)


def test_halves_of_16_bits_are_copied(pycuda):
    x = dlvm.astype(f32(7), "bf16")
    made = compiled(pycuda, lambda x: x.astype("f4"), x)
    back = compiled(pycuda, lambda x: x.astype("bf16"), f32(7))
    dlvm.gpu.use("pycuda")
    found = made(x)
    assert np.array_equal(np.asarray(found), x.astype("f4"))
    assert np.array_equal(np.asarray(back(found)), x)


def test_events_time_what_runs_between(pycuda):
    made, x = compiled(pycuda, lambda x: dlvm.exp(x), f32(4000)), f32(4000)
    dlvm.gpu.use("pycuda")
    device = choosing.current(made.road.options.machine())
    made(x)
    first, start = device.mark(), device.mark()
    made(x)
    end = device.mark()
    assert device.milliseconds(start, end) > device.milliseconds(first, start) >= 0
    device.wait()


def test_a_launch_that_fails_names_its_kernel(pycuda):
    made, x = compiled(pycuda, lambda x: x * 2, f32(40)), f32(40)
    dlvm.gpu.use("pycuda")
    (name,) = pycuda.kernels.known[made.text("ptx")]
    pycuda.faults["launch"] = "cuLaunchKernel failed: an illegal memory access"
    with pytest.raises(DriverError, match=f"the launch of @{name}: cuLaunchKernel failed"):
        made(x)


def test_a_module_that_does_not_load_is_told(pycuda):
    made = dlvm.function(lambda x: x * 2, target="cuda:sm_90").compile(f32(40))
    dlvm.gpu.use("pycuda")
    with pytest.raises(DriverError, match="ptxas fatal"):
        made(f32(40))


def test_out_of_memory_says_how_much_was_asked_for(pycuda):
    pycuda.room = 5000
    made = compiled(pycuda, lambda x: x * 2, f32(1000))
    dlvm.gpu.use("pycuda")
    with pytest.raises(MemoryError, match="no 4,000 bytes left"):
        made(f32(1000))


def test_another_thread_is_told(pycuda):
    made, errors = compiled(pycuda, lambda x: x * 2, f32(40)), []
    dlvm.gpu.use("pycuda")

    def work():
        try:
            made(f32(40))
        except dlvm.UserError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert "pycuda's context belongs to the thread that chose it" in errors[0]


def test_code_for_a_newer_gpu_is_refused(pycuda):
    made = dlvm.function(lambda x: x * 2, target="cuda:sm_100").compile(f32(40))
    dlvm.gpu.use("pycuda")
    with pytest.raises(dlvm.UserError, match="compiled for sm_100, found a GPU of sm_90"):
        made(f32(40))


def test_without_the_package_an_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(choosing, "_chosen", {})
    monkeypatch.setitem(sys.modules, "pycuda", None)
    monkeypatch.delitem(sys.modules, "pycuda.driver", raising=False)
    with pytest.raises(dlvm.UserError, match="pycuda, which is not installed") as e:
        dlvm.gpu.use("pycuda")
    assert "help: pip install 'dlvm-compiler[cuda]'" in str(e.value)
    assert not choosing._chosen


def test_without_a_gpu_an_error_says_so(pycuda, monkeypatch):
    class Broken:
        @property
        def context(self):
            raise RuntimeError("No CUDA enabled device found.")

    monkeypatch.setitem(sys.modules, "pycuda.autoprimaryctx", Broken())
    with pytest.raises(dlvm.UserError, match=r"found no GPU \(No CUDA enabled"):
        dlvm.gpu.use("pycuda")


def test_other_ways_and_streams_are_refused(pycuda):
    with pytest.raises(dlvm.UserError, match="one of driver, pycuda, found 'opencl'"):
        dlvm.gpu.use("opencl")
    with pytest.raises(dlvm.UserError, match="expected a stream of CUDA, found 'fast'"):
        dlvm.gpu.use("driver", stream="fast")


def test_streams_of_libraries_are_their_handles():
    class Torch:
        cuda_stream = 7

    class Cupy:
        ptr = 8

    assert [choosing.handle(s) for s in (None, 0, 3, Torch(), Cupy())] == [0, 0, 3, 7, 8]
