"""The arrays of one file of the format safetensors, mapped into memory.

The package safetensors checks a file as a whole: that its header is text of the right form, and
that the arrays lie side by side and fill the file. What it lets pass and we do not take is refused
here: names that stand twice, and element types that dlvm does not have.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import stat
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, UserError
from dlvm.dsl.trace.scopes import user_origin
from dlvm.ir import BOOL, NUMBERS, Array

from .names import RESERVED

START = 8
"""Bytes before the header, which say how long it is."""
TYPES = {t.name.upper(): t for t in NUMBERS}
"""Element types by their names in files."""
ROUNDS = 10
"""How often reading starts again because another process puts a new file in the place."""
OTHER = "give a file that dlvm.save or another writer of the format safetensors has written"


@dataclass(frozen=True, eq=False, repr=False)
class Contents:
    """The bytes of a file, where its arrays begin, and the entry of each array in the header."""

    file: str
    data: mmap.mmap
    first: int
    entries: dict[str, Any]

    def array(self, name: str) -> Array:
        """An array of the file, whose elements are read when they are used."""
        entry = self.entries[name]
        dtype = TYPES.get(entry["dtype"])
        if dtype is None:
            raise DTypeError(
                f"load: {self.file!r}: {name} has elements of type {entry['dtype']}; there are "
                f"{', '.join(map(str, NUMBERS))}",
                origin=user_origin(),
                remedy="convert it where the file was written",
            )
        start, end = (self.first + offset for offset in entry["data_offsets"])
        kind, count = dtype.numpy, math.prod(entry["shape"])
        if end > len(self.data) or end - start != count * kind.itemsize:
            raise _bad(self.file, f"{name} does not lie within it")
        flat: Array = np.frombuffer(self.data, kind, count, start) if count else np.empty(0, kind)
        try:
            array: Array = flat.reshape(entry["shape"])
        except ValueError as error:
            raise _bad(self.file, f"{name} has a shape that no array has: {error}") from None
        if dtype is BOOL and (array.view(np.uint8) > 1).any():
            raise _bad(self.file, f"{name} has elements of type bool that are neither 0 nor 1")
        return array if array.flags.aligned else array.copy()


def opened(file: str) -> Contents:
    """The arrays of a file, whose header is read and checked."""
    data = _mapped(file)
    first = START + int.from_bytes(data[:START], "little")
    try:
        entries: dict[str, Any] = json.loads(data[START:first], object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise _bad(file, f"its header can't be read: {error}") from None
    entries.pop(RESERVED, None)
    return Contents(file, data, first, entries)


def _bad(file: str, why: str) -> UserError:
    return UserError(f"load: {file!r}: {why}", origin=user_origin(), remedy=OTHER)


def _mapped(file: str) -> mmap.mmap:
    """The bytes of a file that safetensors has checked; what is written to them stays here."""
    from safetensors import SafetensorError, safe_open

    for _ in range(ROUNDS):
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise _bad(file, "it is no file, but a folder or a device")
        with open(file, "rb") as handle:
            try:
                with safe_open(file, framework="np"):
                    pass
            except SafetensorError as error:
                raise _bad(file, f"it is no whole file of safetensors: {error}") from None
            if os.path.samestat(os.fstat(handle.fileno()), os.stat(file)):
                return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
    raise _bad(file, "another process replaces it all the time")


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a name that stands twice in it is an error."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in it")
    return found
