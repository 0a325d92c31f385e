"""The tables of a module in MLIR's bytecode: texts, names of operations, entries and properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from dlvm.base.errors import UserError

from .cursor import Cursor, damaged

MAGIC = b"ML\xefR"
"""How MLIR's bytecode begins."""
NEWEST = 6
"""The newest version of MLIR's bytecode that is read."""
TEXTS, DIALECTS, ENTRIES, OFFSETS, OPERATIONS, PROPERTIES = 0, 1, 2, 3, 4, 8
"""The numbers of the sections that are read."""
LAZY, ORDERED, SHORT, NATIVE = 2, 3, 4, 5
"""The versions from which on bodies are sections of their own, uses have an order, places of
parameters may be left out, and properties have a section."""


@dataclass(frozen=True)
class Entry:
    """An attribute or a type, not yet read: its dialect, its bytes, and if they are in code."""

    dialect: str
    data: Cursor
    coded: bool


@dataclass(frozen=True)
class Tables:
    """What a module holds beside its operations."""

    version: int
    texts: Sequence[str]
    names: Sequence[str]
    attributes: Sequence[Entry]
    types: Sequence[Entry]
    properties: Sequence[Cursor]


def opened(data: bytes) -> tuple[Tables, Cursor]:
    """The tables of a module, and a cursor over its operations."""
    cursor = Cursor(data, 0, len(data))
    if cursor.raw(4) != MAGIC:
        raise damaged("they do not begin as MLIR's bytecode does")
    version = cursor.number()
    if version > NEWEST:
        raise UserError(
            f"stablehlo.load: expected MLIR's bytecode of version {NEWEST} or less, "
            f"found version {version}",
            remedy="give it the text of the module",
        )
    cursor.word()
    found: dict[int, Cursor] = {}
    while cursor.left:
        kind, part = cursor.section()
        found[kind] = part
    for needed in (TEXTS, DIALECTS, ENTRIES, OFFSETS, OPERATIONS):
        if needed not in found:
            raise damaged(f"section {needed} is missing")
    texts = _texts(found[TEXTS])
    dialects, names = _names(found[DIALECTS], texts, version)
    attributes, types = _entries(found[OFFSETS], found[ENTRIES], dialects)
    properties = _properties(found[PROPERTIES]) if PROPERTIES in found else []
    return Tables(version, texts, names, attributes, types, properties), found[OPERATIONS]


T = TypeVar("T")


def at(table: Sequence[T], index: int, what: str) -> T:
    """An element of a table."""
    if not 0 <= index < len(table):
        raise damaged(f"it asks for {what} {index} of {len(table)}")
    return table[index]


def _texts(cursor: Cursor) -> list[str]:
    """The lengths come first, the last one first; each counts the zero at the end."""
    lengths = cursor.list()[::-1]
    return [cursor.raw(n)[:-1].decode("utf-8", "replace") for n in lengths]


def _names(cursor: Cursor, texts: Sequence[str], version: int) -> tuple[list[str], list[str]]:
    """The dialects, and the operations with the names of their dialects before them."""
    dialects: list[str] = []
    for _ in range(cursor.count("dialects")):
        index, versioned = cursor.flagged() if version else (cursor.number(), False)
        if versioned:
            cursor.section()
        dialects.append(at(texts, index, "text"))
    if version >= SHORT:
        cursor.number()
    names: list[str] = []
    while cursor.left:
        dialect = at(dialects, cursor.number(), "dialect")
        for _ in range(cursor.count("operations")):
            index = cursor.flagged()[0] if version >= NATIVE else cursor.number()
            names.append(f"{dialect}.{at(texts, index, 'text')}")
    return dialects, names


def _entries(
    offsets: Cursor, data: Cursor, dialects: Sequence[str]
) -> tuple[list[Entry], list[Entry]]:
    counts = offsets.number(), offsets.number()
    attributes, types = (_grouped(offsets, data, dialects, n) for n in counts)
    return attributes, types


def _grouped(offsets: Cursor, data: Cursor, dialects: Sequence[str], count: int) -> list[Entry]:
    """Entries in groups of one dialect."""
    found: list[Entry] = []
    while len(found) < count:
        dialect = at(dialects, offsets.number(), "dialect")
        for _ in range(offsets.count("entries")):
            size, coded = offsets.flagged()
            found.append(Entry(dialect, data.part(size), coded))
    return found


def _properties(cursor: Cursor) -> list[Cursor]:
    return [cursor.part(cursor.number()) for _ in range(cursor.count("properties"))]
