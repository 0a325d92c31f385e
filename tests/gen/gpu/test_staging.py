"""Arrays of the host go to a device and come back through pinned memory, piece by piece."""

import logging
import threading

import numpy as np
import pytest

from dlvm.gen.gpu.devices import staging
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.devices.driver import Driver, DriverError

from .kinds import f32
from .standing_in import StandIn
from .test_driver import compiled

PIECE = 4096


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(staging, "PIECE", PIECE)
    monkeypatch.setattr(staging, "DIRECT", 1000)


def bytes_of(count):
    return np.random.default_rng(count).integers(0, 256, count, dtype=np.uint8)


def round_trip(driver, array):
    """What comes back of an array, which changes when it has been written."""
    given, back = array.copy(), np.empty_like(array)
    address = driver.allocate(array.nbytes)
    driver.write(address, given)
    given.fill(0)
    driver.read(address, back)
    driver.free(address)
    return back


@pytest.mark.parametrize("stream", [0, 55])
@pytest.mark.parametrize("count", [1001, PIECE, 4 * PIECE, 4 * PIECE + 1, 11 * PIECE - 7])
def test_arrays_of_any_size_come_back(stream, count):
    stand_in = StandIn()
    driver, array = Driver(stand_in, stream=stream), bytes_of(count)
    for _ in range(3):
        assert np.array_equal(round_trip(driver, array), array)
    assert stand_in.count("cuMemHostAlloc") == 1
    assert stand_in.count("cuMemcpyHtoDAsync_v2") == 3 * -(-count // PIECE)
    assert stand_in.count("cuStreamSynchronize") == 0
    assert not {"cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"} & set(stand_in.calls)


def test_a_write_does_not_wait_for_its_copies():
    stand_in = StandIn()
    driver = Driver(stand_in)
    driver.write(driver.allocate(3 * PIECE), bytes_of(3 * PIECE))
    assert len(stand_in.late) == 6


def test_small_arrays_are_left_to_the_driver():
    stand_in = StandIn()
    array = bytes_of(1000)
    assert np.array_equal(round_trip(Driver(stand_in), array), array)
    assert stand_in.count("cuMemHostAlloc") == 0


def test_programs_read_what_was_written_and_write_what_is_read():
    stand_in, x = StandIn(), f32(3000)
    made = compiled(stand_in, lambda x: x * 2, x)
    with using(Driver(stand_in)):
        for k in (1, 2, 3):
            assert np.array_equal(np.asarray(made(k * x)), 2 * (k * x))
    assert stand_in.count("cuMemHostAlloc") == 1


def test_where_the_driver_pins_no_memory_it_copies_by_itself(caplog):
    stand_in, array = StandIn(), bytes_of(9000)
    driver = Driver(stand_in)
    stand_in.faults["cuMemHostAlloc"] = 2
    with caplog.at_level(logging.WARNING, "dlvm.gpu"):
        for _ in range(2):
            assert np.array_equal(round_trip(driver, array), array)
    assert stand_in.count("cuMemHostAlloc") == 1
    assert stand_in.count("cuMemcpyHtoD_v2") == 2
    assert len(caplog.records) == 1
    assert "not copied through pinned memory: cuMemHostAlloc: CUDA_ERROR_OUT" in caplog.text


def test_pieces_of_a_copy_that_failed_are_not_used_again():
    stand_in, array = StandIn(), bytes_of(9000)
    driver = Driver(stand_in)
    stand_in.faults["cuEventRecord"] = 700
    with pytest.raises(DriverError, match="cuEventRecord"):
        driver.write(driver.allocate(9000), array)
    stand_in.faults.clear()
    assert np.array_equal(round_trip(driver, array), array)
    assert stand_in.count("cuMemHostAlloc") == 2


def test_a_second_thread_does_not_wait_for_the_pieces():
    stand_in, array, found = StandIn(), bytes_of(9000), []
    driver = Driver(stand_in)
    with driver._staging._ring():
        thread = threading.Thread(target=lambda: found.append(round_trip(driver, array)))
        thread.start()
        thread.join(20)
    assert np.array_equal(found[0], array)
    assert stand_in.count("cuMemcpyHtoD_v2") == 1
