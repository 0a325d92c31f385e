"""Loops whose trips need nothing of one another: threads share the trips, each on its own memory.

A loop that carries nothing and shows nothing has a body that could run in any order. Where that is
worth a thread the body becomes a function of the program, entered once for each trip, and the loop
a fork over its trips: each part of them leases an arena, and has a status and a context of its own.
Where there are fewer trips than threads they run one after the other, as threads then share the
kernels inside. Of the trips that fail the first one is told, as in a loop.

The turns are a function of the same tables as the driver, and of the variables of the loops around.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm.gen.loops.status import INTERRUPTED, WORDS
from dlvm.gen.program import parallel
from dlvm.gen.program.memory import plan
from dlvm.gen.program.steps import CallFunction, For
from dlvm.gen.runtime import call_words
from dlvm.gen.runtime.pool import include_fork
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv, maximum

from .forks import FORK_ERROR, HEAD, open_errors

if TYPE_CHECKING:
    from .driver import Driver

TABLES = ("params", "results", "arena", "symbols", "constants", "status", "context")


def emit_trips(outer: Driver, step: For, enter: CallFunction) -> None:
    """Let threads share the trips of a loop that does nothing but enter a function."""
    w, name = outer.w, f"fork.{outer.program.name}.{len(outer.text.functions)}"
    around = {n: v for scope in outer.offsets.scopes[1:] for n, v in scope.names.items()}
    _turns(outer, step, enter, name, tuple(around))
    _entry(outer.text, name, len(around))
    words = [("ptr", f"%{t}") for t in TABLES] + [("i64", v) for v in around.values()]
    words += [("i64", outer.size(_leased(outer, enter)))]
    environment = w.array(f"[{HEAD + len(words)} x i64]")
    open_errors(w, environment)
    for i, (type_, value) in enumerate(words, HEAD):
        at = w.step("i64", environment, i)
        w.store(type_, value, at, 8)
    include_fork(outer.text)
    length = outer.size(step.length)
    few = w.value(f"icmp slt i64 {length}, {outer.word(call_words.THREADS, 'i64')}")
    grain = w.value(f"select i1 {few}, i64 {length}, i64 {outer.size(_grain(outer, enter))}")
    shared = f"ptr @{name}, ptr {environment}, i64 {length}, i64 {grain}"
    w.do(f"call void @fork(ptr %context, {shared})")
    outer.leave_if_halted()
    outer.leave_if_failed()


def _leased(outer: Driver, enter: CallFunction) -> Dim:
    return plan(outer.whole.callee(enter.callee)).bytes


def _grain(outer: Driver, enter: CallFunction) -> Dim:
    """How many trips are worth a thread."""
    trip = maximum(1, outer.times.trip(outer.whole.callee(enter.callee), outer.whole))
    return maximum(1, floordiv(trip + (parallel.WORTH - 1), trip))


def _turns(
    outer: Driver, step: For, enter: CallFunction, name: str, around: tuple[str, ...]
) -> None:
    """The function of some trips, on an arena that they use one after the other."""
    inner = outer.another()
    for i, variable in enumerate(around):
        inner.offsets.scopes[0].names[variable] = f"%around{i}"
    with inner.w.loop("%begin", "%end") as turn, inner.offsets.scope(turn.head) as scope:
        scope.names[step.variable] = turn.index
        inner.call(enter, "%leased")
        inner.leave_if_failed()
    own = [*(f"ptr %{t}" for t in TABLES), *(f"i64 %around{i}" for i in range(len(around)))]
    header = ", ".join((*own, "ptr %leased", "i64 %begin", "i64 %end"))
    outer.text.functions[f"{name}.turns"] = inner.ended(f"internal void @{name}.turns({header})")


def _entry(text: Text, name: str, around: int) -> None:
    """What ``@fork`` calls: takes the environment apart, and gives the trips what is their own."""
    w = FunctionWriter(text, trusted=True)
    names = [f"%{t}" for t in TABLES] + [f"%around{i}" for i in range(around)] + ["%bytes"]
    types = ["ptr"] * len(TABLES) + ["i64"] * (around + 1)
    for i, (type_, value) in enumerate(zip(types, names, strict=True), HEAD):
        at = w.step("i64", "%environment", i)
        w.load(type_, at, 8, name=value)
    own, context = w.array(f"[{WORDS} x i64]", 8), w.array(f"[{call_words.WORDS} x i64]", 8)
    ended = w.load("i64", "%status", 8, order="monotonic")
    with w.when(w.value(f"icmp ne i64 {ended}, {INTERRUPTED}")):
        w.store(f"[{WORDS} x i64]", "zeroinitializer", own, 8)
        _context(w, context)
        w.do(f"%leased = call ptr @activation(ptr {context}, i64 %bytes, ptr {own})")
        code = w.load("i64", own, 8)
        with w.when(w.value(f"icmp eq i64 {code}, 0")):
            mine = {"%status": own, "%context": context, "%bytes": "%leased"}
            types[-1] = "ptr"
            given = ", ".join(f"{t} {mine.get(n, n)}" for t, n in zip(types, names, strict=True))
            w.do(f"call void @{name}.turns({given}, i64 %begin, i64 %end)")
            w.do("call void @activation_end(ptr %context, ptr %leased)")
        _failed(w, own)
    text.functions["fork_error"] = FORK_ERROR[text.os]
    text.functions[name] = w.function(
        f"internal void @{name}(ptr %environment, i64 %begin, i64 %end)"
    )


def _context(w: FunctionWriter, own: str) -> None:
    """A copy of the caller's words, on another stack."""
    words = w.load(f"[{call_words.WORDS} x i64]", "%context", 8)
    w.store(f"[{call_words.WORDS} x i64]", words, own, 8)
    floor = w.step("i64", own, call_words.FLOOR)
    w.store("i64", "0", floor, 8)


def _failed(w: FunctionWriter, own: str) -> None:
    """Keep the status of the first trip that failed; what Python raised ends everything."""
    code = w.load("i64", own, 8)
    with w.when(w.value(f"icmp ne i64 {code}, 0")):
        raised = w.value(f"icmp eq i64 {code}, {INTERRUPTED}")
        first = w.value(f"select i1 {raised}, i64 -1, i64 %begin")
        w.do(f"call void @fork_error(ptr %environment, ptr %status, ptr {own}, i64 {first})")
