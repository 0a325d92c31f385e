"""The LLVM lines of an emulated function: registers of PTX, operands, and results of a type.

A register is an integer of its bits, as in PTX, where instructions say how they read it. One that
is written once, and read in the same block only, is a value of LLVM, any other a slot of memory,
which LLVM makes values of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from dlvm.base.errors import CompilerError

from .memory import BLOCK, BLOCKS, LANE
from .ptx import BITS, Function, Instruction, inner

FLOATS = {"f16": "half", "f32": "float", "f64": "double"}
PAIRS = {"f32x2": "<2 x float>", "s16x2": "<2 x i16>", "u16x2": "<2 x i16>"}
TYPES = {t: f"i{n}" for t, n in BITS.items()} | FLOATS | PAIRS
"""The type of LLVM that an instruction of a type computes in."""
WIDTHS = BITS | {"f32x2": 64, "s16x2": 32, "u16x2": 32}
SPECIAL = {"%tid.x": LANE, "%ctaid.x": BLOCK, "%nctaid.x": BLOCKS}
"""Registers of the processor, and the word of a thread's record that holds each."""
LITERAL = re.compile(r"0[fd]([0-9A-Fa-f]+)$|(-?(?:0x[0-9A-Fa-f]+|\d+))U?$")
REGISTER = re.compile(r"%[\w.]+")
UNWRITTEN = 0x7FF5A5A57FC5A5A5
"""What a register holds that nothing has written: no number, to who reads 32 or 64 bits of it."""
NO_RESULT = ("st", "bra", "bar", "ret", "call", "cp", "exit")


def literal(operand: str) -> int | None:
    """The number that an operand is, as bits, or None."""
    found = LITERAL.match(operand)
    if found is None:
        return None
    return int(found[1], 16) if found[1] else int(found[2], 0)


def results(instruction: Instruction) -> list[str]:
    """The registers that an instruction writes."""
    if instruction.opcode.split(".")[0] in NO_RESULT or not instruction.operands:
        return []
    return [r for part in inner(instruction.operands[0]) for r in part.split("|")]


def _registers(function: Function) -> tuple[set[str], set[str]]:
    """The registers that are values of a block, and the others that are written."""
    block, written, others = 0, dict[str, int](), set[str]()
    for i in function.body:
        if isinstance(i, str):
            block += 1
            continue
        made = [r for r in results(i) if r != "_"]
        reads = i.operands[1:] if made else i.operands
        for r in REGISTER.findall(" ".join((i.predicate, *reads))):
            if written.get(r, block) != block or r not in written:
                others.add(r)
        for r in made:
            if r in written or i.predicate:
                others.add(r)
            written[r] = block
        if i.predicate or i.opcode.startswith("bra"):
            block += 1
    return set(written) - others, {r for r in others if r in written}


class Lines:
    """The lines of one function, in order; ``places`` are the addresses of its arrays."""

    def __init__(self, function: Function, places: Mapping[str, int]) -> None:
        self.function, self.places = function, places
        self.text: list[str] = []
        self.count = 0
        self.casts: dict[tuple[str, str], str] = {}
        """Registers as another type, in the block that is being written."""
        self.once, others = _registers(function)
        self.slots = {r: function.bits(r) for r in others}

    def declared(self) -> Iterator[str]:
        """The slots of registers that are written several times."""
        for register, bits in self.slots.items():
            yield f"  {register}.slot = alloca i{bits}"
            yield f"  store i{bits} {constant(UNWRITTEN, bits)}, ptr {register}.slot"

    def name(self) -> str:
        """A value that no other line has."""
        self.count += 1
        return f"%emu.{self.count}"

    def let(self, expression: str) -> str:
        """A value that an expression gives."""
        name = self.name()
        self.text.append(f"  {name} = {expression}")
        return name

    def line(self, text: str) -> None:
        """A line without a value."""
        self.text.append(f"  {text}")

    def label(self, name: str) -> None:
        """The start of a block."""
        self.text.append(f"{name}:")
        self.casts.clear()

    # -- operands --------------------------------------------------------------------------

    def bits(self, operand: str, bits: int) -> str:
        """An operand as an integer of some bits, which may be fewer than its register has."""
        number = literal(operand)
        if number is None:
            number = self.places.get(operand)
        if number is not None:
            return constant(number, bits)
        if operand in SPECIAL:
            return self.let(f"trunc i64 {self.word(SPECIAL[operand])} to i{bits}")
        if operand == "%ntid.x":
            return constant(self.function.lanes, bits)
        has = self.function.bits(operand)
        if not has or has < bits:
            raise CompilerError(f"{operand} is no register of {bits} bits")
        return self._narrow(self._register(operand, has), has, bits)

    def _register(self, register: str, bits: int) -> str:
        if register in self.slots:
            return self.let(f"load i{bits}, ptr {register}.slot")
        return register if register in self.once else constant(UNWRITTEN, bits)

    def _narrow(self, value: str, has: int, bits: int) -> str:
        return value if has == bits else self.let(f"trunc i{has} {value} to i{bits}")

    def read(self, operand: str, type_: str) -> str:
        """An operand as an instruction of a type reads it."""
        bits, wanted = WIDTHS[type_], TYPES[type_]
        if wanted == f"i{bits}":
            return self.bits(operand, bits)
        key, kept = (operand, type_), operand in self.once
        if kept and key in self.casts:
            return self.casts[key]
        value = self.bits(operand, bits)
        if literal(operand) is not None:
            return f"bitcast (i{bits} {value} to {wanted})"
        found = self.let(f"bitcast i{bits} {value} to {wanted}")
        if kept:
            self.casts[key] = found
        return found

    # -- results ---------------------------------------------------------------------------

    def put(self, register: str, expression: str, type_: str, signed: bool = False) -> None:
        """A register takes what an expression gives, extended where the register has more bits."""
        if register == "_":
            return
        bits, made, has = WIDTHS[type_], TYPES[type_], self.function.bits(register)
        if has < bits:
            raise CompilerError(f"{register} is no register of {bits} bits")
        if made != f"i{bits}":
            value = self.let(expression)
            if register in self.once:
                self.casts[register, type_] = value
            expression = f"bitcast {made} {value} to i{bits}"
        if has > bits:
            how = "sext" if signed else "zext"
            expression = f"{how} i{bits} {self.let(expression)} to i{has}"
        if register in self.slots:
            self.line(f"store i{has} {self.let(expression)}, ptr {register}.slot")
        else:
            self.text.append(f"  {register} = {expression}")

    def same(self, register: str, value: str, type_: str, signed: bool = False) -> None:
        """A register takes a value."""
        self.put(register, f"bitcast {TYPES[type_]} {value} to {TYPES[type_]}", type_, signed)

    # -- the record of the thread ----------------------------------------------------------

    def word(self, at: int) -> str:
        """A word of the record."""
        return self.let(f"load i64, ptr {self.let(f'getelementptr i64, ptr %emu.c, i64 {at}')}")

    def set_word(self, at: int, value: str) -> None:
        """Writes a word of the record."""
        place = self.let(f"getelementptr i64, ptr %emu.c, i64 {at}")
        self.line(f"store i64 {value}, ptr {place}")


def constant(number: int, bits: int) -> str:
    """The low bits of a number, as LLVM writes them."""
    if bits == 1:
        return "true" if number & 1 else "false"
    value = number & ((1 << bits) - 1)
    return str(value - (1 << bits) if value >> (bits - 1) else value)
