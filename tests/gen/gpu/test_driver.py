"""The driver through a stand-in for its library: whole programs, the order of calls, errors."""

import gc
import threading

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.devices import choosing
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.devices.driver import Driver, DriverError, driver

from .kinds import KINDS, f32
from .standing_in import CONTEXT, StandIn
from .test_programs import assert_same_bits, machine_code


def compiled(stand_in, f, *arguments, **options):
    made = dlvm.function(f, target="cuda:sm_90", **options).compile(*arguments)
    stand_in.learn(made)
    return made


def found(x):
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("kind", ["axpy", "softmax", "dense", "gather", "loop", "gradient"])
def test_whole_programs_run_through_the_library(kind):
    f, arguments = KINDS[kind]
    stand_in = StandIn()
    made = compiled(stand_in, f, *arguments)
    with using(Driver(stand_in)):
        assert_same_bits(found(made(*arguments)), machine_code(f, *arguments))


def test_the_calls_are_made_in_order():
    stand_in, x = StandIn(), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    with using(Driver(stand_in)):
        assert stand_in.calls == [
            *("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuDeviceGetName"),
        ]
        stand_in.calls.clear()
        result = made(x)
        np.asarray(result)
    called = [c for c in stand_in.calls if c != "cuMemAlloc_v2"]
    assert called == [
        *("cuMemcpyHtoD_v2", "cuModuleLoadDataEx", "cuModuleGetFunction"),
        *("cuLaunchKernel", "cuMemcpyDtoH_v2"),
    ]


def test_later_calls_take_no_memory_of_the_driver_and_load_nothing():
    f, arguments = KINDS["gradient"]
    stand_in = StandIn()
    made = compiled(stand_in, f, *arguments)
    with using(Driver(stand_in)):
        for _ in range(2):
            result = made(*arguments)
        counts = [stand_in.count(n) for n in ("cuMemAlloc_v2", "cuModuleLoadDataEx")]
        for _ in range(3):
            result = made(*arguments)
        assert [stand_in.count(n) for n in ("cuMemAlloc_v2", "cuModuleLoadDataEx")] == counts
        assert counts[1] == 1
        assert stand_in.count("cuMemFree_v2") == 0
        assert_same_bits(result, machine_code(f, *arguments))


def test_a_program_that_cannot_fail_is_not_asked_whether_it_has():
    stand_in, x = StandIn(), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    index = np.array([1, 2])
    checked = compiled(stand_in, lambda x, i: x[i], x, index)
    with using(Driver(stand_in)):
        made(x)
        assert stand_in.count("cuMemcpyDtoH_v2") == 0
        checked(x, index)
        assert stand_in.count("cuMemcpyDtoH_v2") == 1


def test_all_goes_to_the_stream_that_is_named():
    stand_in, x = StandIn(), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    driver = Driver(stand_in, stream=55)
    with using(driver):
        assert np.array_equal(np.asarray(made(x)), 2 * x)
        driver.copy(driver.allocate(8), driver.allocate(8), 8)
    assert {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"} < set(stand_in.calls)
    assert "cuMemcpyDtoDAsync_v2" in stand_in.calls
    assert stand_in.count("cuStreamSynchronize") == 2
    assert not any(c.startswith("cuMemcpy") and "Async" not in c for c in stand_in.calls)


def test_events_time_what_runs_between():
    stand_in, x = StandIn(), f32(4000)
    made = compiled(stand_in, lambda x: dlvm.exp(x), x)
    driver = Driver(stand_in)
    with using(driver):
        made(x)
        first, start = driver.mark(), driver.mark()
        made(x)
        end = driver.mark()
        assert driver.milliseconds(start, end) > driver.milliseconds(first, start) >= 0
        driver.wait()
    del first, start, end
    gc.collect()
    assert not stand_in.events


def test_other_threads_get_the_context():
    stand_in, x = StandIn(), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    driver, results = Driver(stand_in), []

    def work():
        with using(driver):
            results.append(np.asarray(made(x)))

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert np.array_equal(results[1], 2 * x)


def test_another_library_may_make_its_own_context_current():
    stand_in, x = StandIn(), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    with using(Driver(stand_in)):
        made(x)
        for foreign in (78, None):
            stand_in.thread.context = foreign
            assert np.array_equal(np.asarray(made(x)), 2 * x)


def test_a_target_names_the_gpu_that_runs_it(monkeypatch):
    stand_in, x = StandIn(devices=2), f32(40)
    monkeypatch.setattr(choosing, "_chosen", {})
    monkeypatch.setattr("dlvm.gen.gpu.devices.driver.library", lambda: stand_in)
    driver.cache_clear()
    found = []
    for target in ("cuda:sm_90", "cuda:1:sm_90", "cuda:1"):
        f = dlvm.function(lambda x: x * 2, target=target)
        stand_in.learn(f.compile(x))
        found.append(f(x))
        assert stand_in.thread.context == CONTEXT + found[-1].ordinal
    assert [y.__dlpack_device__() for y in found] == [(2, 0), (2, 1), (2, 1)]
    assert np.array_equal(np.asarray(f(found[1])), 4 * x)
    message = "x: expected an array on GPU 1, where the function runs, found one on GPU 0"
    with pytest.raises(dlvm.UserError, match=message) as e:
        f(found[0])
    assert "help: copy the array to GPU 1, or name GPU 0 in the target" in str(e.value)
    with pytest.raises(dlvm.UserError, match=r"found no GPU 2 .*INVALID_DEVICE"):
        dlvm.function(lambda x: x * 2, target="cuda:2")(x)
    driver.cache_clear()


class Foreign:
    """An array at an address, whose owner does not tell on which GPU it is."""

    def __init__(self, address):
        self.address = address

    @property
    def __cuda_array_interface__(self):
        return {"shape": (40,), "typestr": "<f4", "data": (self.address, False), "version": 3}


def test_the_driver_tells_on_which_gpu_an_array_is():
    stand_in, x = StandIn(devices=2), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    here, there = Driver(stand_in, 0), Driver(stand_in, 1)
    ours, other = here.allocate(160), there.allocate(160)
    here.write(ours, x)
    with using(here):
        assert np.array_equal(np.asarray(made(Foreign(ours))), 2 * x)
        with pytest.raises(dlvm.UserError, match=r"x: expected .* GPU 0, .*, found one on GPU 1"):
            made(Foreign(other))
    assert (here.ordinal(ours + 8), here.ordinal(other)) == (0, 1)


def test_memory_that_the_driver_does_not_know_is_on_no_gpu():
    stand_in = StandIn()
    driver = Driver(stand_in)
    assert driver.ordinal(f32(40).ctypes.data) is None
    stand_in.faults["cuPointerGetAttribute"] = 700
    with pytest.raises(DriverError, match=r"cuPointerGetAttribute: .*ILLEGAL_ADDRESS"):
        driver.ordinal(8)


def test_a_forked_process_is_told(monkeypatch):
    stand_in, x = StandIn(), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    with using(Driver(stand_in)):
        made(x)
        monkeypatch.setattr("os.getpid", lambda: -1)
        with pytest.raises(DriverError, match=r"forked .*\n(.*\n)*.*spawn"):
            made(x)


def test_out_of_memory_says_how_much_was_asked_for():
    x = f32(1000)
    stand_in = StandIn(room=6000)
    made = compiled(stand_in, lambda x: x * 2, x)
    with using(Driver(stand_in)), pytest.raises(MemoryError, match="no 4,096 bytes left"):
        made(x)


def test_memory_that_is_kept_is_given_back_before_there_is_none():
    stand_in = StandIn(room=10_000)
    driver = Driver(stand_in)
    first = driver.allocate(6000)
    driver.free(first)
    assert driver.allocate(6144) == first
    driver.free(first)
    driver.allocate(9000)
    assert stand_in.count("cuMemFree_v2") == 1


def test_a_module_that_does_not_load_shows_the_log():
    stand_in, x = StandIn(), f32(40)
    made = dlvm.function(lambda x: x * 2, target="cuda:sm_90").compile(x)
    with using(Driver(stand_in)), pytest.raises(dlvm.UserError, match="cuModuleLoadDataEx") as e:
        made(x)
    assert "CUDA_ERROR_INVALID_PTX" in str(e.value)
    assert "ptxas fatal : Unresolved" in str(e.value)


def test_a_kernel_that_is_not_there_is_named():
    stand_in, x = StandIn(), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    (name,) = stand_in.kernels.known[made.text("ptx")]
    stand_in.faults["cuModuleGetFunction"] = 500
    with using(Driver(stand_in)), pytest.raises(DriverError, match=f"of @{name}: .*NOT_FOUND"):
        made(x)


def test_a_launch_that_fails_names_its_kernel():
    stand_in, x = StandIn(), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    (name,) = stand_in.kernels.known[made.text("ptx")]
    stand_in.faults["cuLaunchKernel"] = 700
    with using(Driver(stand_in)), pytest.raises(DriverError) as e:
        made(x)
    assert f"cuLaunchKernel of @{name}: CUDA_ERROR_ILLEGAL_ADDRESS" in str(e.value)


def test_an_error_that_comes_late_names_the_kernels_that_ran():
    stand_in, x = StandIn(), f32(40)
    made = compiled(stand_in, lambda x: x * 2, x)
    (name,) = stand_in.kernels.known[made.text("ptx")]
    with using(Driver(stand_in)):
        result = made(x)
        stand_in.faults["cuMemcpyDtoH_v2"] = 700
        with pytest.raises(DriverError, match=f"cuMemcpyDtoH_v2 after @{name}: .*ILLEGAL"):
            np.asarray(result)
