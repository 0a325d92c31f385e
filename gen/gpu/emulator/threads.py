"""The LLVM code of a GPU kernel as a coroutine: one for each thread, with every access checked.

The text is the one that becomes PTX. A barrier, and an exchange between the lanes of a warp,
suspends the coroutine after noting what it waits for in the record of its thread; an instruction of
the GPU that this file does not know is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dlvm.base.errors import CompilerError

from .asynchronous import ASYNCHRONOUS
from .memory import (
    AT_BARRIER,
    BLOCK,
    BLOCKS,
    CHECKS,
    CONTEXT,
    DONE,
    GIVE,
    GOT,
    IN_WARP,
    LANE,
    REGISTERS_GIVEN,
    REGISTERS_GOT,
    SITE,
    STATE,
    WITH,
)

HEADER = re.compile(r"define ptx_kernel void @(\w+)\((.*)\) nounwind.* \{")
LABEL = re.compile(r"(\w+):$")
CALL = re.compile(r"\s*(?:(%\w+) = )?call (\w+|\{.*?\}|<.*?>) @llvm\.nvvm\.([\w.]+)\((.*)\)$")
POINTER = re.compile(r"\s*(%\w+) = getelementptr .*?, ptr(?: addrspace\(\d\))? (.*?), i64 [-%\w]+$")
CAST = re.compile(r"\s*(%\w+) = addrspacecast ptr(?: addrspace\(\d\))? (%\w+) to ptr")
LOAD = re.compile(r"(\s*%\w+ = load )(.*?), ptr (%\w+|addrspacecast \(.*?\)|@[\w.]+)(.*)$")
STORE = re.compile(r"(\s*store )(<.*?>|\w+) (.*), ptr (%\w+|addrspacecast \(.*?\)|@[\w.]+)(.*)$")
SHARED = re.compile(r"addrspacecast \(ptr addrspace\(3\) @([\w.]+) to ptr\)")
GLOBAL = re.compile(r"@([\w.]+) = internal addrspace\(3\) global \[(\d+) x (\w+)\]")
ACCESS = re.compile(
    r"(?:= load|^\s*store|= atomicrmw|= cmpxchg(?! ptr %status)|^\s*fence|@llvm\.mem)"
)
EDGE = re.compile(r"(\[[^\[\]]*?, %)(\w+)( \])")
WIDTHS = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}
REGISTERS = {"tid.x": LANE, "ctaid.x": BLOCK, "nctaid.x": BLOCKS}
SHUFFLES = ("shfl.sync.down", "shfl.sync.bfly", "shfl.sync.idx", "shfl.sync.up")

COROUTINE = """
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare ptr @llvm.coro.free(token, ptr)
declare void @llvm.coro.end(ptr, i1, token)
declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare ptr @malloc(i64)
declare void @free(ptr)
"""
BEGIN = """
emu.start:
"""
START = """
  %emu.id = call token @llvm.coro.id(i32 16, ptr null, ptr null, ptr null)
  %emu.size = call i64 @llvm.coro.size.i64()
  %emu.memory = call ptr @malloc(i64 %emu.size)
  %emu.handle = call ptr @llvm.coro.begin(token %emu.id, ptr %emu.memory)
  %emu.s0 = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %emu.s0, label %emu.return [ i8 0, label %entry i8 1, label %emu.cleanup ]
"""
END = f"""
emu.final:
  %emu.done = getelementptr i64, ptr %emu.c, i64 {STATE}
  store i64 {DONE}, ptr %emu.done
  %emu.sf = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %emu.sf, label %emu.return [ i8 0, label %emu.trap i8 1, label %emu.cleanup ]
emu.trap:
  unreachable
emu.cleanup:
  %emu.frame = call ptr @llvm.coro.free(token %emu.id, ptr %emu.handle)
  call void @free(ptr %emu.frame)
  br label %emu.return
emu.return:
  call void @llvm.coro.end(ptr %emu.handle, i1 false, token none)
  ret ptr %emu.handle
}}
"""
DRIVER = f"""
define void @emu.round(ptr %contexts, ptr %handles, ptr %order, i64 %n) {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %following ]
  %op = getelementptr i64, ptr %order, i64 %i
  %l = load i64, ptr %op
  %words = mul i64 %l, {CONTEXT}
  %c = getelementptr i64, ptr %contexts, i64 %words
  %state = load i64, ptr %c
  %ready = icmp eq i64 %state, 0
  br i1 %ready, label %run, label %following
run:
  %hp = getelementptr ptr, ptr %handles, i64 %l
  %h = load ptr, ptr %hp
  call void @llvm.coro.resume(ptr %h)
  br label %following
following:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %lane, label %end
end:
  ret void
}}
define void @emu.end(ptr %handles, i64 %n) {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %lane ]
  %hp = getelementptr ptr, ptr %handles, i64 %i
  %h = load ptr, ptr %hp
  call void @llvm.coro.destroy(ptr %h)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %lane, label %end
end:
  ret void
}}
"""


@dataclass(frozen=True, slots=True)
class Shared:
    """An array that the lanes of a block share."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Threads:
    """The coroutine of a kernel as the text of a module, and what it shares.

    ``sites`` are the exchanges of a warp, by the number that a thread notes.
    """

    name: str
    text: str
    buffers: tuple[str, ...]
    shared: tuple[Shared, ...]
    sites: tuple[str, ...]


def threads(text: str) -> Threads:
    """The module of one kernel as a module of its threads."""
    head, _, rest = text.partition("define ptx_kernel")
    lines = ("define ptx_kernel" + rest).splitlines()
    end = lines.index("}")
    return _Rewriting(head, lines[: end + 1], lines[end + 1 :]).threads()


@dataclass
class _Rewriting:
    """One kernel on its way to a coroutine."""

    head: str
    lines: Sequence[str]
    behind: Sequence[str]
    roots: dict[str, str] = field(default_factory=dict[str, str])
    renamed: dict[str, str] = field(default_factory=dict[str, str])
    sites: list[str] = field(default_factory=list[str])
    arrays: list[str] = field(default_factory=list[str])
    label: str = "entry"
    here: str = "entry"
    count: int = 0

    def threads(self) -> Threads:
        found = HEADER.match(self.lines[0])
        if found is None:
            raise CompilerError(f"the emulator expects one kernel, found {self.lines[0]}")
        name, listed = found.groups()
        parameters = [p.split() for p in listed.split(", ")]
        self.buffers = [p[-1] for p in parameters if p[0] == "ptr" and p[-1] != "%status"]
        found = GLOBAL.findall(self.head)
        self.shared = [Shared(n, int(count) * WIDTHS[t]) for n, count, t in found]
        body = [new for line in self.lines[1:-1] for new in self._line(line)]
        joined = "\n".join(self._edges(line) for line in body)
        arrays = "\n".join(self.arrays)
        taken = ", ".join(f"{p[0]} {p[-1]}" for p in parameters)
        coroutine = (
            f"define internal ptr @emu.thread({taken}, ptr %emu.c) presplitcoroutine {{"
            f"{BEGIN}{arrays}{START}{joined}\n{END}"
        )
        pieces = (
            self._head(),
            COROUTINE,
            CHECKS,
            ASYNCHRONOUS,
            coroutine,
            DRIVER,
            make(parameters),
        )
        behind = "\n".join(line for line in self.behind if not line.startswith("attributes"))
        attributes = "attributes #0 = { nounwind }\n"
        whole = "\n".join((*pieces, behind, attributes))
        told = tuple(self.buffers), tuple(self.shared), tuple(self.sites)
        return Threads(name, whole, *told)

    def _head(self) -> str:
        """Declarations without those of the GPU; shared arrays as globals that can be found."""
        kept = (line for line in self.head.splitlines() if "@llvm.nvvm." not in line)
        return "\n".join(kept).replace("internal addrspace(3) global", "addrspace(3) global")

    def _line(self, line: str) -> Iterator[str]:
        if " = alloca " in line:
            self.arrays.append(line.replace("align 64", "align 16"))
            return
        if match := LABEL.match(line):
            self.label = self.here = match[1]
            self.renamed[self.label] = self.label
        elif line.strip() == "ret void":
            line = "  br label %emu.final"
        elif match := CALL.match(line):
            yield from self._call(*match.groups())
            return
        elif "@llvm.nvvm." in line:
            raise CompilerError(f"the emulator does not know: {line.strip()}")
        elif match := POINTER.match(line) or CAST.match(line):
            self.roots[match[1]] = self.roots.get(match[2], match[2])
        elif match := LOAD.match(line):
            before, type_, pointer, after = match.groups()
            checked, pointer = self._checked(pointer, type_, False)
            yield from checked
            line = f"{before}{type_}, ptr {pointer}{after}"
        elif match := STORE.match(line):
            before, type_, value, pointer, after = match.groups()
            checked, pointer = self._checked(pointer, type_, True)
            yield from checked
            line = f"{before}{type_} {value}, ptr {pointer}{after}"
        elif ACCESS.search(line):
            raise CompilerError(f"the emulator does not check this access: {line.strip()}")
        yield line

    # -- memory ----------------------------------------------------------------------------

    def _checked(self, pointer: str, type_: str, writes: bool) -> tuple[list[str], str]:
        """The lines that check an access, and where it goes."""
        region = self._region(self.roots.get(pointer, pointer))
        if region is None:
            return [], pointer
        place = self._name("at")
        told = f"i64 {region}, ptr {pointer}, i64 {_width(type_)}, i1 {str(writes).lower()}"
        return [f"  {place} = call ptr @emu.at(ptr %emu.c, {told})"], place

    def _region(self, root: str) -> int | None:
        """The number of a memory that threads share; None for arrays of a thread, and tables."""
        if root in self.buffers:
            return self.buffers.index(root)
        found, names = SHARED.match(root), [s.name for s in self.shared]
        name = found[1] if found else root.removeprefix("@")
        return len(self.buffers) + names.index(name) if name in names else None

    # -- instructions of the GPU -----------------------------------------------------------

    def _call(self, result: str | None, type_: str, name: str, listed: str) -> Iterator[str]:
        given = [a.strip().rsplit(" ", 1) for a in listed.split(", ")]
        if name.startswith("read.ptx.sreg."):
            yield from self._note_read(result, name.removeprefix("read.ptx.sreg."))
        elif name == "barrier.cta.sync.aligned.all":
            yield from self._suspend(AT_BARRIER)
        elif name.rsplit(".", 1)[0] in SHUFFLES:
            yield from self._shuffle(str(result), type_, name, given)
        elif name.startswith("mma."):
            yield from self._multiply(str(result), type_, name, given)
        elif name.startswith("cp.async."):
            yield from self._copy(name.removeprefix("cp.async."), given)
        elif name == "f2tf32.rna":
            yield from self._rounded(str(result), given[0][1])
        else:
            raise CompilerError(f"the emulator does not know llvm.nvvm.{name}")

    def _note_read(self, result: str | None, register: str) -> Iterator[str]:
        if register not in REGISTERS:
            raise CompilerError(f"the emulator does not know the register {register}")
        wide = self._name("w")
        yield from self._load(wide, REGISTERS[register])
        yield f"  {result} = trunc i64 {wide} to i32"

    def _shuffle(
        self, result: str, type_: str, name: str, given: Sequence[Sequence[str]]
    ) -> Iterator[str]:
        """Gives a value of 32 bits, waits for the warp, and takes another lane's."""
        bits = given[1][1]
        if type_ == "float":
            bits = self._name("b")
            yield f"  {bits} = bitcast float {given[1][1]} to i32"
        wide, other = self._name("g"), self._name("o")
        yield f"  {wide} = zext i32 {bits} to i64"
        yield f"  {other} = zext i32 {given[2][1]} to i64"
        yield from self._put(GIVE, wide)
        yield from self._put(WITH, other)
        yield from self._put(SITE, str(len(self.sites)))
        self.sites.append(name)
        yield from self._suspend(IN_WARP)
        got, narrow = self._name("r"), self._name("n")
        yield from self._load(got, GOT)
        narrow = result if type_ != "float" else narrow
        yield f"  {narrow} = trunc i64 {got} to i32"
        if type_ == "float":
            yield f"  {result} = bitcast i32 {narrow} to float"

    def _multiply(
        self, result: str, type_: str, name: str, given: Sequence[Sequence[str]]
    ) -> Iterator[str]:
        """Gives the registers of x, y and the sum, and takes those of the new sum."""
        for i, (kind, value) in enumerate(given):
            place = self._name("p")
            yield f"  {place} = getelementptr i64, ptr %emu.c, i64 {REGISTERS_GIVEN + i}"
            yield f"  store {kind} {value}, ptr {place}"
        yield from self._put(SITE, str(len(self.sites)))
        self.sites.append(name)
        yield from self._suspend(IN_WARP)
        whole = "poison"
        for i in range(4):
            place, x = self._name("p"), self._name("x")
            yield f"  {place} = getelementptr i64, ptr %emu.c, i64 {REGISTERS_GOT + i}"
            yield f"  {x} = load float, ptr {place}"
            new = result if i == 3 else self._name("v")
            yield f"  {new} = insertvalue {type_} {whole}, float {x}, {i}"
            whole = new

    def _copy(self, name: str, given: Sequence[Sequence[str]]) -> Iterator[str]:
        """An asynchronous copy of some bytes, the end of a group, or a wait for groups."""
        if name == "commit.group":
            yield "  call void @emu.commit(ptr %emu.c)"
        elif name == "wait.group":
            yield f"  call void @emu.wait(ptr %emu.c, i64 {given[0][1]})"
        elif name == "wait.all":
            yield "  call void @emu.commit(ptr %emu.c)"
            yield "  call void @emu.wait(ptr %emu.c, i64 0)"
        else:
            (kind, target), (other, source) = given[:2]
            places = self._name("d"), self._name("s")
            for place, type_, pointer in zip(places, (kind, other), (target, source), strict=True):
                yield f"  {place} = addrspacecast {type_} {pointer} to ptr"
            size, region = int(name.rsplit(".", 1)[1]), self._region(self.roots.get(target, target))
            read = self._region(self.roots.get(source, source))
            at = self._name("at")
            told = f"i64 {read}, ptr {places[1]}, i64 {size}, i1 false"
            yield f"  {at} = call ptr @emu.at(ptr %emu.c, {told})"
            told = f"i64 {region}, ptr {places[0]}, ptr {at}, i64 {size}"
            yield f"  call void @emu.ask(ptr %emu.c, {told})"

    def _rounded(self, result: str, x: str) -> Iterator[str]:
        """The ten digits of tf32, ties away from zero."""
        bits, more = self._name("b"), self._name("m")
        yield f"  {bits} = bitcast float {x} to i32"
        yield f"  {more} = add i32 {bits}, 4096"
        yield f"  {result} = and i32 {more}, -8192"

    # -- waiting ---------------------------------------------------------------------------

    def _suspend(self, state: int) -> Iterator[str]:
        """Gives up the processor until the state of the thread is ready again."""
        yield from self._put(STATE, str(state))
        back, self.here = self._name("s"), f"emu.back{self.count}"
        yield f"  {back} = call i8 @llvm.coro.suspend(token none, i1 false)"
        cases = f"i8 0, label %{self.here} i8 1, label %emu.cleanup"
        yield f"  switch i8 {back}, label %emu.return [ {cases} ]"
        yield f"{self.here}:"
        self.renamed[self.label] = self.here

    def _put(self, at: int, value: str) -> Iterator[str]:
        place = self._name("p")
        yield f"  {place} = getelementptr i64, ptr %emu.c, i64 {at}"
        yield f"  store i64 {value}, ptr {place}"

    def _load(self, name: str, at: int) -> Iterator[str]:
        place = self._name("p")
        yield f"  {place} = getelementptr i64, ptr %emu.c, i64 {at}"
        yield f"  {name} = load i64, ptr {place}"

    def _name(self, hint: str) -> str:
        self.count += 1
        return f"%emu.{hint}{self.count}"

    def _edges(self, line: str) -> str:
        """A phi names the last part of a block that was cut where it waits."""
        if " = phi " not in line:
            return line
        return EDGE.sub(lambda m: f"{m[1]}{self.renamed.get(m[2], m[2])}{m[3]}", line)


def make(parameters: Sequence[Sequence[str]]) -> str:
    """The function that makes the threads of a block, from arguments that lie in an array."""
    lines: list[str] = []
    values: list[str] = []
    for i, (type_, *_) in enumerate(parameters):
        lines.append(f"  %p{i} = getelementptr i64, ptr %arguments, i64 {i}")
        lines.append(f"  %v{i} = load {type_}, ptr %p{i}")
        values.append(f"{type_} %v{i}")
    taken, loads = ", ".join((*values, "ptr %c")), "\n".join(lines)
    return f"""
define void @emu.make(ptr %arguments, ptr %contexts, ptr %handles, i64 %n) {{
entry:
{loads}
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %lane ]
  %words = mul i64 %i, {CONTEXT}
  %c = getelementptr i64, ptr %contexts, i64 %words
  %h = call ptr @emu.thread({taken})
  %hp = getelementptr ptr, ptr %handles, i64 %i
  store ptr %h, ptr %hp
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %lane, label %end
end:
  ret void
}}
"""


def _width(type_: str) -> int:
    """The bytes of an element, or of a vector of such."""
    if type_.startswith("<"):
        count, _, element = type_.strip("<>").partition(" x ")
        return int(count) * WIDTHS[element]
    return WIDTHS[type_]
