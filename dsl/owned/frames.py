"""Reads variables of a running function without leaving references to them.

Python 3.13 has views of a frame's variables. Before, ``f_locals`` is a copy that stays and keeps
every variable alive, so the frame itself is read: where it has its variables is measured once, on a
frame whose variables are known. Where that fails, no local variable can be read.
"""

from __future__ import annotations

import ctypes
import sys
from types import CellType, FrameType
from typing import Any

POINTER_TO_FRAME = 24
"""Offset, in a frame object of CPython 3.11 and 3.12, of the pointer to the frame."""
SEARCHED = 32
"""Number of words of a frame among which its first variable is looked for."""
VIEWS = sys.version_info >= (3, 13)


def _word(address: int) -> int | None:
    return ctypes.c_void_p.from_address(address).value


def _measured() -> int | None:
    """The offset of the first variable in a frame."""
    if hasattr(sys, "getobjects"):  # a Python that traces references has other objects
        return None
    if VIEWS or sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    return _first_at(object(), object())


def _first_at(first: object, second: object) -> int | None:
    frame = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    start = _word(id(frame) + POINTER_TO_FRAME) or 0
    known = (id(first), id(second))
    for offset in range(0, 8 * SEARCHED, 8):
        if start and (_word(start + offset), _word(start + offset + 8)) == known:
            return offset
    return None


FIRST = _measured()


def local(frame: FrameType, name: str, index: int) -> Any:
    """A variable of a function, which is the one at this index; a cell's contents are its value.

    A variable without a value is a ``LookupError``.
    """
    if VIEWS:
        return frame.f_locals[name]
    if FIRST is None:
        raise LookupError(name)
    start = _word(id(frame) + POINTER_TO_FRAME) or 0
    try:
        return ctypes.py_object.from_address(start + FIRST + 8 * index).value
    except ValueError:  # it has none
        raise LookupError(name) from None


def contents(frame: FrameType, name: str, index: int) -> Any:
    """The value of a variable that closures share."""
    found = local(frame, name, index)
    if VIEWS or type(found) is not CellType:
        return found
    try:
        return found.cell_contents
    except ValueError:
        raise LookupError(name) from None
