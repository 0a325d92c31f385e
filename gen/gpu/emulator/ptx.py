"""The text of PTX as functions of instructions, with nothing interpreted yet.

The grammar is the part of the PTX ISA that kernels use: entries and functions, declarations of
registers, parameters and arrays, labels, predicates and instructions. A text that has anything
else is an error that shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlvm.base.errors import CompilerError

BITS = {"pred": 1} | {f"{kind}{n}": n for kind in "bsuf" for n in (8, 16, 32, 64)}
"""The bits of a type. A register has no other type; instructions say how they read it."""

COMMENT = re.compile(r"//[^\n]*")
HEAD = re.compile(r"\.version\s+\S+\s+\.target\s+\w+\s+\.address_size 64\s")
TABLE = re.compile(
    r"\s*\.global\s+\.align\s+(\d+)\s+\.b(\d+)\s+([\w$]+)\[(\d+)\] = \{(.*?)\};", re.S
)
FUNCTION = re.compile(
    r"\s*(?:\.visible\s+)?\.(entry|func)\s+(?:\((.*?)\)\s*)?([\w$]+)\s*\((.*?)\)([^{;]*)", re.S
)
PARAMETER = re.compile(
    r"\.param(?: \.align (\d+))? \.(\w+)( \.ptr \.align (\d+))?\s+([\w$]+)(?:\[(\d+)\])?$"
)
REGISTERS = re.compile(r"\.reg \.(\w+)\s+(%?\w+)(?:<(\d+)>)?$")
ARRAY = re.compile(r"\.(shared|local) \.align (\d+) \.b8\s+([\w$]+)\[(\d+)\]$")
THREADS = re.compile(r"\.reqntid (\d+)\b")
LABEL = re.compile(r"([$\w]+):")
STATEMENT = re.compile(r"[^;]*;")
PREDICATED = re.compile(r"@(!?)(%?\w+)\s+(.*)", re.S)
NAME = re.compile(r"(?<![\w$%.])[A-Za-z][\w$]*")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its bytes, and the alignment that is promised of an address, 0 for a number."""

    name: str
    bytes: int
    align: int


@dataclass(frozen=True, slots=True)
class SharedArray:
    """An array of a block (``shared``), of a thread (``local``) or of the module."""

    name: str
    align: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@predicate opcode operands;``. A predicate is empty, or a register, or one after ``!``."""

    text: str
    predicate: str
    opcode: str
    operands: tuple[str, ...]


@dataclass
class Function:
    """An entry, or a function that others call; ``body`` has labels between its instructions.

    ``prefixes`` are the registers that are declared by number, ``registers`` those by name, with
    their bits. ``slots`` are the parameters of calls inside.
    """

    name: str
    entry: bool
    lanes: int
    results: Sequence[Parameter]
    parameters: Sequence[Parameter]
    body: list[Instruction | str] = field(default_factory=list["Instruction | str"])
    prefixes: dict[str, int] = field(default_factory=dict[str, int])
    registers: dict[str, int] = field(default_factory=dict[str, int])
    slots: list[Parameter] = field(default_factory=list[Parameter])
    shared: list[SharedArray] = field(default_factory=list[SharedArray])
    local: list[SharedArray] = field(default_factory=list[SharedArray])

    def bits(self, register: str) -> int:
        """Of a register; 0 where the operand is none."""
        return self.registers.get(register) or self.prefixes.get(register.rstrip("0123456789"), 0)

    def instructions(self) -> Iterator[Instruction]:
        """Those of the body."""
        return (s for s in self.body if isinstance(s, Instruction))


@dataclass(frozen=True)
class Module:
    """The functions of a text by their names, its shared arrays, and its tables with bytes."""

    functions: Mapping[str, Function]
    shared: Sequence[SharedArray]
    tables: Mapping[str, tuple[int, bytes]]


def parse(text: str) -> Module:
    """The module that a text states."""
    text = COMMENT.sub("", text)
    found = HEAD.search(text)
    if found is None:
        raise CompilerError(f"this is no module of PTX with addresses of 64 bits: {text[:80]!r}")
    at, functions, shared = found.end(), dict[str, Function](), list[SharedArray]()
    tables: dict[str, tuple[int, bytes]] = {}
    while text[at:].strip():
        if match := TABLE.match(text, at):
            align, bits, name, count, values = match.groups()
            width = int(bits) // 8
            held = b"".join(
                (int(v, 0) & ((1 << 8 * width) - 1)).to_bytes(width, "little")
                for v in values.split(",")
            )
            tables[name] = int(align), held.ljust(width * int(count), b"\0")
            at = match.end()
        elif match := FUNCTION.match(text, at):
            kind, results, name, listed, directives = match.groups()
            at = match.end()
            if text[at] == ";":
                at += 1
                continue
            lanes = THREADS.search(directives)
            work = _Body(
                Function(
                    name,
                    kind == "entry",
                    int(lanes[1]) if lanes else 0,
                    _parameters(results or ""),
                    _parameters(listed),
                )
            )
            at = work.read(text, at + 1)
            functions[name] = work.function
        else:
            match = STATEMENT.match(text, at)
            declared = ARRAY.match(_plain(match[0])) if match else None
            if match is None or declared is None:
                raise CompilerError(f"the emulator does not know: {text[at:].strip()[:80]!r}")
            shared.append(SharedArray(declared[3], int(declared[2]), int(declared[4])))
            at = match.end()
    return Module(functions, shared, tables)


def _plain(statement: str) -> str:
    """A statement in one line, without the semicolon."""
    return " ".join(statement.rstrip(";").split())


def _parameters(listed: str) -> list[Parameter]:
    return [_parameter(_plain(p)) for p in listed.split(",") if p.strip()]


def _parameter(text: str) -> Parameter:
    found = PARAMETER.match(text)
    if found is None:
        raise CompilerError(f"the emulator does not know the parameter: {text}")
    _, type_, pointer, align, name, count = found.groups()
    return Parameter(name, BITS[type_] // 8 * int(count or 1), int(align) if pointer else 0)


class _Body:
    """The statements of a function as they are read.

    Names that are declared in braces get the number of the braces, as others may have them too.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.scopes: list[dict[str, str]] = [{}]
        self.count = 0

    def read(self, text: str, at: int) -> int:
        """Reads behind the first brace; where the last one ends."""
        while self.scopes:
            while text[at].isspace():
                at += 1
            if text[at] == "{":
                self.scopes.append({})
                self.count += 1
                at += 1
            elif text[at] == "}":
                self.scopes.pop()
                at += 1
            elif match := LABEL.match(text, at):
                self.function.body.append(match[1])
                at = match.end()
            elif match := STATEMENT.match(text, at):
                self._statement(_plain(match[0]))
                at = match.end()
            else:
                raise CompilerError(f"@{self.function.name}: PTX that does not end")
        return at

    def _statement(self, text: str) -> None:
        f = self.function
        if not text.startswith("."):
            named = NAME.sub(self._named, text) if any(self.scopes) else text
            f.body.append(instruction(named))
        elif match := REGISTERS.match(text):
            type_, name, many = match.groups()
            own = name if name.startswith("%") else self._own(name, "%")
            (f.prefixes if many else f.registers)[own] = BITS[type_]
        elif match := ARRAY.match(text):
            place, align, name, count = match.groups()
            (f.shared if place == "shared" else f.local).append(
                SharedArray(name, int(align), int(count))
            )
        elif text.startswith(".param"):
            found = _parameter(text)
            f.slots.append(replace(found, name=self._own(found.name)))
        else:
            raise CompilerError(f"@{f.name}: the emulator does not know: {text}")

    def _own(self, name: str, sign: str = "") -> str:
        own = f"{sign}{name}.{self.count}" if len(self.scopes) > 1 else sign + name
        self.scopes[-1][name] = own
        return own

    def _named(self, found: re.Match[str]) -> str:
        for scope in reversed(self.scopes):
            if found[0] in scope:
                return scope[found[0]]
        return found[0]


def instruction(text: str) -> Instruction:
    """One instruction, without its semicolon."""
    found, predicate, rest = PREDICATED.match(text), "", text
    if found:
        predicate, rest = found[1] + found[2], found[3]
    opcode, _, listed = rest.partition(" ")
    return Instruction(text, predicate, opcode, tuple(_split(listed)))


def _split(listed: str) -> Iterator[str]:
    """Operands between commas that stand in no brackets."""
    depth, start = 0, 0
    for i, c in enumerate(listed):
        depth += (c in "{[(") - (c in "}])")
        if c == "," and depth == 0:
            yield listed[start:i].strip()
            start = i + 1
    if listed.strip():
        yield listed[start:].strip()


def inner(operand: str) -> list[str]:
    """The operands in the braces or brackets of one, or itself."""
    return list(_split(operand[1:-1])) if operand[:1] in ("{", "(") else [operand]
