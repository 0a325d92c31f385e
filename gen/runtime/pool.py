"""The thread pool: how generated code forks, and the one pool of this process.

Generated code calls ``@fork(context, body, env, count, grain)``, which ``include_fork`` puts into
a module. ``body`` is ``void(ptr env, i64 begin, i64 end)`` and is called over parts that together
are ``[0, count)``, each a multiple of ``grain`` but the last: by several threads at once, or once
by the caller where the call has no pool (word ``POOL`` of its context is 0), where there is one
grain only, or where the pool is at work (for another Python thread, or further out). A grain
should be a microsecond of work or more. Which parts there are must change no result. A long part is
done in pieces, between which the call may end: what follows a fork looks at ``HALT`` first.

Workers are made when a job first asks for them, in machine code; no Python runs on the way. They
block all signals, spin for a while after a job and then sleep. A forked child has no workers: its
pool starts anew. Where there is no Linux on x86-64 or AArch64, calls have no pool.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from dlvm.base.locks import Order, held_at_fork
from dlvm.base.system import c_library
from dlvm.gen.llvm.binding import Library, object_code
from dlvm.gen.text.module import Text
from dlvm.ir import Array
from dlvm.target import Target, cores

from . import floating
from . import pool_code as words
from .call_words import HALT, POOL, THREADS
from .choice import WORDS as CHOICE
from .choice import Head
from .interrupts import include_ask

SPIN_SECONDS = 50e-6
"""For how long a worker waits for the next job before it sleeps."""

GRAINS_IN_PIECE = 64
"""Grains that a thread takes on before it looks whether the call is to end: some 0.1 ms."""

FORK = f"""
define internal void @fork(ptr %context, ptr %body, ptr %env, i64 %count, i64 %grain) #0 {{
entry:
  %job = alloca [4 x i64], align 16
  %small = icmp sle i64 %count, %grain
  br i1 %small, label %serial, label %large
serial:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %all, label %done
all:
  call void %body(ptr %env, i64 0, i64 %count)
  br label %done
large:
  store ptr %context, ptr %job
  %body.at = getelementptr i64, ptr %job, i64 1
  store ptr %body, ptr %body.at
  %env.at = getelementptr i64, ptr %job, i64 2
  store ptr %env, ptr %env.at
  %piece = mul i64 %grain, {GRAINS_IN_PIECE}
  %piece.at = getelementptr i64, ptr %job, i64 3
  store i64 %piece, ptr %piece.at
  %pool.at = getelementptr i64, ptr %context, i64 {POOL}
  %pool = load ptr, ptr %pool.at
  %none = icmp eq ptr %pool, null
  br i1 %none, label %alone, label %share
alone:
  call void @pieces(ptr %job, i64 0, i64 %count)
  br label %done
share:
  %limit.at = getelementptr i64, ptr %context, i64 {THREADS}
  %limit = load i64, ptr %limit.at
  %run = load ptr, ptr %pool
  call void %run(ptr %pool, ptr @pieces, ptr %job, i64 %count, i64 %grain, i64 %limit)
  br label %done
done:
  ret void
}}
define internal void @pieces(ptr %job, i64 %begin, i64 %end) #0 {{
entry:
  %context = load ptr, ptr %job
  %body.at = getelementptr i64, ptr %job, i64 1
  %body = load ptr, ptr %body.at
  %env.at = getelementptr i64, ptr %job, i64 2
  %env = load ptr, ptr %env.at
  %piece.at = getelementptr i64, ptr %job, i64 3
  %piece = load i64, ptr %piece.at
  %halt.at = getelementptr i64, ptr %context, i64 {HALT}
  br label %look
look:
  %start = phi i64 [ %begin, %entry ], [ %stop, %ask ]
  %halt = load atomic i64, ptr %halt.at acquire, align 8
  %halted = icmp ne i64 %halt, 0
  br i1 %halted, label %done, label %run
run:
  %next = add i64 %start, %piece
  %past = icmp sgt i64 %next, %end
  %stop = select i1 %past, i64 %end, i64 %next
  call void %body(ptr %env, i64 %start, i64 %stop)
  %more = icmp slt i64 %stop, %end
  br i1 %more, label %ask, label %done
ask:
  call void @ask(ptr %context, ptr %halt.at)
  br label %look
done:
  ret void
}}"""


ALONE = """
define internal void @fork(ptr %context, ptr %body, ptr %env, i64 %count, i64 %grain)
  alwaysinline #0 {
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %all, label %done
all:
  call void %body(ptr %env, i64 0, i64 %count)
  br label %done
done:
  ret void
}"""
FORKS = {"linux": FORK, "none": ALONE}
"""By what there is around the code."""


def include_fork(text: Text) -> None:
    """Put ``@fork`` into a module."""
    include_ask(text)
    text.functions["fork"] = FORKS[text.os]


def address(threads: int) -> int:
    """The content of word ``POOL`` of a call that may use ``threads`` threads."""
    if threads < 2 or words.system(Target.host().triple) is None:
        return 0
    with _making:
        return _pool()


def choice(threads: int) -> Array | None:
    """The words by which a program chooses between one and ``threads`` threads; see ``choice``."""
    pool = address(threads)
    if not pool:
        return None
    made = np.zeros(CHOICE, np.int64)
    made[Head.MANY], made[Head.POOL] = threads, pool
    library = _library()
    made[Head.BEGIN], made[Head.END] = map(library.address, ("choice_begin", "choice_end"))
    clock = c_library().clock_gettime
    made[Head.CLOCK] = ctypes.cast(clock, ctypes.c_void_p).value or 0
    return made


@contextmanager
def chosen(words: Array | None, work: int, context: Any) -> Generator[None]:
    """Inside, a call of this much work runs on as many threads as its context was given."""
    if words is None:
        yield
        return
    at, own = words.ctypes.data, ctypes.addressof(context)
    started = BEGIN(int(words[Head.BEGIN]))(at, work, own)
    yield
    END(int(words[Head.END]))(at, work, own, started)


BEGIN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
END = ctypes.CFUNCTYPE(None, *BEGIN._argtypes_, ctypes.c_int64)
_making = held_at_fork(threading.Lock(), Order.POOL)
_keep = ctypes.pythonapi.Py_IncRef
_keep.argtypes, _keep.restype = [ctypes.py_object], None


@cache
def _pool() -> int:
    """The pool's words, which live as long as the process, as its workers do."""
    library = _library()
    block = (ctypes.c_int64 * (words.SIZE + 8))()
    for thing in (library, block):
        _keep(ctypes.py_object(thing))
    start = -(ctypes.addressof(block) // -64) * 64
    pool = (ctypes.c_int64 * words.SIZE).from_address(start)
    pool[words.RUN], pool[words.WORKER] = map(library.address, ("pool_run", "pool_worker"))
    libc = c_library()
    for word, function in (
        (words.CREATE, libc.pthread_create),
        (words.MASK, libc.pthread_sigmask),
        (words.SYSCALL, libc.syscall),
    ):
        pool[word] = ctypes.cast(function, ctypes.c_void_p).value or 0
    _set_signals(pool)
    _set_seats(pool, start, _spins(library))
    _reset(pool)
    os.register_at_fork(after_in_child=lambda: _reset(pool))
    return start


@cache
def _library() -> Library:
    from dlvm.gen.text.module import attributes

    host = Target.host()
    how = words.system(host.triple)
    assert how is not None
    return Library(
        object_code(words.code(how, floating.functions(host.triple), attributes(host)), host), host
    )


def _reset(pool: ctypes.Array[ctypes.c_int64]) -> None:
    """No worker, no job."""
    for word in (words.LOCK, words.SLEEPERS, words.STATE):
        pool[word] = 0
    pool[words.STARTED] = 1


def _set_signals(pool: ctypes.Array[ctypes.c_int64]) -> None:
    """Workers take no signal but those of their own faults."""
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}
    for number in set(signal.valid_signals()) - faults:
        pool[words.SIGNALS] |= (1 << (number - 1)) - (1 << 64 if number == 64 else 0)


def _set_seats(pool: ctypes.Array[ctypes.c_int64], start: int, spins: int) -> None:
    """Threads beyond the cores don't spin."""
    own = cores()
    for t in range(words.MAX_THREADS):
        seat = words.SEATS + words.SEAT * t
        pool[seat + words.NUMBER], pool[seat + words.POOL] = t, start
        pool[seat + words.SPINS] = spins if t < own else 1


def _spins(library: Library) -> int:
    """How many pauses last as long as a worker should wait."""
    pause = ctypes.CFUNCTYPE(None, ctypes.c_int64)(library.address("pool_pause"))
    seconds: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        pause(100)
        seconds.append((time.perf_counter() - start) / 100)
    return max(1, int(SPIN_SECONDS / min(seconds)))
