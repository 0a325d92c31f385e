"""The wire format of protobuf: messages of ONNX out of bytes and into bytes.

``read`` and ``write`` know the format and take the fields from the table in ``messages``. Bytes of
tensors are not copied: they are views of what was read. Any bytes give a message or ``Malformed``;
what the messages mean is checked elsewhere.
"""

from __future__ import annotations

import struct
from typing import Any

from dlvm.base.errors import UserError

from .messages import MESSAGES, TABLE, Field, Model

FIXED = {"float": ("<f", 4), "double": ("<d", 8)}
"""Kinds of numbers that have as many bytes each."""
SCALARS = ("int", "uint", *FIXED)
DEEPEST = 64
"""How deep messages may be nested: a graph in an attribute of a node takes three levels."""
BITS = 2**64
VARINT, EIGHT, SIZED, FOUR = 0, 1, 2, 5
"""Wire types: a number in groups of seven bits, eight bytes, a length and bytes, four bytes."""
REMEDY = "give the whole file as a writer of ONNX has written it"


class Malformed(UserError, ValueError):
    """Bytes that are no ONNX model."""

    code = "onnx"

    def __init__(self, message: str, **more: Any) -> None:
        more.setdefault("remedy", REMEDY)
        super().__init__(message, **more)


def read(data: bytes | bytearray | memoryview, message: str = "Model") -> Any:
    """The message, by default a whole model, that bytes hold; other bytes are ``Malformed``."""
    view = memoryview(data).toreadonly().cast("B")
    return _message(view, message, 0, len(view), 0)


def read_model(data: bytes | bytearray | memoryview) -> Model:
    """The model that bytes hold."""
    return read(data)


def write(message: Any) -> bytes:
    """The bytes of a message; fields stand in the order of their numbers."""
    out: list[bytes] = []
    for number, entry in TABLE[type(message).__name__].items():
        found = getattr(message, entry.name)
        values: list[Any] = found if entry.repeated else [] if found is None else [found]
        for value in values:
            out += _field(number, entry.kind, value)
    return b"".join(out)


# -- reading ---------------------------------------------------------------------------------------


def _message(data: memoryview, message: str, at: int, end: int, depth: int) -> Any:
    if depth > DEEPEST:
        raise Malformed(f"onnx: messages are nested more than {DEEPEST} deep at byte {at}")
    entries, made = TABLE[message], MESSAGES[message]()
    while at < end:
        tag, at = _varint(data, at, end)
        if not tag >> 3:
            raise Malformed(f"onnx: expected a field of a number from 1 on before byte {at}")
        start, stop, value = _extent(data, tag & 7, at, end)
        entry = entries.get(tag >> 3)
        if entry is not None:
            _put(made, entry, data, (tag & 7, start, stop, value), depth)
        at = stop
    return made


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and the place behind it."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value % BITS, at
        shift += 7
    raise Malformed(f"onnx: expected a number of at most 10 bytes that ends before byte {at}")


def _extent(data: memoryview, wire: int, at: int, end: int) -> tuple[int, int, int]:
    """Where the content of a field starts and stops, and its number if it is a varint."""
    value = 0
    start = stop = at
    if wire == VARINT:
        value, stop = _varint(data, at, end)
    elif wire in (EIGHT, FOUR):
        stop = at + (8 if wire == EIGHT else 4)
    elif wire == SIZED:
        size, start = _varint(data, at, end)
        stop = start + size
    else:
        raise Malformed(f"onnx: expected a wire type of 0, 1, 2 or 5 at byte {at}, found {wire}")
    if stop > end:
        raise Malformed(f"onnx: a field at byte {at} ends at byte {stop}, beyond byte {end}")
    return start, stop, value


def _put(
    made: Any, entry: Field, data: memoryview, found: tuple[int, int, int, int], depth: int
) -> None:
    """Puts what a field holds into a message; the last of several wins, as protobuf has it."""
    wire, start, stop, value = found
    if wire == SIZED and entry.kind in SCALARS:
        if not entry.repeated:
            raise Malformed(f"onnx: {_place(made, entry)} is no number at byte {start}")
        getattr(made, entry.name).extend(_packed(data, start, stop, entry.kind))
        return
    if wire == SIZED:
        content = _content(made, entry, data, start, stop, depth)
    elif wire == VARINT and entry.kind in ("int", "uint"):
        content = value if entry.kind == "uint" else _signed(value)
    elif entry.kind in FIXED and stop - start == FIXED[entry.kind][1] and wire != VARINT:
        (content,) = struct.unpack(FIXED[entry.kind][0], data[start:stop])
    else:
        raise Malformed(f"onnx: {_place(made, entry)} has wire type {wire} at byte {start}")
    if entry.repeated:
        getattr(made, entry.name).append(content)
    else:
        setattr(made, entry.name, content)


def _content(made: Any, entry: Field, data: memoryview, start: int, stop: int, depth: int) -> Any:
    """What a field with a length holds: a message, text or bytes."""
    if entry.kind in TABLE:
        return _message(data, entry.kind, start, stop, depth + 1)
    if entry.kind == "view":
        return data[start:stop]
    if entry.kind == "bytes":
        return bytes(data[start:stop])
    try:
        return str(data[start:stop], "utf8")
    except UnicodeDecodeError:
        raise Malformed(f"onnx: {_place(made, entry)} is no UTF-8 at byte {start}") from None


def _packed(data: memoryview, at: int, end: int, kind: str) -> list[Any]:
    """The numbers of a repeated field that are written side by side."""
    if kind in FIXED:
        code, width = FIXED[kind]
        if (end - at) % width:
            raise Malformed(
                f"onnx: expected numbers of {width} bytes each at byte {at}, found {end - at} bytes"
            )
        return [x for (x,) in struct.iter_unpack(code, data[at:end])]
    found: list[int] = []
    while at < end:
        value, at = _varint(data, at, end)
        found.append(value if kind == "uint" else _signed(value))
    return found


def _signed(value: int) -> int:
    return value - BITS if value >= BITS // 2 else value


def _place(made: Any, entry: Field) -> str:
    return f"the field {entry.name} of {type(made).__name__}"


# -- writing ---------------------------------------------------------------------------------------


def _field(number: int, kind: str, value: Any) -> list[bytes]:
    """The bytes of one value of a field, in pieces."""
    if kind in ("int", "uint"):
        return [_number(number << 3 | VARINT), _number(value)]
    if kind in FIXED:
        wire = FOUR if kind == "float" else EIGHT
        return [_number(number << 3 | wire), struct.pack(FIXED[kind][0], value)]
    body = write(value) if kind in TABLE else value.encode() if kind == "text" else bytes(value)
    return [_number(number << 3 | SIZED), _number(len(body)), body]


def _number(value: int) -> bytes:
    """A number in groups of seven bits; a negative one as 64 bits."""
    value %= BITS
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
