"""The choice of threads: it finds the faster way, keeps it, sees changes, and changes no bit."""

from __future__ import annotations

import ctypes
import random
import re
import statistics
import threading
from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.gen.runtime import choice, pool, tape
from dlvm.gen.runtime.choice import ALL, ONE, Head, Record

HERE = pytest.mark.skipif(not pool.address(2), reason="this system has no pool")


class Calls:
    """Calls whose times are made up, and what the choice learns from them."""

    def __init__(self):
        note = pool._library().address("choice_note")
        self.note = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(note)
        self.record = np.zeros(choice.SIZE, np.int64)

    def run(self, count, seconds):
        """The ways that so many calls took, if ``seconds`` says how long each way takes."""
        ways = []
        for _ in range(count):
            ways.append(int(self.record[Record.WAY]))
            self.note(self.record.ctypes.data, ways[-1], int(seconds(ways[-1]) * 1e9))
        return ways


def taking(one, all_, noise=0.0, seed=0):
    """Times of the two ways; one call in ten takes up to ``noise`` times as long."""
    rng = random.Random(seed)

    def seconds(way):
        late = 1 + noise * rng.random() if rng.random() < 0.1 else 1 + 0.05 * rng.random()
        return (one if way == ONE else all_) * late

    return seconds


@HERE
@pytest.mark.parametrize("noise", [0, 30])
@pytest.mark.parametrize("step", [1e-5, 1e-4, 1e-3, 1e-2])
@pytest.mark.parametrize("ratio", [0.55, 0.8, 0.98, 1.02, 1.3, 2.6])
def test_after_twenty_calls_the_median_is_near_the_better_way(ratio, step, noise):
    for seed in range(10):
        calls, seconds = Calls(), taking(step, step * ratio, noise, seed)
        calls.run(20, seconds)
        ways = calls.run(200, seconds)
        times = [step if way == ONE else step * ratio for way in ways]
        assert statistics.median(times) <= 1.15 * min(step, step * ratio)


@HERE
def test_trials_become_rare():
    calls, seconds = Calls(), taking(1e-4, 2e-4)
    calls.run(5000, seconds)
    ways = calls.run(5000, seconds)
    assert 0 < ways.count(ALL) <= 5000 // 12


@HERE
@pytest.mark.parametrize("step", [1e-5, 1e-3])
def test_a_change_is_seen_in_either_direction(step):
    calls = Calls()
    free, busy = taking(step, step * 0.6), taking(step, step * 2.6)
    assert calls.run(500, free)[-100:].count(ALL) > 50
    assert calls.run(100, busy)[-40:].count(ONE) >= 20
    assert calls.run(2000, busy)[-200:].count(ONE) > 150
    assert calls.run(4000, free)[-100:].count(ALL) > 50


@HERE
def test_the_median_is_the_middle_one_of_the_last_five():
    for order in range(30):
        calls = Calls()
        calls.run(choice.SKIPPED, lambda way: 1.0)
        times = random.Random(order).sample(range(1, 1000), 5)
        for t in times:
            calls.run(1, lambda way, t=t: t / 1e3)
        assert abs(calls.record[Record.SCORE] - statistics.median(times) * 1e6) <= 1


@HERE
def test_words_that_calls_share_are_atomic():
    accesses = re.findall(r"^.*(?:= load|  store) .*$", choice.functions(), re.MULTILINE)
    assert len(accesses) > 20
    assert [line for line in accesses if "atomic i64" not in line] == []


def of_exp(x):
    y = dlvm.exp(x)
    return (y / (1 + y)).sum(), y


@HERE
def test_only_functions_that_say_nothing_choose(monkeypatch):
    monkeypatch.delenv("DLVM_THREADS", raising=False)
    x = np.linspace(-1, 1, 300_000)
    if dlvm.target.cores() < 2:
        pytest.skip("there is one core")
    chosen = dlvm.function(of_exp).compile(x)
    fixed = dlvm.function(of_exp, threads=2).compile(x)
    assert words(chosen)[Head.MANY] == dlvm.target.cores()
    assert words(fixed) is None
    monkeypatch.setenv("DLVM_THREADS", "2")
    assert words(dlvm.function(of_exp).compile(x)) is None


def words(compiled):
    """The words of the choice of a compiled function."""
    return compiled.road.executable._choice


@HERE
def test_the_ways_have_the_same_bits_and_calls_of_several_threads_may_choose_at_once():
    x = np.linspace(-1, 1, 60_000)
    compiled = dlvm.function(of_exp, threads=2).compile(x)
    fixed = compiled.road.executable
    expected = [a.tobytes() for a in fixed.run([x])]
    free = replace(fixed, adaptive=True)
    seen, wrong = set(), []

    def work():
        for i in range(300):
            found = free.run([x]) if i % 2 else free._by_ctypes([x], {}, print)
            seen.add(int(record(free, fixed.interface.work)[Record.WAY]))
            if [a.tobytes() for a in found] != expected:
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and seen == {ALL, ONE}


def record(executable, work):
    """What it has learnt about calls of this much work."""
    start = len(Head) + choice.SIZE * (int(work).bit_length() - 1 - choice.SMALLEST)
    return executable._choice[start : start + choice.SIZE]


@HERE
def test_short_calls_run_on_one_thread_and_are_not_timed():
    made = pool.choice(2)
    for work, threads in ((0, 1), (choice.BUSY, 1), (choice.BUSY + 1, 2), (1 << 62, 2)):
        context = (ctypes.c_int64 * tape.WORDS)()
        with pool.chosen(made, work, context):
            assert context[tape.THREADS] == threads
            assert context[tape.POOL] == (pool.address(2) if threads == 2 else 0)
    assert (made[len(Head) :] != 0).any()
    assert pool.choice(1) is None
