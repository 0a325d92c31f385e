"""A loop that several threads share, as a function of a range of its turns.

It is called ``NAME.turns``, and takes what it names of the function around it: buffers, of which
LLVM knows that they are apart, the status, sizes and indices, scalars, arrays. No more turns than
a grain are one call of it. More go through ``@fork``: then all that travels in an array of words,
the environment, and ``NAME(environment, begin, end)`` takes it apart.

Errors: each call through ``@fork`` has a status of its own, and of those that fail the one with the
lowest turns is kept, so the error is the one that a single thread would have met first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dlvm.gen.loops.statements import Check, Let, Local, Loop, Product, Scalar, scalars, statements
from dlvm.gen.loops.status import WORDS
from dlvm.gen.runtime.interrupts import return_if_halted
from dlvm.gen.runtime.pool import include_fork
from dlvm.gen.text.lanes import Val
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import at_least, floordiv, maximum, minimum, product, symbol

from .access import Address
from .prefetch import Ahead

if TYPE_CHECKING:
    from .kernels import Emitter

BEGIN, END = "%begin", "%end"
LONG = 60
"""Statements from which on an element is long."""
WHOLE_ROWS_FROM = 32
"""Rows that are enough to be shared among threads as they are."""
HEAD = 2  # words of an environment before what it carries: a lock, and the lowest turn that failed


@dataclass(slots=True)
class Captured:
    """Words of an environment: the type of each, its value outside and its name inside."""

    words: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def take(self, type_: str, value: str, name: str = "") -> str:
        """The name of a value inside; a constant keeps its own."""
        if not value.startswith("%"):
            return value
        for known_type, known, inside in self.words:
            if (known_type, known) == (type_, value):
                return inside
        self.words.append((type_, value, name or f"%e{len(self.words)}"))
        return self.words[-1][2]


def emit_fork(outer: Emitter, loop: Loop) -> None:
    """Let threads share the turns of a loop that has a grain.

    Where sizes are open, rows are shared as whole rows if there are many: what a part of a row
    takes to find its ends, each row would take. Of few rows threads share the elements, as they do
    where an element is long or a loop itself, beside which finding ends is nothing.
    """
    *rows, length = (outer.offsets.known(s.extent) for s in loop.chain)
    count, row = product(tuple(rows)), loop.chain[-1].var
    element = loop.chain[-1].body
    deep = len(element) > LONG or any(isinstance(s, Loop) for s in element)
    known = isinstance(count, int) and isinstance(length, int)
    if deep or known or at_least(WHOLE_ROWS_FROM - 1, count):
        _fork(outer, loop, row)
        return
    width = maximum(1, length)
    grain = maximum(1, floordiv(loop.grain + (width - 1), width))
    many = outer.w.value(f"icmp sge i64 {outer.offsets.first(count)}, {WHOLE_ROWS_FROM}")
    with outer.w.either(many) as otherwise:
        _fork(outer, replace(loop, levels=loop.levels - 1, grain=grain), row)
        otherwise()
        _fork(outer, loop, row)


def _fork(outer: Emitter, loop: Loop, row: str) -> None:
    """The loop as a function of some of its turns, which is called or given to threads.

    The variable of ``row`` counts what may be read several times.
    """
    w, name = outer.w, outer.part_name()
    checks = any(isinstance(s, Check) for s in statements(loop.body))
    captured = _turns(outer, loop, name, row)
    _entry(w.text, name, captured, checks)
    include_fork(w.text)
    extents = (outer.offsets.known(s.extent) for s in loop.chain)
    count = outer.offsets.first(product(tuple(extents)))
    grain = outer.offsets.first(outer.offsets.known(loop.grain))
    environment = w.array(f"[{HEAD + len(captured.words)} x i64]", 8)
    with w.either(w.value(f"icmp sle i64 {count}, {grain}")) as otherwise:
        words = "".join(f"{type_} {value}, " for type_, value, _ in captured.words)
        w.do(f"call void @{name}.turns({words}i64 0, i64 {count})")
        if any(isinstance(s, Product) for s in statements(loop.body)):
            return_if_halted(w.text, w)  # others ask for nothing in so few turns
        otherwise()
        for i, (type_, value, _) in enumerate(captured.words):
            slot = w.step("i64", environment, HEAD + i)
            w.store(type_, value, slot, 8)
        if checks:
            open_errors(w, environment)
        shared = f"ptr @{name}, ptr {environment}, i64 {count}, i64 {grain}"
        w.do(f"call void @fork(ptr %context, {shared})")
        return_if_halted(w.text, w)


def _turns(outer: Emitter, loop: Loop, name: str, row: str) -> Captured:
    """The function of some turns; what it captures."""
    captured, inner = Captured(), outer.within(FunctionWriter(outer.w.text))
    for b in outer.kernel.buffers:
        pointer = captured.take("ptr", outer.access.places[b.name].pointer, f"%{b.name}")
        inner.access.places[b.name] = Address(pointer, b.dtype)
    alone = {inner.access.places[b.name].pointer for b in outer.kernel.buffers}
    alone -= {inner.access.places[n].pointer for n in outer.shared}
    names = {n: v for scope in outer.offsets.scopes for n, v in scope.names.items()}
    known = inner.offsets.scopes[0].names
    known.update({n: captured.take("i64", v) for n, v in names.items()})
    known.update({BEGIN: "%begin", END: "%end"})
    inner.offsets.defined.update(outer.offsets.defined)
    _capture_scalars(outer, inner, loop, captured)
    for own in ("%status", "%context"):
        captured.take("ptr", own, own)
    if loop.ahead:
        inner.access.ahead = Ahead(row, len(inner.offsets.scopes))
    _share(inner, loop.chain, symbol(BEGIN), symbol(END))
    used = inner.w.names()
    captured.words = [word for word in captured.words if word[2] in used]
    parameters = [f"{t}{' noalias' * (v in alone)} {v}" for t, _, v in captured.words]
    header = ", ".join([*parameters, "i64 %begin", "i64 %end"])
    outer.w.text.functions[f"{name}.turns"] = inner.w.function(
        f"internal void @{name}.turns({header})"
    )
    return captured


def _capture_scalars(outer: Emitter, inner: Emitter, loop: Loop, captured: Captured) -> None:
    """The scalars and arrays that stand outside of the loop and are used in it."""
    own = {s.scalar for s in statements(loop.body) if isinstance(s, Let)}
    used: dict[Scalar, None] = {}
    for s in statements(loop.body):
        used.update(dict.fromkeys(scalars(s)))
    for x in used:
        if x not in own:
            known = outer.scalars[x]
            inner.scalars[x] = Val(captured.take(known.type, known.text), known.dtype, known.lanes)
    declared = {s.name for s in statements(loop.body) if isinstance(s, Local)}
    for memory, place in outer.access.places.items():
        if memory not in inner.access.places and memory not in declared:
            pointer = captured.take("ptr", place.pointer)
            inner.access.places[memory] = Address(pointer, place.dtype, place.wide)


def _share(e: Emitter, chain: Sequence[Loop], begin: Dim, end: Dim) -> None:
    """The turns from ``begin`` to ``end`` of loops that stand in one another, as one range."""
    loop, *below = chain
    if not below:
        e.between(loop, begin, end)
        return
    size = product(tuple(e.offsets.known(s.extent) for s in below))
    first = e.offsets.first(floordiv(begin, size))
    stop = e.offsets.first(floordiv(end + (size - 1), size))
    with e.w.loop(first, stop) as turn, e.offsets.scope(turn.head) as scope:
        scope.names[loop.var] = turn.index
        here = symbol(loop.var) * size
        for s in loop.body:
            if s is below[0]:
                _share(e, below, maximum(begin - here, 0), minimum(end - here, size))
            else:
                e.statement(s)


# -- what @fork calls ------------------------------------------------------------------------------


def _entry(text: Text, name: str, captured: Captured, checks: bool) -> None:
    """The function that takes the environment apart, with a status of its own for errors."""
    w = FunctionWriter(text)
    for i, (type_, _, local) in enumerate(captured.words):
        slot = w.step("i64", "%environment", HEAD + i)
        w.load(type_, slot, 8, name=local)
    own = w.array(f"[{WORDS} x i64]", 8) if checks else "%status"
    if checks:
        w.store(f"[{WORDS} x i64]", "zeroinitializer", own, 8)
    words = (f"{t} {own if local == '%status' else local}, " for t, _, local in captured.words)
    w.do(f"call void @{name}.turns({''.join(words)}i64 %begin, i64 %end)")
    if checks:
        code = w.load("i64", own, 8)
        with w.when(w.value(f"icmp ne i64 {code}, 0")):
            rest = f"ptr %status, ptr {own}, i64 %begin"
            w.do(f"call void @fork_error(ptr %environment, {rest})")
        text.functions["fork_error"] = FORK_ERROR[w.text.os]
    header = f"internal void @{name}(ptr %environment, i64 %begin, i64 %end)"
    text.functions[name] = w.function(header)


def open_errors(w: FunctionWriter, environment: str) -> None:
    """The lock is free, and every turn counts unless the call has failed before."""
    code = w.load("i64", "%status", 8)
    good = w.value(f"icmp eq i64 {code}, 0")
    lowest = w.value(f"select i1 {good}, i64 {(1 << 63) - 1}, i64 -1")
    at = w.step("i64", environment, "1")
    w.store("i64", "0", environment, 8)
    w.store("i64", lowest, at, 8)


LOCKED = """
define internal void @fork_error(ptr %lock, ptr %status, ptr %own, i64 %begin) #0 {
entry:
  %lowest.at = getelementptr i64, ptr %lock, i64 1
  br label %try
try:
  %swap = cmpxchg ptr %lock, i64 0, i64 1 acquire monotonic, align 8
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %held, label %try
held:
  %lowest = load i64, ptr %lowest.at
  %earlier = icmp slt i64 %begin, %lowest
  br i1 %earlier, label %keep, label %free
keep:
  store i64 %begin, ptr %lowest.at
  %words = load <4 x i64>, ptr %own, align 8
  store <4 x i64> %words, ptr %status, align 8
  br label %free
free:
  store atomic i64 0, ptr %lock release, align 8
  ret void
}"""

FIRST_FAILED = """
define internal void @fork_error(ptr %lock, ptr %status, ptr %own, i64 %begin) #0 {
entry:
  %lowest.at = getelementptr i64, ptr %lock, i64 1
  %lowest = load i64, ptr %lowest.at
  %earlier = icmp slt i64 %begin, %lowest
  br i1 %earlier, label %keep, label %done
keep:
  store i64 %begin, ptr %lowest.at
  %words = load <4 x i64>, ptr %own, align 8
  store <4 x i64> %words, ptr %status, align 8
  br label %done
done:
  ret void
}"""
FORK_ERROR = {"linux": LOCKED, "none": FIRST_FAILED}
"""By what there is around the code: others may fail at the same time, or not."""
