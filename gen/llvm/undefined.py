"""Which functions an object file calls and does not have: of ELF and WebAssembly."""

from __future__ import annotations

import struct


def undefined(code: bytes) -> set[str]:
    """The names that a linker would look for."""
    return _elf(code) if code.startswith(b"\x7fELF") else _wasm(code)


def _elf(code: bytes) -> set[str]:
    """The named symbols of section 0, from the table of symbols; all files are little-endian."""
    wide = code[4] == 2
    start, size, count = (
        (*struct.unpack_from("<Q", code, 40), *struct.unpack_from("<HH", code, 58))
        if wide
        else (*struct.unpack_from("<I", code, 32), *struct.unpack_from("<HH", code, 46))
    )
    form = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    sections: list[tuple[int, ...]] = [
        struct.unpack_from(form, code, start + i * size) for i in range(count)
    ]
    found: set[str] = set()
    for section in sections:
        if section[1] != 2:
            continue
        at, length, link, each = section[4], section[5], section[6], section[9]
        names = sections[link][4]
        for place in range(at, at + length, each):
            name = struct.unpack_from("<I", code, place)[0]
            inside = struct.unpack_from("<H", code, place + (6 if wide else 14))[0]
            if name and not inside:
                found.add(code[names + name : code.index(b"\0", names + name)].decode())
    return found


def _wasm(code: bytes) -> set[str]:
    """The functions of the import section."""
    at, names = 8, set[str]()
    while at < len(code):
        kind = code[at]
        size, start = _number(code, at + 1)
        at = start + size
        if kind == 2:
            count, place = _number(code, start)
            for _ in range(count):
                _, place = _name(code, place)
                name, place = _name(code, place)
                what, place = code[place], place + 1
                place = _after(code, what, place)
                if what == 0:
                    names.add(name)
    return names


def _after(code: bytes, what: int, place: int) -> int:
    """Behind the description of an import: a function, table, memory or global."""
    if what == 3:
        return place + 2
    flags = code[place + 1] if what == 1 else code[place]
    if what == 0:
        return _number(code, place)[1]
    place += 2 if what == 1 else 1
    for _ in range(1 + (flags & 1)):
        _, place = _number(code, place)
    return place


def _number(code: bytes, at: int) -> tuple[int, int]:
    """An unsigned LEB128, and what is behind it."""
    value = shift = 0
    while True:
        byte = code[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def _name(code: bytes, at: int) -> tuple[str, int]:
    size, at = _number(code, at)
    return code[at : at + size].decode(), at + size
