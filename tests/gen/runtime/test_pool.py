"""The thread pool: every part once, whoever calls, from wherever, and after a fork."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from dlvm.base.errors import UserError
from dlvm.compile import Options
from dlvm.gen.llvm.binding import Library, object_code
from dlvm.gen.runtime import call_words, floating, pool, pool_code
from dlvm.gen.text.module import Text
from dlvm.target import Target

HERE = pytest.mark.skipif(not pool.address(2), reason="this system has no pool")

BODIES = """
define void @count(ptr %env, i64 %begin, i64 %end) #0 {
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %one, label %done
one:
  %i = phi i64 [ %begin, %entry ], [ %next, %one ]
  %at = getelementptr i64, ptr %env, i64 %i
  %before = load i64, ptr %at
  %after = add i64 %before, 1
  store i64 %after, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %one, label %done
done:
  ret void
}
define void @parts(ptr %env, i64 %begin, i64 %end) #0 {
entry:
  %which = atomicrmw add ptr %env, i64 2 seq_cst
  %first = add i64 %which, 1
  %second = add i64 %which, 2
  %first.at = getelementptr i64, ptr %env, i64 %first
  %second.at = getelementptr i64, ptr %env, i64 %second
  store i64 %begin, ptr %first.at
  store i64 %end, ptr %second.at
  ret void
}
define void @nested(ptr %env, i64 %begin, i64 %end) #0 {
entry:
  %context = load ptr, ptr %env
  %array.at = getelementptr ptr, ptr %env, i64 1
  %array = load ptr, ptr %array.at
  br label %one
one:
  %i = phi i64 [ %begin, %entry ], [ %next, %one ]
  %row = mul i64 %i, 100
  %at = getelementptr i64, ptr %array, i64 %row
  call void @fork(ptr %context, ptr @count, ptr %at, i64 100, i64 10)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %one, label %done
done:
  ret void
}
define void @call(ptr %context, i64 %which, ptr %env, i64 %count, i64 %grain) #0 {
entry:
  %first = icmp eq i64 %which, 0
  %second = icmp eq i64 %which, 1
  %other = select i1 %second, ptr @parts, ptr @nested
  %body = select i1 %first, ptr @count, ptr %other
  call void @fork(ptr %context, ptr %body, ptr %env, i64 %count, i64 %grain)
  ret void
}
"""
COUNT, PARTS, NESTED = range(3)


class Forking:
    """The bodies above, called through ``@fork``."""

    def __init__(self):
        host = Target.host()
        text = Text.of(host)
        pool.include_fork(text)
        text.functions["bodies"] = BODIES
        self.library = Library(object_code(str(text), host), host)
        kinds = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        self.call = ctypes.CFUNCTYPE(None, *kinds)(self.library.address("call"))

    def __call__(self, which, env, count, grain, threads):
        self.call(context(threads).ctypes.data, which, env.ctypes.data, count, grain)


def context(threads):
    words = np.zeros(call_words.WORDS, np.int64)
    words[call_words.POOL], words[call_words.THREADS] = pool.address(threads), threads
    return words


@pytest.fixture(scope="module")
def fork():
    return Forking()


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_index_is_visited_once(fork, threads):
    for count in (0, 1, 2, 15, 16, 17, 1000, 100_003):
        for grain in (1, 16, 4096):
            seen = np.zeros(count + 1, np.int64)
            fork(COUNT, seen, count, grain, threads)
            assert (seen[:count] == 1).all() and seen[count] == 0


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_parts_are_whole_grains_but_the_last(fork, threads):
    for count, grain in ((1, 16), (16, 16), (17, 16), (1000, 16), (999, 1), (100, 33)):
        found = np.zeros(4096, np.int64)
        fork(PARTS, found, count, grain, threads)
        parts = sorted(map(tuple, found[1 : found[0] + 1].reshape(-1, 2)))
        assert parts[0][0] == 0 and parts[-1][1] == count
        assert all(a[1] == b[0] and a[1] % grain == 0 for a, b in pairwise(parts))
        grains = -(-count // grain)
        shared = threads > 1 and pool.address(threads)
        most = min(pool_code.PARTS * threads, grains) if shared else 1
        piece = pool.GRAINS_IN_PIECE * grain if grains > 1 else count
        assert most <= len(parts) <= most + grains // pool.GRAINS_IN_PIECE + 1
        assert all(b - a <= piece for a, b in parts)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_that_is_to_end_does_no_more_parts(fork, threads):
    words, seen = context(threads), np.zeros(1000, np.int64)
    words[call_words.HALT] = 1
    fork.call(words.ctypes.data, COUNT, seen.ctypes.data, 1000, 1)
    assert not seen.any()


def test_a_fork_within_a_fork_runs_where_it_stands(fork):
    rows = np.zeros((50, 100), np.int64)
    words = context(2)
    env = np.array([words.ctypes.data, rows.ctypes.data])
    fork.call(words.ctypes.data, NESTED, env.ctypes.data, 50, 1)
    assert (rows == 1).all()


def test_python_threads_fork_at_once(fork):
    wrong = []

    def work():
        for _ in range(300):
            seen = np.zeros(999, np.int64)
            fork(COUNT, seen, 999, 16, 3)
            if not (seen == 1).all():
                wrong.append(seen)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_many_jobs_in_a_row_and_after_rests(fork):
    """Workers that spin, that fall asleep, and that are woken."""
    seen = np.zeros(200, np.int64)
    for i in range(3000):
        fork(COUNT, seen, 200, 10, 2 + i % 3)
        if i % 500 == 0:
            time.sleep(0.002)
    assert (seen == 3000).all()


CHILD = """
import os, sys, threading
import numpy as np
import dlvm

@dlvm.function(threads=2)
def f(x):
    return dlvm.tanh(x) * 2

@dlvm.function(threads=300)
def most(x):
    return dlvm.tanh(x) * 2

x = np.linspace(-1, 1, 200_000)
expected = f(x)

def child(ends=True):
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    good = all(np.array_equal(g(x), expected) for g in (f, f, most, f))
    os._exit(0 if good else 1)

assert child() == 0
going = True
def busy():
    while going:
        f(x)
thread = threading.Thread(target=busy)
thread.start()
codes = [child() for _ in range(5)]
going = False
thread.join()
assert codes == [0] * 5, codes
assert np.array_equal(f(x), expected)
print("fine")
"""


@HERE
def test_a_forked_child_makes_workers_of_its_own():
    """Even where another thread was at work in the moment of the fork; and the parent goes on."""
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert out.returncode == 0 and out.stdout == "fine\n", out.stderr


@HERE
def test_workers_leave_signals_to_python(fork):
    fork(COUNT, np.zeros(100, np.int64), 100, 1, 2)
    interrupted = []
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.append(threading.current_thread()))
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted == [threading.main_thread()]
    pages = [p.read_text() for p in Path("/proc/self/task").glob("*/status")]
    masks = [int(m, 16) for m in re.findall(r"SigBlk:\s*(\w+)", "".join(pages))]
    assert any(mask >> (signal.SIGINT - 1) & 1 for mask in masks)


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"])
def test_there_is_code_for_every_system_that_has_a_pool(triple):
    how = pool_code.system(triple)
    assert how is not None
    target = Target(triple, "generic" if "aarch64" in triple else "x86-64", "", 128, 32, 2)
    found = object_code(
        pool_code.code(how, floating.functions(triple), "nounwind"), target, jit=False
    )
    assert found[:4] == b"\x7fELF"


def test_other_systems_have_none():
    assert pool_code.system("arm64-apple-darwin23") is None
    assert pool_code.system("riscv64-unknown-linux-gnu") is None


def test_the_number_of_threads_is_that_of_the_function_then_of_the_environment(monkeypatch):
    monkeypatch.delenv("DLVM_THREADS", raising=False)
    assert Options().machine().threads == len(os.sched_getaffinity(0))
    monkeypatch.setenv("DLVM_THREADS", "5")
    assert Options().machine().threads == 5
    assert Options(threads=3).machine().threads == 3
    monkeypatch.setenv("DLVM_THREADS", "none")
    with pytest.raises(UserError, match="DLVM_THREADS='none'"):
        Options().machine()
