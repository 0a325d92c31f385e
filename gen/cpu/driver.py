"""A program as LLVM functions, with real loops and branches, that call a function per kernel.

``main(params, results, arena, symbols, constants, status, context)``: tables of addresses, the
block of memory planned by ``memory``, the values of symbols, the words that say how the call
ended, and the words of ``tape``. After anything that may end the call the status is read and the
call left at once; either way the tape is freed. No address is written into the code. Functions
that are entered take the same tables, which their callers keep on the stack, and an arena that
is leased for each activation.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from dlvm.gen.loops.status import WORDS
from dlvm.gen.program.memory import Arena, plan
from dlvm.gen.program.steps import (
    CallFunction,
    CallPython,
    Copy,
    EndUnless,
    Exchange,
    For,
    Given,
    If,
    Launch,
    Pop,
    Program,
    Push,
    Show,
    Step,
    Storage,
    Tick,
    View,
    While,
)
from dlvm.gen.program.times import Times
from dlvm.gen.runtime import activations, call_words, floating, interrupts, tape, ticks
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.gen.text.sizes import Offsets
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import substitute

from . import parallel_loops as trips
from .exchanges import emit_exchange

ENTRY = "dlvm_main"
BODY = "dlvm_program"
"""What the entry calls; it is not inlined, so that none of its arithmetic leaves our mode."""


def emit_driver(program: Program, arena: Arena, text: Text, times: Times) -> None:
    """Add the driver to a module that has, or will have, the kernels."""
    driver = Driver(program, arena, text, program, times)
    driver.open()
    driver.block(program.steps)
    floating.include_modes(text)
    text.functions[BODY] = driver.finish(f"internal void @{BODY}", driver.close, " noinline")
    text.functions[ENTRY] = _entry()
    for callee in program.callees:
        inner = Driver(callee, plan(callee), text, program, times)
        if callee.trip:
            inner.trip(callee.steps)
        else:
            inner.spend(interrupts.of_trip(callee.steps, times))
            inner.block(callee.steps)
        text.functions[symbol_of(callee.name)] = inner.finish(
            f"internal void @{symbol_of(callee.name)}", how=" alwaysinline" * callee.trip
        )
    if program.callees:
        activations.include_activations(text)


def _entry() -> str:
    """The function that callers enter: the program in our floating-point mode."""
    tables = ", ".join(f"ptr %{name}" for name in trips.TABLES)
    return f"""
define void @{ENTRY}({tables}) #0 {{
entry:
  call void @mode_return(ptr %context)
  call void @{BODY}({tables})
  call void @mode_leave(ptr %context)
  ret void
}}"""


def symbol_of(name: str) -> str:
    """What a function is called in LLVM text."""
    return f"function.{name}"


class Driver:
    """Writes the function; addresses and sizes that no loop changes are computed once."""

    def __init__(
        self, program: Program, arena: Arena, text: Text, whole: Program, times: Times
    ) -> None:
        self.program = program
        self.whole = whole
        self.times = times
        self.arena = arena
        self.text = text
        self.w = FunctionWriter(text, trusted=True)
        self.offsets = Offsets(self.w)
        self.size = self.offsets.index
        self.bases: dict[Storage, str] = {}
        for i, name in enumerate(program.symbols):
            self.offsets.scopes[0].names[name] = self.entry(i, "symbols", "i64")
        self.rooms: dict[str, int] = {}

    def open(self) -> None:
        """Where the call starts: how far down the stack it may go."""
        if self.program.enters and self.text.os != "none":
            here = self.w.value("call ptr @llvm.frameaddress.p0(i32 0)")
            at = self.w.value(f"ptrtoint ptr {here} to i64")
            floor = self.w.value(f"sub i64 {at}, {self.word(call_words.STACK, 'i64')}")
            where = self.w.step("i64", "%context", call_words.FLOOR)
            self.w.store("i64", floor, where)

    def close(self) -> None:
        """Where the call ends: nothing stays on the tape."""
        if self.program.has_tape:
            tape.include_tape(self.text)
            self.w.do("call void @tape_free(ptr %context)")

    def finish(self, name: str, close: Callable[[], None] = lambda: None, how: str = "") -> str:
        """The function of the tables, after the last step."""
        parameters = ", ".join(f"ptr %{name}" for name in trips.TABLES)
        return self.ended(f"{name}({parameters}){how}", close)

    def ended(self, header: str, close: Callable[[], None] = lambda: None) -> str:
        """The function with this header, after the last step."""
        self.w.jump("leave")
        self.w.label("leave")
        close()
        for name, count in self.rooms.items():
            self.w.head.insert(0, f"  %{name} = alloca [{count} x i64], align 16")
        return self.w.function(header)

    def another(self) -> Driver:
        """The same program in a function of its own, which has the tables as well."""
        return Driver(self.program, self.arena, self.text, self.whole, self.times)

    # -- addresses and sizes ---------------------------------------------------------------------

    def entry(self, index: int, table: str, type_: str) -> str:
        """What a table holds at an index, read on entry."""
        at = self.w.step("i64", f"%{table}", index, into=self.w.head)
        return self.w.load(type_, at, into=self.w.head)

    def base(self, storage: Storage) -> str:
        """Where a storage starts."""
        if storage not in self.bases:
            if isinstance(storage.place, Given):
                found = self.entry(storage.place.index, f"{storage.place.kind}s", "ptr")
            else:
                at = self.size(self.arena.offsets[storage])
                found = self.w.step("i8", "%arena", at, into=self.w.head)
            self.bases[storage] = found
        return self.bases[storage]

    def address(self, view: View) -> str:
        """Where a view starts."""
        base = self.base(view.storage)
        if view.offset == 0:
            return base
        at = self.size(view.offset * view.type.dtype.bytes)
        return self.w.step("i8", base, at)

    def truth(self, view: View) -> str:
        """The bool that a view holds."""
        byte = self.w.load("i8", self.address(view))
        return self.w.value(f"icmp ne i8 {byte}, 0")

    # -- steps -------------------------------------------------------------------------------------

    def block(self, steps: tuple[Step, ...]) -> None:
        """Steps in order."""
        for step in steps:
            self.step(step)

    def step(self, step: Step) -> None:
        """One step."""
        match step:
            case Launch():
                self.launch(step)
                if interrupts.is_large(step, self.times):
                    self.spend(self.times.step(step))
            case Copy(source=source, target=target):
                size = self.size(target.type.size * target.type.dtype.bytes)
                self.w.copy(self.address(target), self.address(source), size)
            case If():
                self.branch(step)
            case While():
                self.while_loop(step)
            case For():
                self.for_loop(step)
            case Push():
                self.push(step)
            case Pop():
                self.pop(step)
            case EndUnless():
                with self.unless(self.truth(step.condition)):
                    self.w.store("i64", step.code, "%status")
                    self.w.jump("leave")
            case Show(x=x, index=index):
                self.show(index, x)
            case CallPython():
                row = self.table("asked", "ptr", [self.address(v) for v in step.xs + step.results])
                self.tell(~step.index, row, step.sizes)
            case Exchange():
                table = self.word(call_words.RANKS, "ptr")
                emit_exchange(self.w, step, table, self.size, self.address, self.unless)
            case CallFunction():
                self.enter(step)
            case Tick(slot=slot):
                ticks.include_ticks(self.text)
                self.w.do(f"call void @{ticks.TICK}(i64 {slot})")

    def launch(self, step: Launch) -> None:
        """Call the kernel on addresses and sizes."""
        kernel = step.kernel
        arguments = [f"ptr {self.address(v)}" for v in step.views]
        arguments += [f"i64 {self.size(d)}" for d in step.known]
        arguments += ["ptr %status", "ptr %context"]
        self.w.do(f"call void @{kernel.name}({', '.join(arguments)})")
        if kernel.may_raise:
            self.leave_if_failed()
        if kernel.forks:
            self.leave_if_halted()

    def show(self, index: int, x: View) -> None:
        """Give a value to Python."""
        self.tell(index, self.address(x), x.type.shape)

    def tell(self, index: int, what: str, known: Sequence[Dim]) -> None:
        """Call Python: a place in ``prints``, or ``~`` one in ``calls``, with what it is for."""
        interrupts.include_tell(self.text)
        sizes = self.table("sizes", "i64", [self.size(d) for d in known])
        given = f"i64 {index}, ptr {what}, ptr {sizes}"
        self.w.do(f"call void @tell(ptr %context, ptr %status, {given})")
        self.leave_if_failed()

    def enter(self, step: CallFunction) -> None:
        """Call another function of the program, on an arena that is leased for it."""
        callee = self.whole.callee(step.callee)
        sizes = dict(zip(callee.symbols, step.sizes, strict=True))
        size = self.size(substitute(plan(callee).bytes, sizes))
        arena = self.w.value(f"call ptr @activation(ptr %context, i64 {size}, ptr %status)")
        self.leave_if_failed()
        self.call(step, arena)
        self.w.do(f"call void @activation_end(ptr %context, ptr {arena})")
        self.leave_if_failed()

    def call(self, step: CallFunction, arena: str) -> None:
        """Call a function of the program on an arena."""
        tables = (
            self.table("arguments", "ptr", [self.address(v) for v in step.arguments]),
            self.table("outcomes", "ptr", [self.address(v) for v in step.results]),
            arena,
            self.table("sizes", "i64", [self.size(d) for d in step.sizes]),
            *("%constants", "%status", "%context"),
        )
        given = ", ".join(f"ptr {t}" for t in tables)
        self.w.do(f"call void @{symbol_of(step.callee)}({given})")

    def table(self, name: str, type_: str, values: Sequence[str]) -> str:
        """Values in a row, each in a word, on the stack; each row of that name uses it again."""
        self.rooms[name] = max(self.rooms.get(name, 1), len(values))
        for i, value in enumerate(values):
            at = self.w.step("i64", f"%{name}", i)
            self.w.store(type_, value, at)
        return f"%{name}"

    def branch(self, step: If) -> None:
        """One of two blocks."""
        then, otherwise, end = (self.w.name(n) for n in ("then", "else", "end"))
        self.w.branch(self.truth(step.condition), then, otherwise)
        for label, steps in ((then, step.then), (otherwise, step.otherwise)):
            self.w.label(label)
            self.block(steps)
            self.w.jump(end)
        self.w.label(end)

    def while_loop(self, step: While) -> None:
        """Test, body, and back."""
        test, body, end = (self.w.name(n) for n in ("test", "body", "end"))
        self.w.jump(test)
        self.w.label(test)
        self.block(step.before)
        self.w.branch(self.truth(step.condition), body, end)
        self.w.label(body)
        self.block(step.body)
        self.spend(interrupts.of_trip((*step.before, *step.body), self.times))
        self.w.jump(test)
        self.w.label(end)

    def for_loop(self, step: For) -> None:
        """A counted loop; downwards the index is counted from the end."""
        if step.apart and len(step.body) == 1 and isinstance(step.body[0], CallFunction):
            trips.emit_trips(self, step, step.body[0])
            return
        length = self.size(step.length)
        with self.w.loop("0", length) as turn, self.offsets.scope(turn.head) as scope:
            index = turn.index
            if step.reverse:
                last = self.w.value(f"sub i64 {length}, 1", turn.head)
                index = self.w.value(f"sub i64 {last}, {index}", turn.head)
            scope.names[step.variable] = index
            self.trip(step.body)

    def trip(self, steps: tuple[Step, ...]) -> None:
        """The steps of a loop, and what they count, which one kernel counts with its trip."""
        if len(steps) == 1 and isinstance(steps[0], Launch):
            self.launch(steps[0])
            self.spend(interrupts.TRIP + self.times.step(steps[0]))
            return
        self.block(steps)
        self.spend(interrupts.of_trip(steps, self.times))

    def push(self, step: Push) -> None:
        """A cell with the handle below and the values."""
        offsets, size = tape.cell(step.xs)
        below = self.w.load("i64", self.address(step.tape))
        arguments = f"ptr %context, i64 {self.size(size)}, ptr %status"
        cell = self.w.value(f"call ptr @tape_push({arguments})")
        self.leave_if_failed()
        self.w.store("i64", below, cell)
        for x, offset in zip(step.xs, offsets, strict=True):
            at = self.w.step("i8", cell, self.size(offset))
            self.w.copy(at, self.address(x), self.size(x.type.size * x.type.dtype.bytes))
        handle = self.w.value(f"ptrtoint ptr {cell} to i64")
        self.w.store("i64", handle, self.address(step.result))

    def pop(self, step: Pop) -> None:
        """The values out of the cell, and its room back."""
        offsets, size = tape.cell(step.xs)
        top = self.w.load("ptr", self.address(step.tape))
        arguments = f"ptr %context, ptr {top}, i64 {self.size(size)}, ptr %status"
        cell = self.w.value(f"call ptr @tape_top({arguments})")
        self.leave_if_failed()
        below = self.w.load("i64", cell)
        for x, offset in zip(step.xs, offsets, strict=True):
            at = self.w.step("i8", cell, self.size(offset))
            self.w.copy(self.address(x), at, self.size(x.type.size * x.type.dtype.bytes))
        self.w.do(f"call void @tape_pop(ptr %context, ptr {cell}, i64 {self.size(size)})")
        self.w.store("i64", below, self.address(step.result))

    # -- the status --------------------------------------------------------------------------------

    def spend(self, work: Dim) -> None:
        """Count work; where enough is done, ask whether the call is to end, if anybody knows."""
        if self.text.os == "none":
            return
        at = self.w.step("i64", "%context", call_words.LEFT)
        left = self.w.load("i64", at, 8, order="monotonic")
        rest = self.w.value(f"sub i64 {left}, {self.size(work)}")
        self.w.store("i64", rest, at, 8, order="monotonic")
        with self.w.when(self.w.value(f"icmp slt i64 {rest}, 0")):
            self.ask()

    def ask(self) -> None:
        """Let Python run what signals ask for, if some time has passed; leave if that raises."""
        interrupts.include_ask(self.text)
        self.w.do("call void @ask(ptr %context, ptr %status)")
        self.leave_if_failed()

    def word(self, index: int, type_: str) -> str:
        """A word of the context."""
        at = self.w.step("i64", "%context", index)
        return self.w.load(type_, at)

    def leave_if_failed(self) -> None:
        """Leave the call where the status says so."""
        status = self.w.load("i64", "%status")
        good = self.w.value(f"icmp eq i64 {status}, 0")
        going = self.w.name("go")
        self.w.branch(good, going, "leave")
        self.w.label(going)

    def leave_if_halted(self) -> None:
        """Leave the call where Python has raised in the midst of a kernel or fork."""
        with self.unless(self.w.value(f"xor i1 {interrupts.halted(self.text, self.w)}, true")):
            halt = self.w.step("i64", "%context", call_words.HALT)
            self.w.copy("%status", halt, str(8 * WORDS))
            self.w.jump("leave")

    @contextmanager
    def unless(self, condition: str) -> Generator[None]:
        """What is written inside runs, and leaves, only where the condition does not hold."""
        failed, going = self.w.name("failed"), self.w.name("go")
        self.w.branch(condition, going, failed)
        self.w.label(failed)
        yield
        self.w.label(going)
