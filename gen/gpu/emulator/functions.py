"""The functions of a PTX module as those of LLVM, a kernel as the coroutine of a thread.

A barrier, and an exchange between the lanes of a warp, suspends the coroutine after noting what it
waits for in the record of its thread. Functions that a kernel calls wait for nobody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.statements import WARP

from .accesses import ACCESS, COPY, LOCAL, SWAP, Accesses
from .coroutines import BEGIN, END, START
from .instructions import compute
from .lines import Lines, literal
from .memory import (
    AT_BARRIER,
    CLAMP,
    GIVE,
    GOT,
    IN_WARP,
    MASK,
    REGISTERS_GIVEN,
    REGISTERS_GOT,
    SITE,
    STATE,
    WITH,
)
from .ptx import Function, Instruction, inner

SHUFFLE = re.compile(r"shfl\.sync\.(?:up|down|bfly|idx)\.b32")
PRODUCT = re.compile(
    r"mma\.sync\.aligned\.(?:m16n8k16\.row\.col\.f32\.(?:bf16\.bf16|f16\.f16)\.f32"
    r"|m16n8k8\.row\.col\.f32\.tf32\.tf32\.f32)"
)


def called(i: Instruction) -> tuple[list[str], str, list[str]]:
    """The results, the name and the arguments of a call."""
    results = inner(i.operands[0]) if i.operands[0].startswith("(") else []
    name, *rest = i.operands[1:] if results else i.operands
    return results, name, inner(rest[0]) if rest else []


class FunctionOfThread:
    """A function of PTX as one of LLVM, whose first argument is the record of the thread."""

    def __init__(
        self, function: Function, places: Mapping[str, int], sites: list[Instruction]
    ) -> None:
        own = {a.name: LOCAL + a.align for a in function.local}
        if len(own) > 1:
            raise CompilerError(f"@{function.name}: several arrays of a thread")
        self.function = function
        self.lines = Lines(function, {**places, **own})
        self.bytes = {p.name: p.bytes for p in function.slots}
        if not function.entry:
            self.bytes |= {p.name: p.bytes for p in (*function.parameters, *function.results)}
        self.given = {p.name: f"%emu.p{i}" for i, p in enumerate(function.parameters)}
        self.memory = Accesses(self.lines, self.bytes, self.given, sites)
        self.open = True
        """Whether the block that is written has no end yet."""

    def coroutine(self) -> str:
        """The coroutine of a thread."""
        taken = ", ".join(f"i64 {v}" for v in self.given.values())
        comma = ", " if taken else ""
        body = self._body()
        return (
            f"define internal ptr @emu.thread({taken}{comma}ptr %emu.c) presplitcoroutine {{"
            f"{BEGIN}{self._places()}{START}entry:\n{body}\n{END}"
        )

    def helper(self) -> str:
        """A function that is called, and returns its result as one number."""
        f = self.function
        taken = "".join(f", i{8 * p.bytes} {self.given[p.name]}" for p in f.parameters)
        stored = "".join(
            f"  store i{8 * p.bytes} {self.given[p.name]}, ptr %{p.name}.memory\n"
            for p in f.parameters
        )
        if len(f.results) > 1:
            raise CompilerError(f"@{f.name}: several results")
        kind, ending = "void", "  ret void"
        body = self._body()
        for p in f.results:
            kind = f"i{8 * p.bytes}"
            ending = f"  %emu.result = load {kind}, ptr %{p.name}.memory\n  ret {kind} %emu.result"
        start = f"{self._places()}\n{stored}  br label %entry"
        return (
            f"define internal {kind} @{f.name}(ptr %emu.c{taken}) {{\nemu.start:\n{start}\n"
            f"entry:\n{body}\nemu.final:\n{ending}\n}}"
        )

    def _places(self) -> str:
        """Memory for registers that change, for parameters of calls, and for local arrays."""
        lines = list(self.lines.declared())
        for name, count in self.bytes.items():
            lines.append(f"  %{name}.memory = alloca i{8 * count}, align 16")
        for array in self.function.local:
            lines.append(f"  %emu.local = alloca [{array.bytes} x i8], align 16")
        return "\n".join(lines)

    def _body(self) -> str:
        w = self.lines
        for array in self.function.local:
            told = f"ptr %emu.local, i8 165, i64 {array.bytes}, i1 false"
            w.line(f"call void @llvm.memset.p0.i64({told})")
        for s in self.function.body:
            if isinstance(s, str):
                if self.open:
                    w.line(f"br label %{s}")
                w.label(s)
                self.open = True
            else:
                self._statement(s)
        if self.open:
            w.line("br label %emu.final")
        return "\n".join(w.text)

    def _statement(self, i: Instruction) -> None:
        w = self.lines
        if not self.open:
            self._begin(self._label())
        if not i.predicate:
            self._instruction(i)
            return
        holds = w.bits(i.predicate.lstrip("!"), 1)
        then, after = self._label(), self._label()
        taken = f"%{_target(i)}" if i.opcode in BRANCHES else f"%{then}"
        ways = (f"%{after}", taken) if i.predicate.startswith("!") else (taken, f"%{after}")
        w.line(f"br i1 {holds}, label {ways[0]}, label {ways[1]}")
        if i.opcode not in BRANCHES:
            self._begin(then)
            self._instruction(i)
            if self.open:
                w.line(f"br label %{after}")
        self._begin(after)

    def _label(self) -> str:
        return self.lines.name()[1:]

    def _begin(self, label: str) -> None:
        self.lines.label(label)
        self.open = True

    def _instruction(self, i: Instruction) -> None:
        w, o = self.lines, i.operands
        if i.opcode in BRANCHES:
            w.line(f"br label %{_target(i)}")
            self.open = False
        elif i.opcode in ("ret", "exit"):
            w.line("br label %emu.final")
            self.open = False
        elif i.opcode in ("call", "call.uni"):
            self._call(i)
        elif match := ACCESS.fullmatch(i.opcode):
            self.memory.access(i, *match.groups())
        elif match := SWAP.fullmatch(i.opcode):
            self.memory.swap(i, int(match[1]))
        elif COPY.fullmatch(i.opcode):
            self.memory.copy(i)
        elif i.opcode == "cp.async.commit_group":
            w.line("call void @emu.commit(ptr %emu.c)")
        elif i.opcode in ("cp.async.wait_group", "cp.async.wait_all"):
            if i.opcode.endswith("all"):
                w.line("call void @emu.commit(ptr %emu.c)")
            w.line(f"call void @emu.wait(ptr %emu.c, i64 {int(o[0]) if o else 0})")
        elif i.opcode in ("bar.sync", "barrier.sync.aligned"):
            self._barrier(i)
        elif i.opcode == "bar.warp.sync":
            self._barrier_of_warp(i)
        elif SHUFFLE.fullmatch(i.opcode):
            self._shuffle(i)
        elif PRODUCT.fullmatch(i.opcode):
            self._multiply(i)
        else:
            compute(w, i)

    def _call(self, i: Instruction) -> None:
        w = self.lines
        results, name, arguments = called(i)
        given = ["ptr %emu.c"]
        for a in arguments:
            kind = f"i{8 * self.bytes[a]}"
            given.append(f"{kind} {w.let(f'load {kind}, ptr %{a}.memory')}")
        listed = ", ".join(given)
        if not results:
            w.line(f"call void @{name}({listed})")
        for r in results:
            kind = f"i{8 * self.bytes[r]}"
            w.line(f"store {kind} {w.let(f'call {kind} @{name}({listed})')}, ptr %{r}.memory")

    # -- waiting ---------------------------------------------------------------------------

    def _barrier(self, i: Instruction) -> None:
        number = literal(i.operands[0])
        if number is None or not 0 <= number < 16 or len(i.operands) > 1:
            raise CompilerError(f"the emulator knows barriers of a whole block only: {i.text}")
        self.lines.set_word(WITH, str(number))
        self._suspend(i, AT_BARRIER)

    def _barrier_of_warp(self, i: Instruction) -> None:
        """That of a block which is one warp: races are told by how often a whole block waited."""
        alone = self.function.lanes == WARP and literal(i.operands[0]) in (-1, (1 << WARP) - 1)
        if not alone:
            raise CompilerError(f"the emulator knows barriers of a whole block only: {i.text}")
        self.lines.set_word(WITH, "0")
        self._suspend(i, AT_BARRIER)

    def _shuffle(self, i: Instruction) -> None:
        """Gives a value of 32 bits, waits for the warp, and takes another lane's."""
        w = self.lines
        result, *given = i.operands
        for place, operand in zip((GIVE, WITH, CLAMP, MASK), given, strict=True):
            w.set_word(place, w.let(f"zext i32 {w.bits(operand, 32)} to i64"))
        self._suspend(i, IN_WARP)
        w.put(result, f"trunc i64 {w.word(GOT)} to i32", "b32")

    def _multiply(self, i: Instruction) -> None:
        """Gives the registers of x, y and the sum, and takes those of the new sum."""
        w = self.lines
        results, *given = i.operands
        for n, register in enumerate(r for group in given for r in inner(group)):
            wide = w.let(f"zext i32 {w.bits(register, 32)} to i64")
            w.set_word(REGISTERS_GIVEN + n, wide)
        w.set_word(MASK, str(0xFFFFFFFF))
        self._suspend(i, IN_WARP)
        for n, register in enumerate(inner(results)):
            w.put(register, f"trunc i64 {w.word(REGISTERS_GOT + n)} to i32", "b32")

    def _suspend(self, i: Instruction, state: int) -> None:
        """Gives up the processor until the state of the thread is ready again."""
        w = self.lines
        if not self.function.entry:
            raise CompilerError(f"@{self.function.name}: only a kernel may wait: {i.text}")
        w.set_word(SITE, str(self.memory.site(i)))
        w.set_word(STATE, str(state))
        back, here = w.let("call i8 @llvm.coro.suspend(token none, i1 false)"), self._label()
        cases = f"i8 0, label %{here} i8 1, label %emu.cleanup"
        w.line(f"switch i8 {back}, label %emu.return [ {cases} ]")
        kept = dict(w.casts)
        w.label(here)
        w.casts.update(kept)


BRANCHES = ("bra", "bra.uni")


def _target(i: Instruction) -> str:
    """Where a branch goes."""
    (label,) = i.operands
    return label
