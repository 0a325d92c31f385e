"""What generated code reads and writes: a record of each instruction that touches memory.

``FunctionWriter.access`` writes every one of them, after it has told the listener of the module, if
there is one. The functions of the runtime that are text from the start (the tape, the pool of
threads) are not written by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SHORT = {"half": "f16", "float": "f32", "double": "f64"}


def vector(element: str, lanes: int) -> str:
    """The type of several of these, or of one."""
    return f"<{lanes} x {element}>" if lanes > 1 else element


def suffix(element: str, lanes: int) -> str:
    """How a type is spelt in the name of an intrinsic."""
    short = SHORT.get(element, element)
    return f"v{lanes}{short}" if lanes > 1 else short


class Kind(StrEnum):
    """The instructions that touch memory."""

    LOAD = "load"
    STORE = "store"
    MASKED_LOAD = "masked.load"
    MASKED_STORE = "masked.store"
    GATHER = "masked.gather"
    SCATTER = "masked.scatter"
    COPY = "memcpy"


PLAIN = (Kind.LOAD, Kind.STORE)
"""What LLVM has instructions for; the others are calls."""
TOUCHING = (" load ", "  store ", "@llvm.masked.", "@llvm.mem")
"""What the lines have in common by which memory is touched."""


def touching(body: str) -> int:
    """How many instructions of a function touch memory."""
    return sum(any(word in line for word in TOUCHING) for line in body.splitlines())


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """One instruction that touches memory, as it is to be written."""

    kind: Kind
    pointer: str
    """Where it reads or writes; a vector of pointers for a gather or scatter."""
    element: str
    lanes: int = 1
    """How many elements; how many are touched of them depends on the mask."""
    align: int = 0
    """The bytes that the address is a multiple of; 0 where that is left to LLVM."""
    value: str | int = ""
    """What is written; of a copy, the pointer that it is read from."""
    mask: str = ""
    order: str = ""
    """The memory order of an atomic access."""
    size: str = ""
    """The bytes of a copy."""

    @property
    def type(self) -> str:
        """What is read or written."""
        return vector(self.element, self.lanes)

    @property
    def writes(self) -> bool:
        """Whether memory at the pointer is changed."""
        return self.kind in (Kind.STORE, Kind.MASKED_STORE, Kind.SCATTER, Kind.COPY)

    def __str__(self) -> str:
        """The instruction, without the name of its result."""
        if self.kind not in PLAIN:
            given = ", ".join(f"{type_} {value}" for type_, value in self.arguments)
            return f"call {self.result} @{self.intrinsic}({given})"
        type_ = self.type if self.kind is Kind.LOAD else f"{self.type} {self.value}"
        align = f", align {self.align}" if self.align else ""
        if self.order:
            return f"{self.kind} atomic {type_}, ptr {self.pointer} {self.order}{align}"
        return f"{self.kind} {type_}, ptr {self.pointer}{align}"

    @property
    def result(self) -> str:
        """The type of what it gives."""
        return "void" if self.writes else self.type

    @property
    def intrinsic(self) -> str:
        """The function that does it, where LLVM has no instruction."""
        if self.kind is Kind.COPY:
            return "llvm.memcpy.p0.p0.i64"
        return f"llvm.{self.kind}.{suffix(self.element, self.lanes)}.{self._each}p0"

    @property
    def arguments(self) -> tuple[tuple[str, str], ...]:
        """The types and values that this function takes."""
        if self.kind is Kind.COPY:
            given = ("ptr", self.pointer), ("ptr", str(self.value))
            return (*given, ("i64", self.size), ("i1", "false"))
        at = vector("ptr", self.lanes if self._each else 1), self.pointer
        rest = at, ("i32", str(self.align)), (vector("i1", self.lanes), self.mask)
        if self.writes:
            return (self.type, str(self.value)), *rest
        return *rest, (self.type, "zeroinitializer")

    @property
    def _each(self) -> str:
        """How many pointers an intrinsic takes, as its name says it."""
        return f"v{self.lanes}" if self.kind in (Kind.GATHER, Kind.SCATTER) else ""
