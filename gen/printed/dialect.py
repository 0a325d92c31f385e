"""A language in which kernels are printed, as a table: types, expressions and forms of statements.

Integers are bits, printed as unsigned, whose sums wrap in every language; what is signed says so in
its expression. Another language of the C family, with blocks, lanes, shared arrays and barriers, is
one more table. Where a language has no pointers, a buffer is an array with the index of its first
element; where it has no short elements or long integers in memory, loads and stores have forms as
instructions have. This file knows what a table holds, and no language.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from .instruction import fields

SPELT = str.maketrans(".-", "__")
TYPE = re.compile(r"[iuf](8|16|32|64)")
"""Names of types in a language, as ``i32`` is in WGSL, which a variable of a loop may have."""


def spelt(name: str) -> str:
    """A name of LLVM code as one that languages take."""
    found = name.lstrip("%@").translate(SPELT)
    return f"{found}_" if TYPE.fullmatch(found) else found


@dataclass(frozen=True)
class Dialect:
    """One language.

    Each expression of ``forms`` is a template: ``{0}``, ``{1}`` and ``{2}`` are its operands, each
    which are names or constants, ``{T}`` is the type of the result and ``{F}`` that of the first
    operand, ``{S}`` the signed twin of the first and ``{U}`` that of the result. A form for a first
    operand of one type has that type behind its word: ``fpext.half``. Statements are templates as
    well, with the names that their descriptions give.

    A form for a first operand and a result of two types has both behind its word, as in
    ``zext.i1.i64``. One for operands that are the same value has ``same`` before the type, as in
    ``fcmp.oeq.same.float``, and one of which an operand is the number 0 ``zero``.
    A load or a store of an element has a form by its type and where it lies ("read" or "written"
    for buffers that a kernel only reads and others, "status" for the status), as in
    ``store.i8.written``; ``{a}`` is the array, ``{i}`` the index and ``{x}`` what is stored.
    """

    name: str
    """What ``target=`` and the stage of the text are called."""
    language: str
    """What the language is called in messages."""
    types: Mapping[str, str]
    """Its types, by those of LLVM; a type without an entry does not exist there."""
    signed: Mapping[str, str]
    """The signed integer types of a size."""
    absent: Mapping[str, str]
    """Why arrays of a type, by its name in dlvm, cannot be: for messages."""
    instead: str
    """The types to compute in where one is absent: for messages."""
    forms: Mapping[str, str]
    """By words, as above; ``@dlvm.claim`` says whether a lane is the first that fails."""
    constants: Mapping[str, str]
    """A constant by the types of LLVM: ``{x}`` are its digits, hexadecimal ones of a float, whose
    decimal ones are ``{decimal}``; or ``{low}`` its bits, with ``{high}`` where it has 64."""
    infinite: tuple[str, str]
    """Infinity and NaN, of a type ``{T}``."""
    head: str
    """What stands before all kernels."""
    let: str
    """A value that stays: ``{T}``, ``{name}``, ``{x}``."""
    variable: str
    """A value that changes: the same."""
    array: str
    """An array of the lane's own: ``{T}``, ``{name}``, ``{count}``."""
    shared: str
    """An array that the lanes of a block share: the same."""
    table: str
    """Constant data: the same, and ``{items}``."""
    record: str
    """A type made of others: ``{name}`` and ``{fields}``."""
    part: str
    """A part of such a type: ``{T}`` and ``{name}``."""
    zeros: str
    """A value of it: ``{name}`` and ``{zeros}``."""
    count: str
    """The head of a loop: ``{T}``, ``{i}``, ``{start}``, ``{below}`` and ``{step}``."""
    function: str
    """The head of a function: ``{T}``, ``{name}`` and ``{parameters}``."""
    parameter: str
    """One of its parameters: ``{T}`` and ``{name}``."""
    kernel: str
    """The head of a kernel: ``{name}``, ``{lanes}`` and ``{parameters}``."""
    buffer: str
    """A buffer among the parameters of a kernel: ``{name}``."""
    size: str
    """A size among them: ``{name}``."""
    place: str
    """The first line about a buffer: ``{T}``, ``{name}`` and ``{kernel}``."""
    extent: str = ""
    """The first line about a size: ``{name}`` and ``{kernel}``."""
    outside: str = ""
    """What declares a buffer before a kernel, where parameters cannot: ``{T}``, ``{n}`` is its
    number after the status and the sizes, ``{i}`` that after the status, ``{name}`` and
    ``{kernel}``. Shared arrays are then declared there as well."""
    whole: str = "{text}"
    """A kernel with what is declared before it: ``{text}`` and ``{name}``."""
    called: str = "{name}"
    """What the array of a buffer is called: ``{name}`` and ``{kernel}``."""
    first: str = "0"
    """The index of its first element: ``{name}``."""
    held: Mapping[str, str] = field(default_factory=dict[str, str])
    """The types of elements of buffers, where these are others than those of values, by the type
    and where the element lies, as in ``i8.written``."""
    helpers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Functions by their names, of which a text has those that it calls."""
    runs: str = "take the text, or leave the target out"
    """What to do instead of a call, where no device here runs the language: for messages."""
    index: str = "i64"
    """The type of LLVM that indices have."""
    fuses: bool = True
    """Whether the language promises to round ``x*y + z`` once."""
    has_doubles: bool = True
    """Whether f64 is a type of the language; else numbers of f64 are their bits, in two words, and
    arrays of them ``absent``."""
    may_fuse: bool = False
    """Whether sums of products round each step once or twice, as the device likes."""

    def type(self, llvm: str) -> str | None:
        """The type for one of LLVM, None where there is none."""
        return self.record_name(llvm) if llvm.startswith("{") else self.types.get(llvm)

    @staticmethod
    def record_name(llvm: str) -> str:
        """The name of a type made of others."""
        return "_".join(("record", *fields(llvm)))

    def constant(self, llvm: str, x: str) -> str:
        """A constant of LLVM's text, exact to the bit."""
        if llvm in ("float", "double"):
            return self._float(llvm, x)
        if llvm == "i1":
            return "true" if x in ("true", "1", "-1") else "false"
        if llvm == "half":
            bits = 0 if x == "zeroinitializer" else int(x.removeprefix("0xH"), 16)
            return self.constants[llvm].format(x=bits)
        whole = 0 if x == "zeroinitializer" else int(x)
        whole %= 1 << int(llvm[1:])
        return self.constants[llvm].format(x=whole, low=whole & 0xFFFFFFFF, high=whole >> 32)

    def _float(self, llvm: str, x: str) -> str:
        bits = 0 if x == "zeroinitializer" else int(x, 16)
        value = struct.unpack("<d", struct.pack("<Q", bits))[0]
        if "{low}" in self.constants[llvm]:
            if llvm == "float":
                bits = struct.unpack("<I", struct.pack("<f", value))[0]
            low, high = bits & 0xFFFFFFFF, bits >> 32
            return self.constants[llvm].format(low=low, high=high)
        type_ = self.types[llvm]
        if math.isinf(value):
            text = self.infinite[0].format(T=type_)
            return text if value > 0 else f"(-{text})"
        if math.isnan(value):
            return self.infinite[1].format(T=type_)
        digits, _, power = value.hex().partition("p")
        digits = digits.rstrip("0") if "." in digits else digits
        text = self.constants[llvm].format(
            x=f"{digits.removesuffix('.')}p{power}", decimal=repr(value)
        )
        return f"({text})" if text.startswith("-") else text
