"""Reads the numbers of MLIR's bytecode one after the other, and refuses to read past the end."""

from __future__ import annotations

from dlvm.base.errors import UserError

PADDING = 0xCB
"""The byte that MLIR writes to reach an aligned place."""


def damaged(why: str) -> UserError:
    """The error for bytes that are no module."""
    return UserError(
        f"stablehlo.load: the bytes are damaged: {why}",
        remedy="write them again with jax.export.export(f)(*args).serialize()",
    )


class Cursor:
    """A place in a part of the bytes. Offsets count from the start of the whole."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        self._at = start
        self._end = end

    @property
    def left(self) -> int:
        """Bytes that are left."""
        return self._end - self._at

    def raw(self, count: int) -> bytes:
        """The next bytes."""
        if not 0 <= count <= self.left:
            raise damaged(f"expected {count} bytes at {self._at}, found {self.left}")
        self._at += count
        return self._data[self._at - count : self._at]

    def again(self) -> Cursor:
        """Another cursor at the same place."""
        return Cursor(self._data, self._at, self._end)

    def part(self, count: int) -> Cursor:
        """A cursor over the next bytes, which are passed over."""
        start = self._at
        self.raw(count)
        return Cursor(self._data, start, self._at)

    def byte(self) -> int:
        """The next byte."""
        return self.raw(1)[0]

    def word(self) -> bytes:
        """The bytes before the next zero, which is passed over."""
        end = self._data.find(b"\0", self._at, self._end)
        if end < 0:
            raise damaged(f"the text at {self._at} has no end")
        found = self.raw(end - self._at)
        self.byte()
        return found

    def number(self) -> int:
        """An unsigned number: zeros at the end of its first byte count those that follow."""
        first = self.byte()
        if first == 0:
            return int.from_bytes(self.raw(8), "little")
        more = (first & -first).bit_length() - 1
        return (first | int.from_bytes(self.raw(more), "little") << 8) >> (more + 1)

    def signed(self) -> int:
        """A signed number, whose sign is the lowest bit."""
        found = self.number()
        return found >> 1 ^ -(found & 1)

    def flagged(self) -> tuple[int, bool]:
        """A number whose lowest bit is a flag, and the flag."""
        found = self.number()
        return found >> 1, bool(found & 1)

    def count(self, what: str) -> int:
        """How many things follow: each takes at least one byte."""
        found = self.number()
        if found > self.left:
            raise damaged(f"it announces {found} {what}, and only {self.left} bytes follow")
        return found

    def signed_list(self) -> list[int]:
        """Signed numbers behind their count."""
        return [self.signed() for _ in range(self.count("numbers"))]

    def list(self) -> list[int]:
        """Unsigned numbers behind their count."""
        return [self.number() for _ in range(self.count("numbers"))]

    def numbers(self) -> list[int]:
        """All unsigned numbers that are left."""
        found: list[int] = []
        while self.left:
            found.append(self.number())
        return found

    def section(self) -> tuple[int, Cursor]:
        """A section: its kind, and a cursor over what it holds."""
        head, length = self.byte(), self.number()
        if head & 0x80:
            self._align(self.number())
        return head & 0x7F, self.part(length)

    def _align(self, to: int) -> None:
        if to <= 0 or to & (to - 1):
            raise damaged(f"an alignment of {to} bytes")
        while self._at % to:
            if self.byte() != PADDING:
                raise damaged(f"expected padding at {self._at - 1}")
