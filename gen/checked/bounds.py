"""Machine code that checks every access to memory: for finding out who writes where it may not.

The text of a module is rewritten: in front of each load, store, masked or gathered access and copy
stands a check that the bytes lie in the buffer that the pointer was made of, or in some buffer
where that can't be read off the text (as where a loop moves a pointer on). An access outside goes
to a bin instead, and the first one is told: its function, where it went, and how far (``regions``).
Buffers stand apart in the arena, so that none is another's neighbour.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from dlvm.base.errors import CompilerError
from dlvm.gen.llvm.disk import digest
from dlvm.gen.program.memory import ALIGNMENT, Arena, align, intervals, padded
from dlvm.gen.program.steps import Program
from dlvm.ir import Dim

from .bounds_code import FUNCTIONS

ROOM = (1 << 16) - 3
"""How many buffers a call may have."""
HEAD = 6
"""Words before the buffers: whether one failed, its site, address, bytes and root, the count."""
BIN = 4096
TABLE = "dlvm_bounds"
SIZES = {"float": 4, "double": 8, "half": 2, "bfloat": 2, "ptr": 8} | {
    f"i{n}": n // 8 for n in (8, 16, 32, 64)
}
RUNTIME = re.compile(
    r"^(activation|ask(_|$)|block_|dlvm_|fork|function\.|head_of$|mode_|numpy_|pool_|release|tape_|"
    r"tell$)"
)
"""Functions that know how memory is held; what they copy is checked, and no more."""

_LOAD = re.compile(r"  (%[\w.]+) = load ([^,]+|<[^>]+>|\[[^\]]+\]), ptr (%[\w.]+)(, align \d+)?$")
_STORE = re.compile(r"  store (<[^>]+>|\[[^\]]+\]|\S+) (.+), ptr (%[\w.]+)(, align \d+)?$")
_MASKED_LOAD = re.compile(
    r"  (%[\w.]+ = call (<\d+ x (\w+)>) @llvm\.masked\.load\S*?\(ptr (%[\w.]+), i32 \d+, )"
    r"<(\d+) x i1> (.*)(, <\d+ x \w+> zeroinitializer\))$"
)
_MASKED_STORE = re.compile(
    r"  (call void @llvm\.masked\.store\S*?\(<(\d+) x (\w+)> .+, ptr (%[\w.]+), i32 \d+, )"
    r"<\d+ x i1> (.*)(\))$"
)
_GATHER = re.compile(
    r"  (%[\w.]+ = call <(\d+) x (\w+)> @llvm\.masked\.gather\S*?"
    r"\(<\d+ x ptr> (%[\w.]+), i32 \d+, )"
    r"<\d+ x i1> (.*)(, <\d+ x \w+> zeroinitializer\))$"
)
_SCATTER = re.compile(
    r"  (call void @llvm\.masked\.scatter\S*?\(<(\d+) x (\w+)> .+, "
    r"<\d+ x ptr> (%[\w.]+), i32 \d+, )"
    r"<\d+ x i1> (.*)(\))$"
)
_COPY = re.compile(
    r"  call void @llvm\.memcpy\S*?\(ptr (%[\w.]+), ptr (%[\w.]+), i64 (\S+), (i1 .*)\)$"
)
_MALLOC = re.compile(r"  (%[\w.]+) = call ptr @malloc\(i64 (\S+)\)$")
_FREE = re.compile(r"  call void @free\(ptr (%[\w.]+)\)$")
_STEP = re.compile(r"  (%[\w.]+) = getelementptr [^,]+(?: x [^,]+)?, ptr (%[\w.]+|@[\w.]+),")
_GLOBAL = re.compile(r"^@([\w.]+) = .*?(?:constant|global) (\[.+?\]+|<.+?>|\w+) ", re.M)


@dataclass(frozen=True)
class Site:
    """An access: the function that it stands in, and its instruction."""

    function: str
    instruction: str


_writing: ContextVar[bool] = ContextVar("dlvm_checked_code", default=False)


def writing() -> bool:
    """Whether the code that is being written is to be checked."""
    return _writing.get()


@contextmanager
def written() -> Generator[None]:
    """Code that is written inside is checked, that of products too."""
    token = _writing.set(True)
    try:
        yield
    finally:
        _writing.reset(token)


SITES: dict[int, Site] = {}
"""Every access of the code that was made in this process, by its number in that code."""


def apart(program: Program) -> Arena:
    """A plan in which each temporary has a place of its own, with a gap behind it."""
    end: Dim = ALIGNMENT
    offsets: dict[object, Dim] = {}
    for storage in intervals(program):
        offsets[storage] = align(end)
        end = align(end) + padded(storage) + ALIGNMENT
    return Arena(offsets, align(end))  # type: ignore[arg-type]


def checked(text: str, owner: bool) -> str:
    """The module with every access checked; the owner of the table has what others refer to."""
    out: list[str] = []
    function: _Function | None = None
    for line in text.splitlines():
        if line.startswith("define "):
            found = re.search(r"@([\w.]+)\(", line)
            function = _Function(found.group(1) if found else "?", len(out) + 1)
        elif line == "}" and function is not None:
            out[function.start : function.start] = function.head
            function = None
        if function is None or line.startswith("define "):
            out.append(line)
        else:
            if line.endswith(":") and function.start == len(out):
                function.start += 1
            out += function.rewritten(line)
    return "\n".join(out) + _runtime(text, owner)


class _Function:
    """One function while its lines are rewritten."""

    def __init__(self, name: str, start: int) -> None:
        self.name, self.start = name, start
        self.head: list[str] = []
        self.roots: dict[str, str] = {}
        self.count = 0
        self.only_copies = RUNTIME.match(name) is not None

    def rewritten(self, line: str) -> list[str]:
        """A line, after the lines that are put before it."""
        if step := _STEP.match(line):
            self.roots[step.group(1)] = self.roots.get(step.group(2), step.group(2))
        if found := _COPY.match(line):
            return self._copy(line, *found.groups())
        if found := _MALLOC.match(line):
            return [line, f"  call void @{TABLE}.add(ptr {found.group(1)}, i64 {found.group(2)})"]
        if found := _FREE.match(line):
            return [f"  call void @{TABLE}.drop(ptr {found.group(1)})", line]
        if self.only_copies or "atomic" in line:
            return [line]
        if found := _LOAD.match(line):
            result, type_, pointer, rest = found.groups()
            safe, lines = self._one(line, pointer, _bytes(type_))
            return [*lines, f"  {result} = load {type_}, ptr {safe}{rest or ''}"]
        if found := _STORE.match(line):
            type_, value, pointer, rest = found.groups()
            safe, lines = self._one(line, pointer, _bytes(type_))
            return [*lines, f"  store {type_} {value}, ptr {safe}{rest or ''}"]
        return self._masked(line)

    def _masked(self, line: str) -> list[str]:
        if found := _MASKED_LOAD.match(line):
            front, _, element, pointer, lanes, mask, back = found.groups()
            return self._lanes(line, "lanes", pointer, element, int(lanes), mask, front, back)
        if found := _MASKED_STORE.match(line):
            front, lanes, element, pointer, mask, back = found.groups()
            return self._lanes(line, "lanes", pointer, element, int(lanes), mask, front, back)
        if found := _GATHER.match(line) or _SCATTER.match(line):
            front, lanes, element, pointers, mask, back = found.groups()
            return self._lanes(line, "each", pointers, element, int(lanes), mask, front, back)
        if re.search(r"call .*@llvm\.masked|\b(load|store) ", line) and "declare" not in line:
            raise CompilerError(f"an access that can't be checked: {line}")
        return [line]

    def _one(self, line: str, pointer: str, size: str) -> tuple[str, list[str]]:
        safe = self._name("safe")
        arguments = f"ptr {self._root(pointer)}, ptr {pointer}, i64 {size}, i64 {self._site(line)}"
        return safe, [f"  {safe} = call ptr @{TABLE}.one({arguments})"]

    def _copy(self, line: str, to: str, source: str, size: str, rest: str) -> list[str]:
        out: list[str] = []
        for pointer in (to, source):
            _, lines = self._one(line, pointer, size)
            out += lines
        return [*out, line]

    def _lanes(
        self,
        line: str,
        how: str,
        pointer: str,
        element: str,
        n: int,
        mask: str,
        front: str,
        back: str,
    ) -> list[str]:
        room, wide, read, left = (self._name(w) for w in ("room", "wide", "read", "left"))
        self.head.append(f"  {room} = alloca <{n} x i8>, align 64")
        lines = [
            f"  {wide} = zext <{n} x i1> {mask} to <{n} x i8>",
            f"  store <{n} x i8> {wide}, ptr {room}, align 1",
        ]
        given = pointer
        if how == "each":
            given = self._name("pointers")
            self.head.append(f"  {given} = alloca <{n} x ptr>, align 64")
            lines.append(f"  store <{n} x ptr> {pointer}, ptr {given}, align 8")
        arguments = f"ptr {self._root(pointer)}, ptr {given}, i64 {SIZES[element]}, i64 {n}"
        return [
            *lines,
            f"  call void @{TABLE}.{how}({arguments}, ptr {room}, i64 {self._site(line)})",
            f"  {read} = load <{n} x i8>, ptr {room}, align 1",
            f"  {left} = icmp ne <{n} x i8> {read}, zeroinitializer",
            f"  {front}<{n} x i1> {left}{back}",
        ]

    def _root(self, pointer: str) -> str:
        """What a pointer was made of, by steps alone."""
        found = self.roots.get(pointer)
        return "null" if found is None else found

    def _name(self, hint: str) -> str:
        self.count += 1
        return f"%checked.{hint}.{self.count}"

    def _site(self, line: str) -> int:
        number = int(digest("site", self.name, str(self.count), line)[:15], 16)
        SITES[number] = Site(self.name, line.strip())
        return number


def _bytes(type_: str) -> str:
    if type_ in SIZES:
        return str(SIZES[type_])
    return f"ptrtoint (ptr getelementptr ({type_}, ptr null, i64 1) to i64)"


def _runtime(text: str, owner: bool) -> str:
    """The functions that check, and the table; constants of the module are known to them."""
    words = HEAD + 2 * ROOM
    kind = "global" if owner else "external global"
    table = f"@{TABLE} = {kind} [{words} x i64]{' zeroinitializer' if owner else ''}"
    known = [(name, _bytes(t)) for name, t in _GLOBAL.findall(text)]
    known.append((f"{TABLE}.bin", str(BIN)))
    rows = ", ".join(f"{{ ptr, i64 }} {{ ptr @{name}, i64 {size} }}" for name, size in known)
    return f"""
{table}
@{TABLE}.bin = internal global [{BIN} x i8] zeroinitializer, align 64
@{TABLE}.constants = internal constant [{len(known)} x {{ ptr, i64 }}] [{rows}]
{"" if "declare ptr @llvm.frameaddress.p0" in text else "declare ptr @llvm.frameaddress.p0(i32)"}
{FUNCTIONS.format(table=TABLE, head=HEAD, constants=len(known), room=ROOM)}
"""
