"""Makes a WebAssembly module of one object file, without a linker.

The memory of the module starts with the stack, which grows downwards: a stack that overflows
reaches an address below zero and traps, and overwrites no data. Data follow, then the heap base,
from where on the caller may use memory. The module imports nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dlvm.base.errors import ArgumentError, CompilerError

from . import memory, wasm_object
from .wasm_format import (
    HEADER,
    I32,
    as_signed,
    i32_const,
    malformed,
    section,
    signed,
    sized,
    unsigned,
    vector,
)
from .wasm_object import DATAS, FUNCTIONS, GLOBALS, Object, Piece, Relocation, Symbol

STACK = 1 << 20
"""Bytes of the stack, 1 MiB: a product of dlvm's takes up to 256 KiB of it."""
PAGE = 1 << 16
ALIGNMENT = 64
"""Of the heap base: a cache line, as arrays of dlvm's have."""
MEMORY, POINTER, HEAP = "memory", "__stack_pointer", "__heap_base"
_FUNCTION, _TABLE, _MEMORY, _GLOBAL = 0, 1, 2, 3
"""Kinds of exports."""


def module(object_bytes: bytes, exports: Sequence[str], *, stack: int = STACK) -> bytes:
    """A module that exports the named functions of an object file, and imports nothing.

    It exports ``memory`` as well, and the globals ``__stack_pointer`` and ``__heap_base``, the
    first address that neither the stack of ``stack`` bytes nor data take.
    """
    if taken := {MEMORY, POINTER, HEAP}.intersection(exports):
        raise ArgumentError(
            f"a WebAssembly module exports something of its own as {', '.join(sorted(taken))}; "
            "give the function another name"
        )
    found = wasm_object.read(object_bytes)
    _refuse_undefined(found.symbols)
    return _Linked(found, _aligned(stack, 16)).module(exports)


def _refuse_undefined(symbols: Sequence[Symbol]) -> None:
    """Nobody but ``memory`` defines what the object does not."""
    lacking = sorted(
        {
            symbol.name
            for symbol in symbols
            if symbol.undefined
            and (
                symbol.kind == DATAS
                or (symbol.kind == FUNCTIONS and symbol.name not in memory.BODIES)
                or (symbol.kind == GLOBALS and symbol.name != POINTER)
            )
        }
    )
    if lacking:
        raise CompilerError(
            f"the object file for WebAssembly uses {', '.join(lacking)}, which it does not define; "
            "a module of dlvm's imports nothing"
        )


@dataclass(frozen=True)
class _Linked:
    """An object whose symbols have their final addresses and indices."""

    object: Object
    stack: int

    @cached_property
    def supplied(self) -> list[str]:
        """The functions of ``memory`` that the object uses; their indices are the last."""
        used = (s for s in self.object.symbols if s.undefined and s.kind == FUNCTIONS)
        return list(dict.fromkeys(symbol.name for symbol in used))

    @cached_property
    def addresses(self) -> list[int]:
        """Where each segment of data starts, and where the heap does."""
        end, out = self.stack, list[int]()
        for piece, segment in zip(self.object.data, self.object.segments, strict=True):
            out.append(_aligned(end, segment.alignment))
            end = out[-1] + len(piece.content)
        if end > 1 << 31:
            raise malformed("the stack and data take more than 2 GiB")
        return [*out, _aligned(end, ALIGNMENT)]

    @cached_property
    def slots(self) -> dict[int, int]:
        """The place in the table of each function whose address is taken; 0 is the null pointer."""
        pieces = (*self.object.code, *self.object.data)
        taken = (r for piece in pieces for r in piece.relocations if r.kind in (1, 2))
        indices = dict.fromkeys(self.function(self.symbol(r, FUNCTIONS)) for r in taken)
        return {index: slot for slot, index in enumerate(indices, 1)}

    def symbol(self, relocation: Relocation, kind: int) -> Symbol:
        """The symbol of a relocation, of the kind that its type takes."""
        if relocation.number < len(self.object.symbols):
            symbol = self.object.symbols[relocation.number]
            if symbol.kind == kind:
                return symbol
        raise malformed("a relocation names a symbol that is not there, or is of another kind")

    def function(self, symbol: Symbol) -> int:
        """The final index of a function: the object's own stand before the supplied ones."""
        if symbol.undefined:
            return len(self.object.code) + self.supplied.index(symbol.name)
        return symbol.number - len(self.object.imports)

    def value(self, r: Relocation) -> int:
        """The number that a relocation stands for."""
        match r.kind:
            case 0 | 26:
                return self.function(self.symbol(r, FUNCTIONS))
            case 1 | 2:
                return self.slots[self.function(self.symbol(r, FUNCTIONS))]
            case 3 | 4 | 5:
                symbol = self.symbol(r, DATAS)
                return self.addresses[symbol.number] + symbol.offset + r.addend
            case 6 if r.number < len(self.object.types):
                return r.number
            case 7 | 13:
                self.symbol(r, GLOBALS)
                return 0
            case 20:
                return 0
            case kind:
                raise malformed(
                    f"a relocation has the type {kind}, expected one of the static relocation model"
                )

    def relocated(self, piece: Piece) -> bytes:
        """The bytes of a function or segment with final numbers, each in its shortest form."""
        out, at = list[bytes](), 0
        for r in sorted(piece.relocations, key=lambda r: r.offset):
            start = r.offset - piece.start
            end, new = _field(piece.content, start, r.kind, self.value(r))
            if start < at:
                raise malformed("two relocations overlap")
            out += [piece.content[at:start], new]
            at = end
        return b"".join((*out, piece.content[at:]))

    def module(self, exports: Sequence[str]) -> bytes:
        """The whole module; the order of its sections is that of the specification."""
        parts = {
            1: vector(self.types),
            3: vector(unsigned(index) for index in self.functions),
            4: self.table,
            5: vector([bytes((0,)) + unsigned(-(-self.addresses[-1] // PAGE))]),
            6: vector((_global(self.stack, mutable=1), _global(self.addresses[-1], mutable=0))),
            7: self.exported(exports),
            9: self.elements,
            10: vector(sized(body) for body in self.bodies),
            11: vector(self.segments),
            0: self.object.features or b"",
        }
        return HEADER + b"".join(
            section(kind, content) for kind, content in parts.items() if content
        )

    @cached_property
    def types(self) -> list[bytes]:
        """The object's types, and that of supplied functions."""
        own = self.object.types
        return own if memory.TYPE in own or not self.supplied else [*own, memory.TYPE]

    @property
    def functions(self) -> list[int]:
        """The type of each function."""
        return [*self.object.functions, *(self.types.index(memory.TYPE) for _ in self.supplied)]

    @property
    def bodies(self) -> list[bytes]:
        """Each function's code."""
        own = [self.relocated(piece) for piece in self.object.code]
        return [*own, *(memory.BODIES[name] for name in self.supplied)]

    @property
    def table(self) -> bytes:
        """The table of functions that pointers lead to, if any code may use one."""
        if not self.slots and not self.object.imported_tables:
            return b""
        return vector([bytes((0x70, 0)) + unsigned(1 + len(self.slots))])

    @property
    def elements(self) -> bytes:
        """What fills the table from its second place on."""
        if not self.slots:
            return b""
        return vector([bytes((0,)) + i32_const(1) + vector(map(unsigned, self.slots))])

    @property
    def segments(self) -> list[bytes]:
        """Data up to its last byte that is not zero, as memory is zero from the start."""
        out = list[bytes]()
        for piece, address in zip(self.object.data, self.addresses, strict=False):
            if content := self.relocated(piece).rstrip(b"\0"):
                out.append(bytes((0,)) + i32_const(address) + sized(content))
        return out

    def exported(self, names: Sequence[str]) -> bytes:
        """The exports: functions by their names, the memory and the two globals."""
        own = {s.name: s for s in self.object.symbols if s.kind == FUNCTIONS and s.public}
        if lacking := [name for name in names if name not in own]:
            raise CompilerError(
                f"the object file for WebAssembly defines no function {', '.join(lacking)}; "
                f"it defines {', '.join(sorted(own)) or 'none'}"
            )
        entries = [(name, _FUNCTION, self.function(own[name])) for name in dict.fromkeys(names)]
        entries += [(MEMORY, _MEMORY, 0), (POINTER, _GLOBAL, 0), (HEAP, _GLOBAL, 1)]
        return vector(sized(n.encode()) + bytes((kind,)) + unsigned(i) for n, kind, i in entries)


def _aligned(address: int, alignment: int) -> int:
    return -(-address // alignment) * alignment


def _global(value: int, *, mutable: int) -> bytes:
    """A global variable or constant of 32 bits."""
    return bytes((I32, mutable)) + i32_const(value)


def _field(content: bytes, start: int, kind: int, value: int) -> tuple[int, bytes]:
    """Where the field of a relocation ends, and the bytes of its value.

    LLVM writes numbers in code as LEB128 of five bytes, whatever their size, and in data as words.
    """
    if kind in (2, 5, 13, 26):
        end, new = start + 4, (value % (1 << 32)).to_bytes(4, "little")
    else:
        end, five = start + 5, content[start : start + 5]
        if [byte >> 7 for byte in five] != [1, 1, 1, 1, 0]:
            raise malformed("a relocation does not point at a number of five bytes")
        new = signed(as_signed(value)) if kind in (1, 4) else unsigned(value % (1 << 32))
    if end > len(content):
        raise malformed("a relocation reaches beyond its function or segment")
    return end, new
