"""Ctrl-C in machine code: a long call asks Python now and then whether a signal has come.

The driver counts down the work of every trip of its loops, of every function that is entered, and
of every large kernel. When some fraction of a millisecond's work is done it looks at the clock, and
every ``PAUSE`` it takes Python's lock and lets Python run the handlers of signals, as Python does
between two lines. A handler that raises ends the call: the exception travels in the words of the
status. Only Python's main thread asks, as only it runs handlers.

Kernels ask as well, between pieces of loops that threads may share and between panels of products.
What Python raises there stands in words of the context, so that other threads end their pieces,
the kernel returns, whatever it has computed, and the driver leaves.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from functools import cache

import numpy as np

from dlvm.base.system import INTERRUPTS, c_library, has
from dlvm.gen.loops.status import INTERRUPTED
from dlvm.gen.program.steps import Launch, Step
from dlvm.gen.program.times import Times, total
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.ir import Array, Dim

from .call_words import HALT, LEFT, PRINTER, SIGNALS, SINCE
from .floating import include_modes

BUDGET = 100_000_000
"""Picoseconds of work between two looks at the clock."""
PAUSE = 40_000_000
"""Nanoseconds between two questions."""
TRIP = 2_000
"""What a trip counts besides its kernels."""
COUNTED = 20_000_000
"""A kernel that takes so long, or nobody knows how long, is counted where it stands."""

ENSURE, CHECK, FETCH, RELEASE, IDENT, MAIN, CLOCK = range(7)


def is_large(step: Step, times: Times) -> bool:
    """Whether a step is counted by itself, and not with the trip that it belongs to."""
    if not isinstance(step, Launch):
        return False
    time = times.step(step)
    return not isinstance(time, int) or time >= COUNTED


def of_trip(steps: Sequence[Step], times: Times) -> Dim:
    """What a trip through these steps counts; loops inside count their own trips."""

    def counted(step: Step) -> Dim:
        return 0 if is_large(step, times) else times.step(step)

    return TRIP + total(steps, counted, loops=False)


QUESTION = f"""\
  %ensure.at = getelementptr i64, ptr %table, i64 {ENSURE}
  %ensure = load ptr, ptr %ensure.at
  %check.at = getelementptr i64, ptr %table, i64 {CHECK}
  %check = load ptr, ptr %check.at
  %release.at = getelementptr i64, ptr %table, i64 {RELEASE}
  %release = load ptr, ptr %release.at
  call void @mode_leave(ptr %context)
  %state = call i32 %ensure()
  %found = call i32 %check()
  %nothing = icmp eq i32 %found, 0
  br i1 %nothing, label %go, label %raised
raised:
  %fetch.at = getelementptr i64, ptr %table, i64 {FETCH}
  %fetch = load ptr, ptr %fetch.at
  %type.at = getelementptr i64, ptr %status, i64 1
  %value.at = getelementptr i64, ptr %status, i64 2
  %traceback.at = getelementptr i64, ptr %status, i64 3
  call void %fetch(ptr %type.at, ptr %value.at, ptr %traceback.at)
  store atomic i64 {INTERRUPTED}, ptr %status release, align 8
"""

ASK = f"""
define internal void @ask(ptr %context, ptr %status) #0 {{
entry:
  %left.at = getelementptr i64, ptr %context, i64 {LEFT}
  store atomic i64 {BUDGET}, ptr %left.at monotonic, align 8
  %table.at = getelementptr i64, ptr %context, i64 {SIGNALS}
  %table = load ptr, ptr %table.at
  %none = icmp eq ptr %table, null
  br i1 %none, label %done, label %whose
whose:
  %ident.at = getelementptr i64, ptr %table, i64 {IDENT}
  %ident = load ptr, ptr %ident.at
  %main.at = getelementptr i64, ptr %table, i64 {MAIN}
  %main = load i64, ptr %main.at
  %own = call i64 %ident()
  %ours = icmp eq i64 %own, %main
  br i1 %ours, label %look, label %done
look:
  %time = alloca [2 x i64], align 16
  %clock.at = getelementptr i64, ptr %table, i64 {CLOCK}
  %clock = load ptr, ptr %clock.at
  %told = call i32 %clock(ptr %time, i32 1)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %since.at = getelementptr i64, ptr %context, i64 {SINCE}
  %since = load i64, ptr %since.at
  %passed = sub i64 %now, %since
  %early = icmp ult i64 %passed, {PAUSE}
  br i1 %early, label %done, label %question
question:
  store i64 %now, ptr %since.at
{QUESTION}  br label %go
go:
  call void %release(i32 %state)
  call void @mode_return(ptr %context)
  br label %done
done:
  ret void
}}"""


TELL = f"""
define internal void @tell(ptr %context, ptr %status, i64 %index, ptr %x, ptr %sizes) #0 {{
entry:
  %printer.at = getelementptr i64, ptr %context, i64 {PRINTER}
  %printer = load ptr, ptr %printer.at
  %table.at = getelementptr i64, ptr %context, i64 {SIGNALS}
  %table = load ptr, ptr %table.at
  %none = icmp eq ptr %table, null
  br i1 %none, label %alone, label %question
question:
{QUESTION}
  br label %release.now
go:
  %told = call i64 %printer(i64 %index, ptr %x, ptr %sizes)
  %good = icmp eq i64 %told, 0
  br i1 %good, label %release.now, label %bad
bad:
  store i64 {INTERRUPTED}, ptr %status
  br label %release.now
release.now:
  call void %release(i32 %state)
  call void @mode_return(ptr %context)
  br label %done
alone:
  call void @mode_leave(ptr %context)
  %told.alone = call i64 %printer(i64 %index, ptr %x, ptr %sizes)
  call void @mode_return(ptr %context)
  %good.alone = icmp eq i64 %told.alone, 0
  br i1 %good.alone, label %done, label %bad.alone
bad.alone:
  store i64 {INTERRUPTED}, ptr %status
  br label %done
done:
  ret void
}}"""
"""A value is given to Python under its lock, taken before signals are asked for: one that Python
would find on entering a callback would be lost. An exception there ends the call."""


def include_ask(text: Text) -> None:
    """Put ``@ask``, and what it calls, into a module."""
    include_modes(text)
    text.functions["ask"], text.functions["ask_after"] = ASKING[text.os]


def include_tell(text: Text) -> None:
    """Put ``@tell``, and what it calls, into a module."""
    include_modes(text)
    text.functions["tell"] = TELL


COUNT = f"""
define internal void @ask_after(ptr %context, i64 %work) #0 {{
entry:
  %left.at = getelementptr i64, ptr %context, i64 {LEFT}
  %left = load atomic i64, ptr %left.at monotonic, align 8
  %rest = sub i64 %left, %work
  store atomic i64 %rest, ptr %left.at monotonic, align 8
  %spent = icmp slt i64 %rest, 0
  br i1 %spent, label %look, label %done
look:
  %halt.at = getelementptr i64, ptr %context, i64 {HALT}
  call void @ask(ptr %context, ptr %halt.at)
  br label %done
done:
  ret void
}}
define internal i1 @ask_halted(ptr %context) #0 {{
entry:
  %halt.at = getelementptr i64, ptr %context, i64 {HALT}
  %halt = load atomic i64, ptr %halt.at monotonic, align 8
  %halted = icmp ne i64 %halt, 0
  ret i1 %halted
}}"""
"""What kernels call while other threads may do the same: work is counted, roughly where several
threads count at once, and the word that ends the call is read."""


SILENT = """
define internal void @ask(ptr %context, ptr %status) alwaysinline #0 {
  ret void
}"""
UNCOUNTED = f"""
define internal void @ask_after(ptr %context, i64 %work) alwaysinline #0 {{
  ret void
}}
define internal i1 @ask_halted(ptr %context) alwaysinline #0 {{
  %halt.at = getelementptr i64, ptr %context, i64 {HALT}
  %halt = load i64, ptr %halt.at
  %halted = icmp ne i64 %halt, 0
  ret i1 %halted
}}"""
ASKING = {"linux": (ASK, COUNT), "none": (SILENT, UNCOUNTED)}
"""By what there is around the code."""


def halted(text: Text, w: FunctionWriter) -> str:
    """Whether the call is to end, as code may ask anywhere."""
    include_ask(text)
    return w.value("call i1 @ask_halted(ptr %context)")


def return_if_halted(text: Text, w: FunctionWriter) -> None:
    """End a function without a result: what comes next must not use what is half done."""
    gone, going = w.name("halted"), w.name("go")
    w.branch(halted(text, w), gone, going)
    w.label(gone)
    w.do("ret void")
    w.label(going)


def ask_in_kernel(text: Text, w: FunctionWriter, work: str) -> None:
    """Count work in a kernel; where enough is done, ask, and return if that raises."""
    include_ask(text)
    w.do(f"call void @ask_after(ptr %context, i64 {work})")
    return_if_halted(text, w)


def table() -> int:
    """The address of what the code needs to know of this process, or 0 where nothing is asked."""
    found = _table()
    return 0 if found is None else int(found.ctypes.data)


@cache
def _table() -> Array | None:
    if not has(INTERRUPTS) or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    python, libc = ctypes.pythonapi, c_library()
    if not hasattr(libc, "timespec_get"):
        return None
    functions = {
        ENSURE: python.PyGILState_Ensure,
        CHECK: python.PyErr_CheckSignals,
        FETCH: python.PyErr_Fetch,
        RELEASE: python.PyGILState_Release,
        IDENT: python.PyThread_get_thread_ident,
        CLOCK: libc.timespec_get,
    }
    words = np.zeros(CLOCK + 1, np.int64)
    for word, function in functions.items():
        words[word] = ctypes.cast(function, ctypes.c_void_p).value or 0
    _note_main(words)
    os.register_at_fork(after_in_child=lambda: _note_main(words))
    return words


def _note_main(words: Array) -> None:
    """Which thread runs the handlers; in a forked child it is the one that forked."""
    words[MAIN] = threading.main_thread().ident or 0


def raised(words: Sequence[int]) -> BaseException:
    """The exception that a handler raised, which the words of a status own."""
    restore = ctypes.pythonapi.PyErr_Restore
    restore.argtypes, restore.restype = [ctypes.c_void_p] * 3, None
    try:
        restore(*(word or None for word in words[1:4]))
    except BaseException as error:
        return error.with_traceback(None)
    return KeyboardInterrupt()
