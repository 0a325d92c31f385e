"""Finds the portable artifact in what ``jax.export`` serializes, a table of FlatBuffers."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .cursor import damaged
from .sections import MAGIC

ARGUMENTS, ARTIFACT, KEPT, ARGUMENT_TYPES = 10, 30, 34, 48
"""Where the table says that a field is: the types of all arguments, the artifact, the arguments
that the module takes, and the types again, as newer versions write them."""


@dataclass(frozen=True)
class Exported:
    """An artifact, and which of how many arguments it takes; without a count it takes them all."""

    artifact: bytes
    count: int | None = None
    kept: tuple[int, ...] = ()


def exported(data: bytes) -> Exported:
    """The artifact of ``jax.export``, with its table around it or without."""
    if data.startswith(MAGIC):
        return Exported(data)
    try:
        return _of_table(data)
    except struct.error as error:
        raise damaged("they are neither an artifact nor what jax.export serializes") from error


def _of_table(data: bytes) -> Exported:
    start, size = _vector(data, ARTIFACT)
    artifact = data[start : start + size]
    if not artifact.startswith(MAGIC):
        raise damaged("they are neither an artifact nor what jax.export serializes")
    at, size = _vector(data, KEPT)
    kept = struct.unpack_from(f"<{size}H", data, at) if 2 * size <= len(data) else ()
    count = max(_vector(data, ARGUMENTS)[1], _vector(data, ARGUMENT_TYPES)[1])
    if [*kept] != sorted({*kept}) or any(i >= count for i in kept):
        raise damaged(f"it keeps the arguments {[*kept]} of {count}")
    return Exported(artifact, count, kept)


def _vector(data: bytes, field: int) -> tuple[int, int]:
    """Where the elements of a field are and how many; none if the table has no such field."""
    (table,) = struct.unpack_from("<I", data)
    (back,) = struct.unpack_from("<i", data, table)
    fields = table - back
    if fields < 0:
        raise struct.error
    (length,) = struct.unpack_from("<H", data, fields)
    (offset,) = struct.unpack_from("<H", data, fields + field) if field < length else (0,)
    if not offset:
        return 0, 0
    place = table + offset
    place += struct.unpack_from("<I", data, place)[0]
    return place + 4, struct.unpack_from("<I", data, place)[0]
