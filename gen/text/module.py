"""Writing LLVM as text: modules without duplicates, and function bodies with loops.

Text is written directly because building it through objects costs twenty times as much. This
room knows LLVM's syntax, and nothing of kernels or scalars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Protocol, Self, TypeAlias

from dlvm.target import Target

from .access import PLAIN, Kind, MemoryAccess, vector

Lines: TypeAlias = "list[str | Lines]"
NAME = re.compile(r"%[\w.]+")
ARRAY = re.compile(r"= alloca (\[.*?\])")
WIDTHS = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}
PRODUCT = 1 << 18
"""What functions that stand in other modules, products, take of the stack at most."""


def attributes(target: Target) -> str:
    """What every function of a module says of the processor."""
    width = f'"prefer-vector-width"="{target.vector_bits}"'
    return f'nounwind "target-cpu"="{target.cpu}" "target-features"="{target.features}" {width}'


@dataclass(frozen=True, slots=True)
class Part:
    """A module of its own: what gives its text, and its machine code."""

    text: Callable[[], str]
    code: Callable[[], bytes]


class Listener(Protocol):
    """Is told what one function does with memory, while it is written."""

    def __init__(self, w: FunctionWriter) -> None: ...

    def accessed(self, access: MemoryAccess, into: Lines) -> MemoryAccess:
        """Before an access is written to these lines; gives what is written instead."""
        ...

    def stepped(self, result: str, pointer: str) -> None:
        """A pointer was made of another one."""
        ...

    def ended(self, name: str) -> None:
        """The function is complete, and has this name."""
        ...

    @staticmethod
    def taken(block: str, size: str) -> str:
        """The instruction that follows when a block of memory was taken."""
        ...

    @staticmethod
    def given_back(block: str) -> str:
        """The instruction before a block is given back."""
        ...


@dataclass(slots=True)
class Text:
    """A module in pieces, each under its name, so that what several functions need stands once."""

    attributes: str = "nounwind"
    hides_masks: bool = False
    """Whether LLVM must not know that memory is touched in the lanes that others run in."""
    triple: str = ""
    """The target's name, on which the control register of its floating-point mode depends."""
    os: str = "linux"
    """What there is around the code: "none" is no thread, no signal and no allocator."""
    word: int = 64
    """The bits of an address, which no size needs more of."""
    doubles: bool = True
    """Whether the processor computes f64."""
    fma: bool = True
    """Whether the processor multiplies and adds with one rounding; else nothing asks for that."""
    index: str = "i64"
    """The type of indices, whatever the type of the numbers that they are made of."""
    has_doubles: bool = True
    """Whether there is f64 at all, be it by functions of a library."""
    may_fuse: bool = False
    """Whether the steps of a sum of products may be rounded once or twice each."""
    declarations: dict[str, str] = field(default_factory=dict[str, str])
    globals: dict[str, str] = field(default_factory=dict[str, str])
    functions: dict[str, str] = field(default_factory=dict[str, str])
    objects: dict[str, Part] = field(default_factory=dict[str, "Part"])
    """Modules of functions that are only declared here, by the names of these."""
    listener: type[Listener] | None = None
    """Who is told what each function does with memory."""
    constants: dict[str, str] = field(default_factory=dict[str, str])
    """The types of the constants of the module."""

    @staticmethod
    def of(
        target: Target, hides_masks: bool = False, listener: type[Listener] | None = None
    ) -> Text:
        """An empty module for a target."""
        return Text(
            attributes(target),
            hides_masks,
            target.triple,
            target.os,
            target.word,
            target.doubles,
            target.fma,
            listener=listener,
        )

    def constant(self, name: str, type_: str, value: str, linkage: str = "private") -> None:
        """Define constant data."""
        self.globals[name] = f"@{name} = {linkage} constant {type_} {value}"
        self.constants[name] = type_

    def fuses(self, element: str) -> bool:
        """Whether the processor multiplies and adds elements of an LLVM type with one rounding."""
        return self.fma and (self.doubles or element == "float")

    @property
    def scales(self) -> bool:
        """Whether the processor multiplies by powers of two in one instruction."""
        return "+avx512dq" in self.attributes and "+avx512vl" in self.attributes

    @property
    def permutes(self) -> bool:
        """Whether the processor picks elements out of two vectors in one instruction, and masks."""
        return "+avx512bw" in self.attributes and "+avx512vl" in self.attributes

    @property
    def masks(self) -> bool:
        """Whether it reads vectors of long elements under a mask."""
        return "+avx2" in self.attributes

    def shared(self, name: str, element: str, size: int) -> str:
        """An array that the threads of a block of a GPU share, a global of its address space."""
        self.globals[name] = (
            f"@{name} = internal addrspace(3) global [{size} x {element}] undef, align 16"
        )
        return f"addrspacecast (ptr addrspace(3) @{name} to ptr)"

    def include(self, other: Text) -> None:
        """Take over the pieces of another module for the same target."""
        self.declarations.update(other.declarations)
        self.globals.update(other.globals)
        self.functions.update(other.functions)
        self.objects.update(other.objects)
        self.constants.update(other.constants)

    @property
    def stack(self) -> int:
        """How many bytes of the stack a call of a kernel takes at most, about.

        The arrays of a kernel, of the largest of its parts, and of what all kernels may call.
        """
        frames = {n: sum(map(_bytes, ARRAY.findall(f))) for n, f in self.functions.items()}
        around = {n: frames.get(n.partition(".")[0], 0) for n in frames if "." in n}
        parts = (size + around.get(n, 0) for n, size in frames.items())
        called = max((size for n, size in frames.items() if n.startswith("dlvm.")), default=0)
        return max(parts, default=0) + called + (PRODUCT if self.objects else 0)

    def others(self) -> list[bytes]:
        """The object files that this module is linked with."""
        return [part.code() for part in self.objects.values()]

    def sources(self) -> list[str]:
        """The text of the modules that this one is linked with."""
        return [part.text() for part in self.objects.values()]

    def __str__(self) -> str:
        pieces = (self.globals, self.declarations, self.functions)
        body = "\n".join(line for piece in pieces for line in piece.values())
        return f"{body}\nattributes #0 = {{ {self.attributes} }}\n"


@dataclass(slots=True)
class Carry:
    """A value that a loop carries: its type, its start, and in the end what it became."""

    type: str
    start: str
    now: str = ""
    next: str = ""


@dataclass(slots=True)
class Iteration:
    """One turn of a loop: the index, and where values that don't change in it are written."""

    index: str
    head: Lines


class FunctionWriter:
    """Writes one function body; ``head`` is where what depends on arguments alone goes.

    Before it stand the ``arrays``: LLVM divides sizes in blocks of their own, and memory that is
    taken after the first block has no place in the frame that is known. A ``trusted`` function
    manages the memory of a call: its tables, its status, its tape.
    """

    def __init__(self, text: Text, trusted: bool = False) -> None:
        self.text, self.trusted = text, trusted
        self.listener = text.listener and text.listener(self)
        self.arrays: Lines = []
        self.head: Lines = []
        self.lines: Lines = []
        self.accesses = 0
        """How many instructions that touch memory were written."""
        self._count = 0
        self._block = "entry"

    def name(self, hint: str = "t") -> str:
        """A fresh name."""
        self._count += 1
        return f"{hint}{self._count}"

    def do(self, line: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {line}")

    def value(self, right: str, into: Lines | None = None) -> str:
        """The name of the result of an instruction, by default written here."""
        name = f"%{self.name()}"
        (self.lines if into is None else into).append(f"  {name} = {right}")
        return name

    def call(self, result: str, function: str, *arguments: tuple[str, str]) -> str:
        """A call of a declared function; the types of arguments stand before their values."""
        types = ", ".join(t for t, _ in arguments)
        self.text.declarations.setdefault(function, f"declare {result} @{function}({types})")
        line = f"call {result} @{function}({', '.join(f'{t} {v}' for t, v in arguments)})"
        if result != "void":
            return self.value(line)
        self.do(line)
        return ""

    def step(
        self,
        element: str,
        pointer: str,
        index: str | int,
        into: Lines | None = None,
        lanes: int = 1,
    ) -> str:
        """A pointer so many elements further on, or one for each lane."""
        each = "i64" if lanes == 1 else vector("i64", lanes)
        result = self.value(f"getelementptr {element}, ptr {pointer}, {each} {index}", into)
        if self.listener is not None:
            self.listener.stepped(result, pointer)
        return result

    # -- what touches memory -------------------------------------------------------------------

    def access(self, access: MemoryAccess, into: Lines | None = None, name: str = "") -> str:
        """The one place where what touches memory is written; the name of what it reads."""
        self.accesses += 1
        if self.listener is not None:
            access = self.listener.accessed(access, self.lines if into is None else into)
        if access.kind not in PLAIN:
            return self.call(access.result, access.intrinsic, *access.arguments)
        if access.kind is Kind.LOAD and not name:
            return self.value(str(access), into)
        self.do(f"{name} = {access}" if name else str(access))
        return name

    def load(
        self,
        type_: str,
        pointer: str,
        align: int = 0,
        *,
        order: str = "",
        into: Lines | None = None,
        name: str = "",
    ) -> str:
        """What lies in memory."""
        access = MemoryAccess(Kind.LOAD, pointer, type_, align=align, order=order)
        return self.access(access, into, name)

    def store(
        self, type_: str, value: str | int, pointer: str, align: int = 0, *, order: str = ""
    ) -> None:
        """Write a value to memory."""
        self.access(MemoryAccess(Kind.STORE, pointer, type_, 1, align, value, order=order))

    def load_lanes(
        self, element: str, lanes: int, pointer: str, align: int, mask: str | None = None
    ) -> str:
        """Elements in a row; zeros where the mask is off."""
        kind = Kind.LOAD if mask is None else Kind.MASKED_LOAD
        return self.access(MemoryAccess(kind, pointer, element, lanes, align, mask=mask or ""))

    def store_lanes(
        self, element: str, lanes: int, x: str, pointer: str, align: int, mask: str | None = None
    ) -> None:
        """Write elements in a row, where the mask is on."""
        kind = Kind.STORE if mask is None else Kind.MASKED_STORE
        self.access(MemoryAccess(kind, pointer, element, lanes, align, x, mask or ""))

    def copy(self, target: str, source: str, size: str) -> None:
        """Copy bytes to where they do not overlap themselves."""
        self.access(MemoryAccess(Kind.COPY, target, "i8", value=source, size=size))

    def array(self, type_: str, alignment: int = 64) -> str:
        """Memory of the function's own."""
        return self.value(f"alloca {type_}, align {alignment}", self.arrays)

    def label(self, name: str) -> None:
        """Start a block."""
        self.lines.append(f"{name}:")
        self._block = name

    def jump(self, to: str) -> None:
        """Go to a block."""
        self.do(f"br label %{to}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        """Go to one of two blocks."""
        self.do(f"br i1 {condition}, label %{then}, label %{otherwise}")

    @contextmanager
    def when(self, condition: str) -> Generator[None]:
        """What is written inside runs only where the condition holds."""
        then, end = self.name("then"), self.name("end")
        self.branch(condition, then, end)
        self.label(then)
        yield
        self.jump(end)
        self.label(end)

    @contextmanager
    def either(self, condition: str) -> Generator[Callable[[], None]]:
        """What is written inside runs where the condition holds, after the call where not."""
        then, other, end = self.name("then"), self.name("else"), self.name("end")
        self.branch(condition, then, other)
        self.label(then)

        def otherwise() -> None:
            self.jump(end)
            self.label(other)

        yield otherwise
        self.jump(end)
        self.label(end)

    def maybe(self, condition: str, type_: str, otherwise: str, make: Callable[[], str]) -> str:
        """What ``make`` gives where the condition holds, made only there; else the other."""
        return self.maybe_all(condition, type_, [otherwise], lambda: [make()])[0]

    def maybe_all(
        self, condition: str, type_: str, otherwise: list[str], make: Callable[[], list[str]]
    ) -> list[str]:
        """The same for several values of a type."""
        then, end, before = self.name("then"), self.name("end"), self._block
        self.branch(condition, then, end)
        self.label(then)
        made, last = make(), self._block
        self.jump(end)
        self.label(end)
        pairs = zip(made, otherwise, strict=True)
        return [self.value(f"phi {type_} [ {m}, %{last} ], [ {o}, %{before} ]") for m, o in pairs]

    @contextmanager
    def loop(
        self, start: str, stop: str, step: int | str = 1, carried: Sequence[Carry] = ()
    ) -> Generator[Iteration]:
        """``for index in range(start, stop, step)``; carried values are read after it."""
        before, body, end = self._block, self.name("body"), self.name("end")
        index, following = f"%{self.name('i')}", f"%{self.name('i')}"
        if some := _is_below(start, stop):
            self.jump(body)
        else:
            self.branch(self.value(f"icmp slt i64 {start}, {stop}"), body, end)
        self.label(body)
        phis: Lines = []
        head: Lines = []
        self.lines += [phis, head]
        for c in carried:
            c.now = c.next = f"%{self.name('c')}"
        names = [c.now for c in carried]
        yield Iteration(index, head)
        self.do(f"{following} = add nsw i64 {index}, {step}")
        more = self.value(f"icmp slt i64 {following}, {stop}")
        last = self._block
        phis.append(f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{last} ]")
        for c, name in zip(carried, names, strict=True):
            edges = f"[ {c.start}, %{before} ], [ {c.next}, %{last} ]"
            phis.append(f"  {name} = phi {c.type} {edges}")
        self.branch(more, body, end)
        self.label(end)
        for c in carried:
            skipped = "" if some else f"[ {c.start}, %{before} ], "
            c.now = self.value(f"phi {c.type} {skipped}[ {c.next}, %{last} ]")

    def as_long_as(
        self, type_: str, start: str, holds: Callable[[str], str], step: Callable[[str], str]
    ) -> str:
        """What a value is after steps for as long as a condition of it holds."""
        before, body, end = self.name("before"), self.name("body"), self.name("end")
        self.jump(before)
        self.label(before)
        self.branch(holds(start), body, end)
        self.label(body)
        now = f"%{self.name('left')}"
        phi: Lines = []
        self.lines.append(phi)
        following = step(now)
        edges = f"[ {start}, %{before} ], [ {following}, %{body} ]"
        phi.append(f"  {now} = phi {type_} {edges}")
        self.branch(holds(following), body, end)
        self.label(end)
        return self.value(f"phi {type_} {edges}")

    @contextmanager
    def again(self, holds: Callable[[], str], labels: Sequence[str]) -> Generator[None]:
        """What is written inside runs for as long as a condition holds, which is computed first."""
        head, body, end = (self.name(n) for n in labels)
        self.jump(head)
        self.label(head)
        self.branch(holds(), body, end)
        self.label(body)
        yield
        self.jump(head)
        self.label(end)

    def another(self) -> Self:
        """The writer of another function of the same module."""
        return type(self)(self.text)

    def names(self) -> set[str]:
        """Of all values that stand in the function."""
        return set(NAME.findall(self.body()))

    def body(self) -> str:
        """The lines of the function as they are so far."""
        return "\n".join(flat(self.arrays + self.head + self.lines))

    def function(self, header: str, attributes: str = "#0", last: str = "ret void") -> str:
        """The finished function, after its last instruction."""
        if self.listener is not None:
            self.listener.ended(header.partition("@")[2].partition("(")[0])
        return f"define {header} {attributes} {{\nentry:\n{self.body()}\n  {last}\n}}"


def hidden(w: FunctionWriter, x: str, into: Lines) -> str:
    """A number that LLVM knows nothing of."""
    return w.value(f'call i64 asm "", "=r,0"(i64 {x})', into)


def declaration(name: str, parameters: str) -> str:
    """Of a function that another module has, with parameters as they are defined there."""
    types = ", ".join(parameter.rsplit(" ", 1)[0] for parameter in parameters.split(", "))
    return f"declare void @{name}({types})"


def _bytes(type_: str) -> int:
    """How many bytes an array takes: of numbers, or of vectors of such."""
    *counts, element = type_.replace("<", "").strip("[]>").split(" x ")
    width = int(element[1:]) // 8 if element[0] == "i" else WIDTHS[element]
    return prod(map(int, counts)) * max(1, width)


def _is_below(start: str, stop: str) -> bool:
    """Whether both are numbers, the first less than the second."""
    return start.isdecimal() and stop.isdecimal() and int(start) < int(stop)


def flat(lines: Lines) -> Iterator[str]:
    """All lines in order."""
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from flat(line)
