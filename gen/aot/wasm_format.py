"""Reads and writes the elements of WebAssembly's binary format: numbers, vectors, sections.

The format is that of the core specification, chapter 5. Whatever bytes a reader gets, it returns
what they mean or raises the one error ``malformed``.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm.base.errors import CompilerError

HEADER = b"\0asm\1\0\0\0"
I32 = 0x7F
FUNCTYPE = 0x60
END = 0x0B
I32_CONST = 0x41


def malformed(what: str) -> CompilerError:
    """The error for bytes that are not an object file as LLVM writes it."""
    return CompilerError(f"the object file for WebAssembly is malformed: {what}")


class Reader:
    """Reads bytes in order, from ``at`` on; ``where`` names them in messages."""

    def __init__(self, data: bytes, where: str, at: int = 0) -> None:
        self.data, self.where, self.at = data, where, at

    @property
    def more(self) -> bool:
        """Whether bytes are left."""
        return self.at < len(self.data)

    def take(self, count: int) -> bytes:
        """The next bytes as they are."""
        end = self.at + count
        if end > len(self.data):
            raise malformed(f"{self.where} ends too early")
        taken, self.at = self.data[self.at : end], end
        return taken

    def byte(self) -> int:
        """The next byte."""
        return self.take(1)[0]

    def unsigned(self) -> int:
        """An unsigned LEB128 number of 32 bits."""
        value = self._leb()[0]
        if value >> 32:
            raise malformed(f"a number of {self.where} exceeds 32 bits")
        return value

    def signed(self) -> int:
        """A signed LEB128 number of 32 bits."""
        value, bits = self._leb()
        value -= (value >> (bits - 1)) << bits
        if not -(1 << 31) <= value < 1 << 31:
            raise malformed(f"a number of {self.where} exceeds 32 bits")
        return value

    def _leb(self) -> tuple[int, int]:
        """The groups of 7 bits, at most five, as one number, and how many bits they are."""
        value = 0
        for bits in range(0, 35, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << bits
            if byte < 0x80:
                return value, bits + 7
        raise malformed(f"a number of {self.where} has more than five bytes")

    def sized(self) -> bytes:
        """Bytes after their number."""
        return self.take(self.unsigned())

    def name(self) -> str:
        """A name in UTF-8 after its length."""
        try:
            return self.sized().decode("utf8")
        except UnicodeDecodeError:
            raise malformed(f"a name of {self.where} is not UTF-8") from None

    def exactly(self, expected: int, what: str) -> None:
        """The next byte, which can only be the expected one."""
        found = self.byte()
        if found != expected:
            raise malformed(f"{what} of {self.where} is {found}, expected {expected}")


def unsigned(value: int) -> bytes:
    """The shortest unsigned LEB128 form of a number."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def signed(value: int) -> bytes:
    """The shortest signed LEB128 form of a number."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value & 0x7F))


def sized(content: bytes) -> bytes:
    """Bytes after their number."""
    return unsigned(len(content)) + content


def vector(items: Iterable[bytes]) -> bytes:
    """Items after their number."""
    items = list(items)
    return unsigned(len(items)) + b"".join(items)


def section(kind: int, content: bytes) -> bytes:
    """A section of a module."""
    return bytes((kind,)) + sized(content)


def i32_const(value: int) -> bytes:
    """The constant expression of a 32-bit word, given as an unsigned number."""
    return bytes((I32_CONST,)) + signed(as_signed(value)) + bytes((END,))


def as_signed(value: int) -> int:
    """The signed number that the low 32 bits of a number stand for."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
