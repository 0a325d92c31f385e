"""Arrays on a device as arguments and results: of dlvm, by two protocols, and refused ones."""

import gc

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu import dlpack
from dlvm.gen.gpu.arrays import DeviceArray
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice

from .kinds import NETWORK, f32, loss


class Counting(EmulatedDevice):
    """Counts copies to and from the host."""

    def __init__(self):
        super().__init__()
        self.writes = self.reads = 0
        self.followed = []

    def write(self, address, array):
        self.writes += 1
        super().write(address, array)

    def read(self, address, array):
        self.reads += 1
        super().read(address, array)

    def follow(self, stream):
        self.followed.append(stream)


class Foreign:
    """An array of another library, which speaks CUDA's protocol."""

    def __init__(self, array, **more):
        self.array, self.more = array, more

    @property
    def __cuda_array_interface__(self):
        a = self.array
        told = {"shape": a.shape, "typestr": a.dtype.str, "data": (a.ctypes.data, False)}
        return told | {"version": 3, "strides": a.strides} | self.more


class Capsuled:
    """An array of another library, which speaks DLPack only and says that it is on a GPU."""

    def __init__(self, array, kind=2):
        self.array, self.kind, self.streams = array, kind, []

    def __dlpack_device__(self):
        return self.kind, 0

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self.array.__dlpack__()


def double(**options):
    return dlvm.function(lambda x: x * 2, target="cuda", **options)


def test_arguments_on_the_device_are_not_copied_through_the_host():
    f, x = double(), f32(10)
    with using(Counting()) as device:
        once = f(x)
        assert (device.writes, device.reads) == (1, 0)
        twice = f(f(once))
        assert (device.writes, device.reads) == (1, 0)
        assert np.array_equal(np.asarray(twice), 8 * x)
    assert len(f.programs._made) == 1


def test_a_training_step_copies_its_batch_and_nothing_else():
    def step(parameters, x, y):
        value, slopes = dlvm.value_and_grad(lambda p: loss(*p, x, y))(parameters)
        return [p - np.float32(0.1) * d for p, d in zip(parameters, slopes, strict=True)], value

    *start, x, y = NETWORK
    on_cpu, expected = dlvm.function(step), list(start)
    on_gpu = dlvm.function(step, target="cuda", donate=("parameters",))
    with using(Counting()) as device:
        state, _ = on_gpu(list(start), x, y)
        places, held = [p.address for p in state], len(device.held)
        device.writes = 0
        for _ in range(3):
            state, value = on_gpu(state, x, y)
        assert (device.writes, device.reads) == (6, 0)
        assert [p.address for p in state] == places
        assert len(device.held) == held
        for _ in range(4):
            expected, last = on_cpu(expected, x, y)
        assert np.array_equal(np.asarray(value), last)
        for a, b in zip(state, expected, strict=True):
            assert np.array_equal(np.asarray(a), b)


def test_a_donated_array_is_the_result():
    f = double(donate=("x",))
    with using(EmulatedDevice()):
        x = f(f32(10))
        at = x.address
        x = f(x)
        assert x.address == at


def test_a_donated_array_that_others_reach_is_copied_on_the_device():
    f, start = double(donate=("x",)), f32(10)
    with using(Counting()) as device:
        x = f(start)
        kept = x
        device.reads = device.writes = 0
        x = f(x)
        assert (device.reads, device.writes) == (0, 0)
        assert x.address != kept.address
        assert np.array_equal(np.asarray(kept), 2 * start)
        assert np.array_equal(np.asarray(x), 4 * start)
        capsule, at = x.__dlpack__(), x.address
        with pytest.warns(dlvm.TraceWarning, match="copies x, 40 bytes"):
            x = f(x)
        assert x.address != at and capsule is not None


def test_an_array_that_is_donated_and_passed_again_is_copied():
    f = dlvm.function(lambda x, y: x + y, target="cuda", donate=("x",))
    with using(EmulatedDevice()):
        x = double()(f32(10))
        before = np.asarray(x)
        assert np.array_equal(np.asarray(f(x, x)), 2 * before)
        assert np.array_equal(np.asarray(x), before)


def test_arrays_of_others_are_read_where_they_are():
    x = f32(3, 4)
    with using(Counting()) as device:
        found = double()(Foreign(x))
        assert device.writes == 0
        assert np.array_equal(np.asarray(found), 2 * x)
        assert device.followed == []
        double()(Foreign(x, stream=7))
        double()(Foreign(x, stream=1))
        assert device.followed == [7]


def test_a_donated_array_of_others_is_copied():
    """Its owner may have views of it that nobody here knows of."""
    x = f32(10)
    before = x.copy()
    with using(EmulatedDevice()):
        found = double(donate=("x",))(Foreign(x))
        assert found.address != x.ctypes.data
        assert np.array_equal(np.asarray(found), 2 * before)
        assert np.array_equal(x, before)


def test_a_donated_array_of_others_that_is_read_only_is_copied():
    x = f32(10)
    before = x.copy()
    with using(EmulatedDevice()):
        found = double(donate=("x",))(Foreign(x, data=(x.ctypes.data, True)))
        assert np.array_equal(np.asarray(found), 2 * before)
    assert np.array_equal(x, before)


def test_arrays_of_others_say_on_which_gpu_they_are():
    class Elsewhere(Foreign):
        def __dlpack_device__(self):
            return 2, 1

        def __dlpack__(self, stream=None):
            raise AssertionError("the other protocol has told it all")

    class Packed(Capsuled):
        def __dlpack_device__(self):
            return 2, 1

    x = f32(3, 4)
    for given in (Elsewhere(x), Packed(x)):
        with using(EmulatedDevice()), pytest.raises(dlvm.UserError, match="found one on GPU 1"):
            double()(given)


@pytest.mark.parametrize("change", [{"strides": (4, 12)}, {"mask": Foreign(f32(3, 4))}])
def test_arrays_that_are_not_dense_are_refused(change):
    with (
        using(EmulatedDevice()),
        pytest.raises(dlvm.UserError, match="expected a dense array") as e,
    ):
        double()(Foreign(f32(3, 4), **change))
    assert "help: pass a contiguous copy" in str(e.value)


def test_a_function_of_the_cpu_says_how_to_copy():
    f = dlvm.function(lambda x: x * 2)
    with using(EmulatedDevice()):
        x = double()(f32(10))
        with pytest.raises(dlvm.UserError, match="the function runs on the CPU") as e:
            f(x)
        assert "help: pass np.asarray(x), which copies it to the host" in str(e.value)
        assert np.array_equal(f(np.asarray(x)), 2 * np.asarray(x))
        assert np.array_equal(f(f32(10)).shape, (10,))
        with pytest.raises(dlvm.UserError, match=r"x.cpu\(\) of PyTorch"):
            f(Foreign(f32(10)))


def test_an_array_on_a_device_is_no_constant_of_the_code():
    with using(EmulatedDevice()):
        w = double()(f32(10))
        with pytest.raises(dlvm.UserError, match="captures an array on a device") as e:
            dlvm.function(lambda x: x * w, target="cuda")(f32(10))
        assert "help: pass it as an argument" in str(e.value)
        g = dlvm.function(lambda x, w: x * w, target="cuda")
        assert np.array_equal(np.asarray(g(f32(10), w)).shape, (10,))


def test_outside_of_staged_functions_it_is_copied():
    with using(EmulatedDevice()):
        x = double()(f32(10))
        assert np.array_equal(dlvm.exp(x), dlvm.exp(np.asarray(x)))
        bound = dlvm.function(lambda x, w: x * w).bind(w=x)
        assert np.array_equal(bound(np.float32(2)), 2 * np.asarray(x))


def test_numpy_takes_a_result_by_dlpack():
    with using(EmulatedDevice()):
        x = double()(f32(3, 4))
        expected = np.asarray(x)
        assert x.__dlpack_device__() == (1, 0)
        taken = np.from_dlpack(x)
        assert taken.ctypes.data == x.address
        del x
        gc.collect()
        assert np.array_equal(taken, expected)
        assert len(dlpack.HELD) == 1
        del taken
        assert not dlpack.HELD


def test_a_capsule_that_nobody_reads_lets_go():
    with using(EmulatedDevice()):
        x = double()(f32(3))
        capsule = x.__dlpack__(stream=1)
        assert len(dlpack.HELD) == 1
        del capsule
        assert not dlpack.HELD
        with pytest.raises(BufferError):
            x.__dlpack__(dl_device=(2, 0))


class Brain(Foreign):
    """An array of bf16 as PyTorch's: one protocol says that elements are two bytes, no more."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        return self.more["packed"].__dlpack__(stream=stream)


def test_halves_of_16_bits_come_in_by_the_protocol_that_knows_them():
    with using(Counting()) as device:
        packed = dlvm.function(lambda x: x.astype(dlvm.bfloat16), target="cuda")(f32(3, 4))
        before, writes = np.asarray(packed), device.writes
        found = double()(Brain(before, typestr="|V2", packed=packed))
        assert device.writes == writes
        assert found.dtype == before.dtype
        assert np.array_equal(np.asarray(found), before * 2)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1", "?"])
def test_arrays_come_in_by_dlpack(dtype):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    f = dlvm.function(lambda x: dlvm.where(x > 0, x, x), target="cuda")
    with using(Counting()) as device:
        given = Capsuled(x)
        found = f(given)
        assert (device.writes, given.streams) == (0, [1])
        assert np.array_equal(np.asarray(found), x)
        assert found.dtype == x.dtype


def test_a_result_comes_back_in_by_dlpack():
    with using(EmulatedDevice()):
        x = double()(f32(3, 1, 4))
        given = Capsuled(x)
        assert np.array_equal(np.asarray(double()(given)), 2 * np.asarray(x))
        with pytest.raises(dlvm.UserError, match="expected a dense array"):
            double()(Capsuled(f32(3, 4).T))
        with pytest.raises(dlvm.UserError, match="device 0 of type 10"):
            double()(Capsuled(f32(3, 4), kind=10))


def test_half_of_16_bits_goes_out():
    x = f32(5)
    f = dlvm.function(lambda x: x.astype("bf16"), target="cuda")
    with using(EmulatedDevice()):
        y = f(x)
        again = dlvm.function(lambda y: y.astype("f4"), target="cuda")(Capsuled(y))
        assert np.array_equal(np.asarray(again), np.asarray(y).astype("f4"))


def test_a_result_is_told_with_its_stream():
    with using(EmulatedDevice()):
        x = double()(f32(3))
        assert isinstance(x, DeviceArray)
        assert x.__cuda_array_interface__["stream"] == 1
