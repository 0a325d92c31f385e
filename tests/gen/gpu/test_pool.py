"""The pool of a device's memory: blocks are split, joined, and given back to the driver."""

import random
import threading

import numpy as np
import pytest

from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.devices.driver import Driver
from dlvm.gen.gpu.devices.pool import LARGE, Pool

from .kinds import f32
from .standing_in import StandIn
from .test_driver import compiled
from .test_programs import assert_same_bits, machine_code

MB = 1 << 20


class Room:
    """A driver with so many bytes, whose memories lie side by side."""

    def __init__(self, room=1 << 62):
        self.room, self.held, self.next, self.given = room, {}, 1 << 30, 0
        self.pool = Pool(self.take, self.give)

    def take(self, count):
        if self.used + count > self.room:
            raise MemoryError(f"no {count:,} bytes left")
        address, self.next = self.next, self.next + count
        self.held[address] = count
        return address

    def give(self, address):
        del self.held[address]
        self.given += 1

    @property
    def used(self):
        return sum(self.held.values())


def check(room, live, address, count):
    """The driver gave the memory, and nobody else has any of it."""
    assert address % 256 == 0
    assert any(a <= address and address + count <= a + n for a, n in room.held.items())
    assert all(address + count <= a or a + n <= address for a, n in live.items())


@pytest.mark.parametrize("room", [1 << 62, 24 * MB], ids=["much", "little"])
def test_memory_has_one_owner_and_all_is_joined_in_the_end(room):
    draw, room, live, refused = random.Random(room), Room(room), {}, 0
    for _ in range(4000):
        if live and draw.random() < (0.4 if len(live) < 40 else 0.6):
            address = draw.choice([*live])
            room.pool.free(address)
            del live[address]
            continue
        count = draw.choice([1, 700, 5000, 300_000, MB, 3 * MB + 1])
        try:
            address = room.pool.allocate(count)
        except MemoryError:
            assert sum(live.values()) + count > room.room // 8
            refused += 1
        else:
            check(room, live, address, count)
            live[address] = count
    assert bool(refused) == (room.room < 1 << 62)
    for address in live:
        room.pool.free(address)
    room.pool.empty()
    assert not room.held


def test_memory_comes_in_multiples_of_512_bytes():
    pool = Room().pool
    first, second, third = (pool.allocate(n) for n in (0, 513, 512))
    assert (second - first, third - second) == (512, 1024)


def test_a_larger_block_is_split_and_joined_again():
    room = Room()
    whole = room.pool.allocate(8 * MB)
    room.pool.free(whole)
    parts = [room.pool.allocate(n) for n in (5 * MB, 3 * MB)]
    assert parts == [whole, whole + 5 * MB]
    for address in reversed(parts):
        room.pool.free(address)
    assert room.pool.allocate(8 * MB) == whole
    assert len(room.held) == 1


def test_memories_of_the_driver_that_touch_are_not_joined():
    room = Room()
    first, second = room.pool.allocate(2 * MB), room.pool.allocate(2 * MB)
    assert second == first + 2 * MB
    room.pool.free(first)
    room.pool.free(second)
    assert room.pool.allocate(4 * MB) not in (first, second)


def test_a_small_array_does_not_occupy_the_memory_of_a_large_one():
    room = Room()
    large = room.pool.allocate(100 * MB)
    room.pool.free(large)
    small = room.pool.allocate(4)
    assert not large <= small < large + 100 * MB
    assert room.pool.allocate(100 * MB) == large


def test_any_block_is_split_where_the_driver_has_no_more():
    room = Room(100 * MB)
    parts = [room.pool.allocate(50 * MB), room.pool.allocate(50 * MB)]
    room.pool.free(parts[0])
    assert room.pool.allocate(4) == room.next - LARGE
    assert room.given == 1
    half = room.pool.allocate(40 * MB)
    room.pool.free(half)
    assert room.pool.allocate(MB) is not None
    with pytest.raises(MemoryError, match=f"no {50 * MB:,} bytes left"):
        room.pool.allocate(50 * MB)
    assert room.used <= room.room


@pytest.mark.parametrize("sizes", ["growing", "shrinking", "drawn"])
def test_no_more_is_kept_than_twice_what_was_in_use(sizes):
    room, peak = Room(), 0
    counts = [MB * n for n in range(1, 200)]
    if sizes == "shrinking":
        counts.reverse()
    elif sizes == "drawn":
        random.Random(1).shuffle(counts)
    for count in counts:
        peak = max(peak, count + LARGE)
        room.pool.free(room.pool.allocate(count))
        assert room.used <= 2 * peak


def test_sizes_that_recur_ask_the_driver_for_nothing():
    room = Room()

    def step():
        held = [room.pool.allocate(n) for n in (400, 70_000, 3 * MB, 9 * MB)]
        for address in held[::-1]:
            room.pool.free(address)
        return held

    step()
    taken = room.next
    assert step() == step() == step()
    assert (room.next, room.given) == (taken, 0)


def test_threads_take_and_give_at_once():
    room, wrong = Room(), []
    owner, lock = {}, threading.Lock()

    def work(me):
        draw = random.Random(me)
        for _ in range(400):
            held = [room.pool.allocate(draw.choice([512, 9000, 400_000])) for _ in range(3)]
            for address in held:
                if owner.setdefault(address, me) != me:
                    wrong.append(address)
            for address in held:
                with lock:
                    del owner[address]
                room.pool.free(address)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    room.pool.empty()
    assert not room.held


def test_a_captured_graph_runs_in_the_memory_of_its_call_or_not_at_all():
    stand_in, x = StandIn(), f32(5, 40)
    made = compiled(stand_in, lambda x: (x * 2, x.T @ x, x.sum()), x)
    expected = machine_code(lambda x: (x * 2, x.T @ x, x.sum()), x)
    with using(Driver(stand_in)) as driver:

        def turns(count):
            for _ in range(count):
                assert_same_bits(made(x), expected)

        turns(4)
        captured = stand_in.count("cuGraphLaunch")
        driver._pool.empty()
        others = [driver.allocate(n) for n in (100, 5000, 9000, 700)]
        for address in others[1:]:
            driver.write(address, np.full(100 // 4, np.nan, "f4"))
            driver.free(address)
        turns(4)
    assert stand_in.count("cuGraphLaunch") > captured > 0


def test_memory_that_runs_out_is_given_back_before_an_error():
    stand_in, x = StandIn(room=4 * MB), f32(100_000)
    made = compiled(stand_in, lambda x: x * 2, x)
    with using(Driver(stand_in)) as driver:
        for count in (1, 3):
            driver.free(driver.allocate(count * MB))
        assert np.array_equal(np.asarray(made(x)), 2 * x)
        with pytest.raises(MemoryError, match="no 5,242,880 bytes left"):
            driver.allocate(5 * MB)
