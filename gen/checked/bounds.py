"""Machine code that checks every access to memory: for finding out who writes where it may not.

In front of each load, store, masked or gathered access and copy stands a check that the bytes lie
in the buffer that the pointer was stepped to from, or in some buffer where that isn't known (as
where a loop moves a pointer on). An access outside goes to a bin instead, and the first one is
told: its function, where it went, and how far (``regions``). ``Checks`` writes them, as it is told
of every access of a function while that is written. Buffers stand apart in the arena, so that none
is another's neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dlvm.base.errors import CompilerError
from dlvm.gen.llvm.disk import digest
from dlvm.gen.program.memory import ALIGNMENT, Arena, align, intervals, padded
from dlvm.gen.program.steps import Program
from dlvm.gen.text.access import Kind, MemoryAccess, touching
from dlvm.gen.text.module import FunctionWriter, Lines, Text
from dlvm.ir import Dim

from .bounds_code import FUNCTIONS

ROOM = (1 << 16) - 3
"""How many buffers a call may have."""
HEAD = 6
"""Words before the buffers: whether one failed, its site, address, bytes and root, the count."""
BIN = 4096
TABLE = "dlvm_bounds"


@dataclass(frozen=True)
class Site:
    """An access: the function that it stands in, and its instruction."""

    function: str
    instruction: str
    writes: bool


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


class Checks:
    """Puts a check in front of every access of one function; of a trusted one, of its copies."""

    def __init__(self, w: FunctionWriter) -> None:
        self.w = w
        self.roots: dict[str, str] = {}
        self.sites: list[tuple[Lines, str, MemoryAccess, bool]] = []
        """The line of each check but for the number of its site, and what it checks."""

    def stepped(self, result: str, pointer: str) -> None:
        """A pointer lies in the same buffer as the one that it was made of."""
        self.roots[result] = self.roots.get(pointer, pointer)

    def accessed(self, access: MemoryAccess, into: Lines) -> MemoryAccess:
        """The access, of the bin where it would go outside."""
        if access.kind is Kind.COPY:
            self._one(access, access.pointer, access.size, into, writes=True)
            self._one(access, str(access.value), access.size, into, writes=False)
            return access
        if self.w.trusted or access.order:
            return access
        if access.mask:
            return replace(access, mask=self._lanes(access, into))
        size = bytes_of(access.type)
        return replace(access, pointer=self._one(access, access.pointer, size, into, access.writes))

    def ended(self, name: str) -> None:
        """Give each check the number of its site, and see that no access was missed."""
        for i, (line, front, access, writes) in enumerate(self.sites):
            number = int(digest("site", name, str(i), str(access))[:15], 16)
            SITES[number] = Site(name, str(access), writes)
            line[:] = [f"{front}, i64 {number})"]
        body = self.w.body()
        steps = body.count("= getelementptr ")
        for what, found, announced, way in (
            ("touch memory", touching(body), self.w.accesses, "access"),
            ("step from a pointer", steps, len(self.roots), "step"),
        ):
            if found != announced:
                raise CompilerError(
                    f"{found} instructions of {name} {what}, and {announced} were announced: "
                    f"each has to be written by FunctionWriter.{way}"
                )

    @staticmethod
    def taken(block: str, size: str) -> str:
        """The block is a buffer from now on."""
        return f"call void @{TABLE}.add(ptr {block}, i64 {size})"

    @staticmethod
    def given_back(block: str) -> str:
        """The block is no buffer any more."""
        return f"call void @{TABLE}.drop(ptr {block})"

    def _one(self, access: MemoryAccess, pointer: str, size: str, into: Lines, writes: bool) -> str:
        safe = self._name("safe")
        arguments = f"ptr {self._root(pointer)}, ptr {pointer}, i64 {size}"
        self._check(access, f"  {safe} = call ptr @{TABLE}.one({arguments}", into, writes)
        return safe

    def _lanes(self, access: MemoryAccess, into: Lines) -> str:
        """The mask of the lanes that run and stay inside."""
        n, pointer = access.lanes, access.pointer
        flags = f"<{n} x i8>"
        wide, read, left = (self._name(word) for word in ("wide", "read", "left"))
        into.append(f"  {wide} = zext <{n} x i1> {access.mask} to {flags}")
        room, how = self._kept(flags, wide, into), "lanes"
        if access.kind in (Kind.GATHER, Kind.SCATTER):
            pointer, how = self._kept(f"<{n} x ptr>", pointer, into), "each"
        size = bytes_of(access.element)
        arguments = f"ptr {self._root(access.pointer)}, ptr {pointer}, i64 {size}, i64 {n}"
        front = f"  call void @{TABLE}.{how}({arguments}, ptr {room}"
        self._check(access, front, into, access.writes)
        self.w.accesses += 1
        into += [
            f"  {read} = load {flags}, ptr {room}, align 1",
            f"  {left} = icmp ne {flags} {read}, zeroinitializer",
        ]
        return left

    def _kept(self, type_: str, value: str, into: Lines) -> str:
        """Memory of the function's own that holds a value."""
        room = self._name("room")
        self.w.arrays.append(f"  {room} = alloca {type_}, align 64")
        self.w.accesses += 1
        into.append(f"  store {type_} {value}, ptr {room}, align 1")
        return room

    def _check(self, access: MemoryAccess, front: str, into: Lines, writes: bool) -> None:
        line: Lines = [f"{front}, i64 0)"]
        into.append(line)
        self.sites.append((line, front, access, writes))

    def _root(self, pointer: str) -> str:
        """What a pointer was made of, by steps alone."""
        return self.roots.get(pointer, "null")

    def _name(self, hint: str) -> str:
        return f"%{self.w.name(f'checked.{hint}.')}"


def bytes_of(type_: str) -> str:
    """How many bytes a type takes, as LLVM computes it."""
    return f"ptrtoint (ptr getelementptr ({type_}, ptr null, i64 1) to i64)"


def include_checks(text: Text, owner: bool) -> None:
    """Put into a complete module what its checks call; the owner has the table of buffers."""
    words = HEAD + 2 * ROOM
    kind = "global" if owner else "external global"
    rows = [(name, bytes_of(type_)) for name, type_ in text.constants.items()]
    rows.append((f"{TABLE}.bin", str(BIN)))
    known = ", ".join(f"{{ ptr, i64 }} {{ ptr @{name}, i64 {size} }}" for name, size in rows)
    text.globals[TABLE] = f"""\
@{TABLE} = {kind} [{words} x i64]{" zeroinitializer" if owner else ""}
@{TABLE}.bin = internal global [{BIN} x i8] zeroinitializer, align 64
@{TABLE}.constants = internal constant [{len(rows)} x {{ ptr, i64 }}] [{known}]"""
    text.declarations["frame"] = "declare ptr @llvm.frameaddress.p0(i32)"
    text.functions[TABLE] = FUNCTIONS.format(table=TABLE, head=HEAD, constants=len(rows), room=ROOM)
