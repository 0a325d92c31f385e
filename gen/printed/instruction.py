"""One instruction of LLVM on single elements, taken apart: its word, operands and result.

The code of scalars, sizes and functions is written in these instructions, so a language that has
an expression for each of them has all of that code, with its bits. This file knows the syntax of
an instruction, and no language.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dlvm.base.errors import CompilerError

Operand: TypeAlias = tuple[str, str]
"""A type and a value."""
FLAGS = ("nsw", "nuw", "exact")


@dataclass(frozen=True, slots=True)
class Instruction:
    """``word`` is the instruction with its relation, or the function that is called."""

    word: str
    operands: tuple[Operand, ...]
    type: str
    """Of the result; "void" where there is none."""


def read(text: str) -> Instruction:
    """An instruction, without the name of its result."""
    word, _, rest = text.partition(" ")
    match word:
        case "icmp" | "fcmp":
            relation, _, rest = rest.partition(" ")
            return Instruction(f"{word}.{relation}", _alike(rest), "i1")
        case "select":
            each = _each(rest)
            return Instruction(word, each, each[1][0])
        case "call":
            return _call(rest)
        case "extractvalue" | "insertvalue":
            return _part(word, rest)
        case _ if " to " in rest:
            before, _, to = rest.rpartition(" to ")
            return Instruction(word, _each(before), to)
        case _:
            while rest.startswith(FLAGS):
                rest = rest.partition(" ")[2]
            found = _alike(rest)
            return Instruction(word, found, found[0][0])


def _alike(text: str) -> tuple[Operand, ...]:
    """Operands of one type, which stands before the first."""
    type_, _, values = text.partition(" ")
    if type_.startswith("<"):
        raise CompilerError(f"a vector where one element is printed: {text}")
    return tuple((type_, x) for x in values.split(", "))


def _each(text: str) -> tuple[Operand, ...]:
    """Operands that each have their type before them."""
    pieces: list[str] = []
    for piece in text.split(", ") if text else ():
        if pieces and pieces[-1].count("{") > pieces[-1].count("}"):
            pieces[-1] += f", {piece}"
        else:
            pieces.append(piece)
    return tuple(_typed(piece) for piece in pieces)


def _typed(text: str) -> Operand:
    type_, _, value = text.rpartition(" ")
    return type_, value


def _call(text: str) -> Instruction:
    result, _, rest = text.partition(" @")
    name, _, arguments = rest.partition("(")
    return Instruction(f"@{name}", _each(arguments.removesuffix(")")), result)


def _part(word: str, text: str) -> Instruction:
    """A part of a record is read or replaced; its number is the last operand."""
    rest, _, number = text.rpartition(", ")
    operands = (*_each(rest), ("", number))
    record = operands[0][0]
    result = record if word == "insertvalue" else fields(record)[int(number)]
    return Instruction(word, operands, result)


def fields(record: str) -> list[str]:
    """The types of the parts of a record, such as ``{ i32, float }``."""
    return record.strip("{} ").split(", ")
