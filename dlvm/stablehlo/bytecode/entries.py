"""The types and attributes of a module in VHLO, read where an operation asks for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir import DTYPES, TensorType
from dlvm.stablehlo.reading.attributes import shaped
from dlvm.stablehlo.reading.tree import unreadable

from .cursor import Cursor, damaged
from .sections import Entry, Tables, at

NONE = object()
"""The attribute for what an operation leaves out."""
ELEMENTS = {
    0: "bool", 2: "bf16", 3: "f16", 4: "f32", 5: "f64", 6: "f8E4M3FN", 7: "f8E5M2",
    10: "i4", 11: "i8", 12: "i16", 13: "i32", 14: "i64",
    15: "u4", 16: "u8", 17: "u16", 18: "u32", 19: "u64",
    27: "f8E4M3FNUZ", 28: "f8E5M2FNUZ", 29: "f8E4M3B11FNUZ", 31: "i2", 32: "u2", 34: "tf32",
    35: "f8E4M3", 36: "f8E3M4", 37: "f4E2M1FN", 38: "f6E2M3FN", 39: "f6E3M2FN", 40: "f8E8M0FNU",
}  # fmt: skip
"""The element types by the codes of VHLO."""
COMPLEX, RANKED, ENCODED, NO_TYPE = 1, 20, 21, 33
"""The codes of the other types that are read."""
OPEN = -(1 << 63)
"""The size that stands for an open one."""
WORDS: dict[int, tuple[str, ...]] = {
    3: ("EQ", "NE", "GE", "GT", "LE", "LT"),
    4: ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    7: ("FFT", "IFFT", "RFFT", "IRFFT"),
    11: ("DEFAULT", "HIGH", "HIGHEST"),
    12: ("DEFAULT", "THREE_FRY", "PHILOX"),
    16: ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
}
"""The attributes that are one of several words, by their codes."""
DICTIONARY, TEXT = 1, 2
"""The attributes of MLIR itself that are read: older modules keep attributes in dictionaries."""


class Entries:
    """Reads the types and attributes of one module."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._open: list[int] = []
        self._readers: dict[int, Callable[[Cursor], Any]] = {
            1: self._array,
            2: lambda c: bool(c.number()),
            6: self._dictionary,
            8: self._float,
            9: self._integer,
            14: lambda c: at(self._tables.texts, c.number(), "text"),
            15: self._tensor,
            17: self._type,
        }

    def type(self, index: int) -> TensorType:
        """A tensor type with known sizes."""
        cursor = self._coded(at(self._tables.types, index, "type"))
        code = cursor.number()
        if code == ENCODED:
            cursor.number()
        elif code != RANKED:
            raise unreadable(f"type {code} of VHLO", "it is no tensor")
        shape = cursor.signed_list()
        dtype = DTYPES.get(kind := self.element(cursor.number()))
        if dtype is None:
            raise unreadable(f"element type {kind}", "dlvm has no such type")
        if any(n < 0 for n in shape):
            sizes = "x".join("?" if n < 0 else str(n) for n in shape)
            raise UserError(
                f"stablehlo.load: the type tensor<{sizes}x{kind}> has an open size",
                remedy="export the function for arrays of known shapes",
            )
        return TensorType(dtype, tuple(shape))

    def element(self, index: int) -> str:
        """The name of an element type."""
        code = self._coded(at(self._tables.types, index, "type")).number()
        return "complex" if code == COMPLEX else ELEMENTS.get(code, f"{code} of VHLO")

    def attribute(self, index: int) -> Any:
        """An attribute in Python's own types."""
        if index in self._open:
            raise damaged(f"attribute {index} holds itself")
        if len(self._open) > 50:
            raise damaged("attributes hold one another more than 50 deep")
        self._open.append(index)
        try:
            return self._attribute(at(self._tables.attributes, index, "attribute"))
        finally:
            self._open.pop()

    def named(self, index: int) -> dict[str, Any]:
        """A dictionary of MLIR itself, in which older modules keep the attributes."""
        cursor = self._coded(at(self._tables.attributes, index, "attribute"))
        if cursor.number() != DICTIONARY:
            raise damaged("expected a dictionary of attributes")
        pairs = [(cursor.number(), cursor.number()) for _ in range(cursor.count("attributes"))]
        return {self._name(name): value for name, value in pairs}

    def _name(self, index: int) -> str:
        cursor = self._coded(at(self._tables.attributes, index, "attribute"))
        if cursor.number() != TEXT:
            raise damaged("expected the name of an attribute")
        return at(self._tables.texts, cursor.number(), "text")

    def _coded(self, entry: Entry) -> Cursor:
        if not entry.coded:
            raise unreadable("an entry in text", "it is no part of StableHLO")
        return entry.data.again()

    def _attribute(self, entry: Entry) -> Any:
        cursor = self._coded(entry)
        code = cursor.number()
        if entry.dialect != "vhlo":
            raise unreadable(f"an attribute of {entry.dialect}", "it is no part of StableHLO")
        if code in WORDS:
            return at(WORDS[code], cursor.number(), "word")
        return self._readers[code](cursor) if code in self._readers else NONE

    def _array(self, cursor: Cursor) -> list[Any]:
        return [self.attribute(i) for i in cursor.list()]

    def _dictionary(self, cursor: Cursor) -> dict[str, Any]:
        pairs = [(cursor.number(), cursor.number()) for _ in range(cursor.count("pairs"))]
        return {str(self.attribute(k)): self.attribute(v) for k, v in pairs}

    def _float(self, cursor: Cursor) -> float:
        kind = self.element(cursor.number())
        dtype = DTYPES.get(kind)
        if dtype is None or not dtype.is_float:
            raise damaged(f"a number of the type {kind}")
        bits = cursor.signed() & ((1 << dtype.bits) - 1)
        held = np.array(bits, f"u{dtype.bytes}").view(dtype.numpy)
        return float(held)

    def _integer(self, cursor: Cursor) -> int:
        kind = self.element(cursor.number())
        if kind[1:] in ("2", "4", "8"):
            found = cursor.byte()
            return found - 256 if kind[0] == "i" and found > 127 else found
        found = cursor.signed()
        return found % (1 << 64) if kind == "u64" else found

    def _tensor(self, cursor: Cursor) -> Any:
        """All elements, or one that stands for all."""
        t = self.type(cursor.number())
        raw = cursor.raw(cursor.number())
        dtype, total = t.dtype.numpy, math.prod(int(n) for n in t.shape)
        if len(raw) not in (dtype.itemsize, total * dtype.itemsize):
            raise damaged(f"{len(raw)} bytes for a constant of type {t}")
        return shaped(np.frombuffer(raw, dtype), t)

    def _type(self, cursor: Cursor) -> Any:
        return NONE
