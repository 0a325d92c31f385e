"""Accesses to memory of a function of PTX, each checked, as lines of LLVM."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dlvm.base.errors import CompilerError

from .lines import Lines
from .memory import ATOMIC, READ, READ_CONSTANT, WRITE
from .ptx import BITS, Instruction, inner

LOCAL = 1 << 10
"""Where the array of a thread begins, in a space of its own."""
ADDRESS = re.compile(r"\[([%$\w.]+?)(?:\+(-?\d+))?\]$")
ACCESS = re.compile(
    r"(ld|st)(?:\.(param|global|shared|local))?(\.nc)?(?:\.v([24]))?\.([bsuf](?:8|16|32|64))"
)
SWAP = re.compile(r"atom(?:\.relaxed)?(?:\.(?:sys|gpu|cta))?\.global\.cas\.b(32|64)")
COPY = re.compile(r"cp\.async\.c[ag]\.shared\.global")


class Accesses:
    """What reads and writes memory in one function.

    ``bytes`` are the sizes of parameters that lie in memory, ``given`` the values of the
    function's own; ``sites`` collects instructions that a fault may name.
    """

    def __init__(
        self,
        lines: Lines,
        bytes: Mapping[str, int],
        given: Mapping[str, str],
        sites: list[Instruction],
    ) -> None:
        self.lines, self.function = lines, lines.function
        self.bytes, self.given, self.sites = bytes, given, sites

    def site(self, i: Instruction) -> int:
        """The number of an instruction."""
        self.sites.append(i)
        return len(self.sites) - 1

    def access(
        self,
        i: Instruction,
        how: str,
        space: str | None,
        constant: str | None,
        count: str | None,
        type_: str,
    ) -> None:
        """A load or a store of one register or of several."""
        w, width, writes = self.lines, BITS[type_] // 8, how == "st"
        address, registers = (i.operands if writes else i.operands[::-1])[:2]
        listed = inner(registers)
        if len(listed) != int(count or 1) or (constant and (writes or space != "global")):
            raise CompilerError(f"the emulator cannot read: {i.text}")
        if space == "param" and self.function.entry and _split_address(address)[0] in self.given:
            w.same(listed[0], self._parameter(address, 8 * width), type_)
            return
        mode = WRITE if writes else (READ_CONSTANT if constant else READ)
        place = self._place(i, space or "global", address, width * len(listed), mode)
        for n, register in enumerate(listed):
            at = w.let(f"getelementptr i8, ptr {place}, i64 {n * width}") if n else place
            if writes:
                value = w.bits(register, 8 * width)
                w.line(f"store i{8 * width} {value}, ptr {at}, align {width}")
            else:
                loaded = f"load i{8 * width}, ptr {at}, align {width}"
                w.put(register, loaded, type_, type_[0] == "s")

    def _parameter(self, address: str, bits: int) -> str:
        """A parameter of a kernel, which is a word."""
        name, offset = _split_address(address)
        if offset:
            raise CompilerError(f"the emulator does not know parameters with parts: {address}")
        value = self.given[name]
        return value if bits == 64 else self.lines.let(f"trunc i64 {value} to i{bits}")

    def _place(self, i: Instruction, space: str, operand: str, size: int, mode: int) -> str:
        """Where an access goes, once it is checked."""
        w = self.lines
        if space == "param":
            name, offset = _split_address(operand)
            if name not in self.bytes or not 0 <= offset <= self.bytes[name] - size:
                raise CompilerError(f"the emulator does not know the parameter of: {i.text}")
            return w.let(f"getelementptr i8, ptr %{name}.memory, i64 {offset}")
        address, site = self._address(operand), self.site(i)
        if space == "local":
            (array,) = self.function.local
            at = w.let(f"sub i64 {address}, {LOCAL + array.align}")
            told = f"i64 {at}, i64 {array.bytes}, i64 {size}, i64 {site}"
            index = w.let(f"call i64 @emu.local(ptr %emu.c, {told})")
            return w.let(f"getelementptr i8, ptr %emu.local, i64 {index}")
        told = f"i64 {address}, i64 {size}, i64 {mode}, i64 {site}"
        return w.let(f"call ptr @emu.{space}(ptr %emu.c, {told})")

    def _address(self, operand: str) -> str:
        w = self.lines
        name, offset = _split_address(operand)
        bits = self.function.bits(name) or 64
        base = w.bits(name, bits)
        if bits < 64:
            base = w.let(f"zext i{bits} {base} to i64")
        return w.let(f"add i64 {base}, {offset}") if offset else base

    def swap(self, i: Instruction, bits: int) -> None:
        """One number takes another's place if it is what is expected."""
        w = self.lines
        result, address, expected, new = i.operands
        place = self._place(i, "global", address, bits // 8, ATOMIC)
        values = f"i{bits} {w.bits(expected, bits)}, i{bits} {w.bits(new, bits)}"
        pair = w.let(f"cmpxchg ptr {place}, {values} monotonic monotonic")
        w.put(result, f"extractvalue {{ i{bits}, i1 }} {pair}, 0", f"b{bits}")

    def copy(self, i: Instruction) -> None:
        """A copy that lands when the thread waits for it."""
        w = self.lines
        target, source, count = i.operands
        size = int(count)
        read = self._place(i, "global", source, size, READ)
        site = self.site(i)
        told = f"i64 {self._address(target)}, ptr {read}, i64 {size}, i64 {site}"
        w.line(f"call void @emu.ask(ptr %emu.c, {told})")


def _split_address(operand: str) -> tuple[str, int]:
    found = ADDRESS.match(operand)
    if found is None:
        raise CompilerError(f"the emulator cannot read the address {operand}")
    return found[1], int(found[2] or 0)
