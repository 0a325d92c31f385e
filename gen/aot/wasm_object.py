"""Reads a relocatable object file for WebAssembly, as LLVM writes it.

The format is that of the core specification and of ``Linking.md`` in the WebAssembly tool
conventions. What a static object for one module of 32-bit memory never has is refused by name:
64-bit or shared memory, thread-local data, constructors, passive segments, start functions.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

from .wasm_format import END, FUNCTYPE, HEADER, I32_CONST, Reader, malformed

CUSTOM, TYPE, IMPORT, FUNCTION, ELEMENT, CODE, DATA, DATA_COUNT = 0, 1, 2, 3, 9, 10, 11, 12
FUNCTIONS, DATAS, GLOBALS, SECTIONS, TAGS, TABLES = range(6)
"""Kinds of symbols."""
LOCAL, UNDEFINED, EXPLICIT_NAME, ABSOLUTE = 0x2, 0x10, 0x40, 0x200
"""Flags of symbols."""
THREAD_LOCAL = 2
"""A flag of a segment."""
WITH_ADDEND = {3, 4, 5, 8, 9, 11, 14, 15, 16, 17, 21, 22, 23, 25}
"""Types of relocations that have an addend."""


class Symbol(NamedTuple):
    """A name of the object; ``number`` is the segment of data, or the index of what it names."""

    kind: int
    name: str
    flags: int
    number: int
    offset: int = 0

    @property
    def undefined(self) -> bool:
        """Whether another file would have to define it."""
        return bool(self.flags & UNDEFINED)

    @property
    def public(self) -> bool:
        """Whether the object defines it for others."""
        return not self.flags & (UNDEFINED | LOCAL)


class Relocation(NamedTuple):
    """A place in the bytes of a section that depends on a symbol, or on a type."""

    kind: int
    offset: int
    number: int
    addend: int


@dataclass(frozen=True)
class Piece:
    """A function's body or a segment of data, which starts at ``start`` of its section."""

    start: int
    content: bytes
    relocations: list[Relocation] = field(default_factory=list[Relocation])


class Segment(NamedTuple):
    """What the linking section says of a segment of data; the alignment is a power of two."""

    name: str
    alignment: int
    flags: int


@dataclass
class Object:
    """All that a module is made of. Imported functions have the first indices."""

    types: list[bytes] = field(default_factory=list[bytes])
    imports: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    imported_globals: list[str] = field(default_factory=list[str])
    imported_tables: list[str] = field(default_factory=list[str])
    functions: list[int] = field(default_factory=list[int])
    code: list[Piece] = field(default_factory=list[Piece])
    data: list[Piece] = field(default_factory=list[Piece])
    segments: list[Segment] = field(default_factory=list[Segment])
    symbols: list[Symbol] = field(default_factory=list[Symbol])
    features: bytes | None = None


def read(content: bytes) -> Object:
    """The parts of an object file; any bytes that are none raise ``malformed``."""
    if content[: len(HEADER)] != HEADER:
        raise malformed("it does not start as a binary of version 1")
    out, kinds = Object(), list[int]()
    reader = Reader(content, "the file", len(HEADER))
    while reader.more:
        kinds.append(reader.byte())
        _section(kinds, reader.sized(), out)
    _check(out)
    return out


def _section(kinds: list[int], content: bytes, out: Object) -> None:
    """One section; an element section is skipped, as relocations say what is in the table."""
    reader = Reader(content, f"section {kinds[-1]}")
    match kinds[-1]:
        case 0:
            _custom(kinds, reader, out)
        case 1:
            out.types += [_type(reader) for _ in range(reader.unsigned())]
        case 2:
            for _ in range(reader.unsigned()):
                _import(reader, out)
        case 3:
            out.functions += [reader.unsigned() for _ in range(reader.unsigned())]
        case 10:
            out.code += [_piece(reader) for _ in range(reader.unsigned())]
        case 11:
            out.data += [_segment(reader) for _ in range(reader.unsigned())]
        case 9 | 12:
            pass
        case kind:
            raise malformed(f"it has a section of kind {kind}")


def _type(reader: Reader) -> bytes:
    """A function's type, as its bytes."""
    start = reader.at
    reader.exactly(FUNCTYPE, "the form of a type")
    reader.sized()
    reader.sized()
    return reader.data[start : reader.at]


def _import(reader: Reader, out: Object) -> None:
    """An import: a function, the table, the memory or a global."""
    reader.name()
    name, kind = reader.name(), reader.byte()
    match kind:
        case 0:
            out.imports.append((name, reader.unsigned()))
        case 1:
            reader.byte()
            _limits(reader)
            out.imported_tables.append(name)
        case 2:
            _limits(reader)
        case 3:
            reader.take(2)
            out.imported_globals.append(name)
        case _:
            raise malformed(f"it imports {name}, of kind {kind}")


def _limits(reader: Reader) -> None:
    """The limits of a table or memory, which stays in 32 bits and belongs to one thread."""
    flags = reader.byte()
    if flags > 1:
        raise malformed(f"a memory or table has the flags {flags}: shared or of 64 bits")
    for _ in range(1 + flags):
        reader.unsigned()


def _piece(reader: Reader) -> Piece:
    """The body of a function."""
    size = reader.unsigned()
    return Piece(reader.at, reader.take(size))


def _segment(reader: Reader) -> Piece:
    """A segment of data; its address in the object is provisional."""
    reader.exactly(0, "the mode of a segment")
    reader.exactly(I32_CONST, "the address of a segment")
    reader.signed()
    reader.exactly(END, "the end of an address")
    return _piece(reader)


def _custom(kinds: list[int], reader: Reader, out: Object) -> None:
    """A custom section: symbols, relocations or features; others, as debug data, are left out."""
    name = reader.name()
    reader.where = f"the section {name}"
    if name == "linking":
        _linking(reader, out)
    elif name.startswith("reloc."):
        _relocations(kinds, reader, out)
    elif name == "target_features":
        out.features = reader.data


def _linking(reader: Reader, out: Object) -> None:
    """Symbols, and the alignment of segments; version 2 is the only one there is."""
    reader.exactly(2, "the version")
    while reader.more:
        kind, part = reader.byte(), Reader(reader.sized(), reader.where)
        match kind:
            case 5:
                out.segments += [_alignment(part) for _ in range(part.unsigned())]
            case 6 if part.unsigned():
                raise malformed("it has functions to be run at its start")
            case 8:
                out.symbols += [_symbol(part, out) for _ in range(part.unsigned())]
            case _:
                pass


def _alignment(reader: Reader) -> Segment:
    """The record of a segment; no array of ours asks for more than a page of 64 KiB."""
    name, power, flags = reader.name(), reader.unsigned(), reader.unsigned()
    if power > 16:
        raise malformed(f"the segment {name} is aligned to 2**{power} bytes")
    if flags & THREAD_LOCAL:
        raise malformed(f"the segment {name} is data of a thread's own")
    return Segment(name, 1 << power, flags)


def _symbol(reader: Reader, out: Object) -> Symbol:
    """A symbol; an undefined one may leave its name to its import."""
    kind, flags = reader.byte(), reader.unsigned()
    if kind == DATAS:
        name = reader.name()
        place = (0, 0, 0) if flags & UNDEFINED else [reader.unsigned() for _ in range(3)]
        return Symbol(kind, name, flags, place[0], place[1])
    index = reader.unsigned()
    if kind == SECTIONS:
        return Symbol(kind, "", flags, index)
    if kind not in (FUNCTIONS, GLOBALS, TABLES):
        raise malformed(f"a symbol has the kind {kind}")
    if flags & UNDEFINED and not flags & EXPLICIT_NAME:
        return Symbol(kind, _imported(kind, index, out), flags, index)
    return Symbol(kind, reader.name(), flags, index)


def _imported(kind: int, index: int, out: Object) -> str:
    """The name of an import."""
    functions = [name for name, _ in out.imports]
    names = {FUNCTIONS: functions, GLOBALS: out.imported_globals, TABLES: out.imported_tables}
    if index >= len(names[kind]):
        raise malformed(f"a symbol stands for import {index} of {len(names[kind])}")
    return names[kind][index]


def _relocations(kinds: list[int], reader: Reader, out: Object) -> None:
    """The relocations of code or data, each given to the piece that it lies in."""
    target = reader.unsigned()
    kind = kinds[target] if target < len(kinds) else CUSTOM
    if kind not in (CODE, DATA):
        return
    pieces = out.code if kind == CODE else out.data
    starts = [piece.start for piece in pieces]
    for _ in range(reader.unsigned()):
        kind, offset, index = reader.byte(), reader.unsigned(), reader.unsigned()
        addend = reader.signed() if kind in WITH_ADDEND else 0
        at = bisect_right(starts, offset) - 1
        if at < 0:
            raise malformed("a relocation lies outside of code and data")
        pieces[at].relocations.append(Relocation(kind, offset, index, addend))


def _check(out: Object) -> None:
    """What one section says must fit what another has."""
    if len(out.code) != len(out.functions):
        raise malformed(f"it declares {len(out.functions)} functions and has {len(out.code)}")
    if len(out.data) != len(out.segments):
        raise malformed(f"it describes {len(out.segments)} segments and has {len(out.data)}")
    if any(index >= len(out.types) for index in out.functions):
        raise malformed("a function has a type that is not there")
    for symbol in out.symbols:
        if not symbol.undefined:
            _check_symbol(symbol, out)


def _check_symbol(symbol: Symbol, out: Object) -> None:
    """A symbol that the object defines stands for a function or for data of the object."""
    match symbol.kind:
        case 0:
            good = 0 <= symbol.number - len(out.imports) < len(out.code)
        case 1:
            absolute = symbol.flags & ABSOLUTE
            good = not absolute and symbol.number < len(out.data)
        case 3:
            good = True
        case _:
            good = False
    if not good:
        raise malformed(f"the symbol {symbol.name} stands for nothing in it")
