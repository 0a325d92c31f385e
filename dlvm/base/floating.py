"""The floating-point mode in which dlvm's own Python code computes with NumPy.

Constant folding, and running a program by the references of its operations, must not depend on the
mode of the caller's thread. Machine code sets its own mode.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from . import system

ROOM = 1024
"""Size in bytes of a buffer for the C library's ``fenv_t``, which is smaller."""
_Mode = ctypes.c_char * ROOM


@cache
def _library() -> tuple[Callable[..., int], Callable[..., int], ctypes.c_void_p] | None:
    """The C functions that read and set the mode, and a fresh mode; None if they are missing."""
    if not system.has(system.FLOATING):
        return None
    try:
        libc = system.c_library()
        read, write = libc.fegetenv, libc.fesetenv
    except (OSError, AttributeError):
        return None
    read.argtypes = write.argtypes = [ctypes.c_void_p]
    try:
        fresh = ctypes.addressof(ctypes.c_char.in_dll(libc, "_FE_DFL_ENV"))  # macOS
    except ValueError:
        fresh = -1  # FE_DFL_ENV of the other C libraries
    return read, write, ctypes.c_void_p(fresh)


ONE, HALF = 1.0, 0.5
NORMAL, DENORMAL = 2.0**-1022, 2.0**-1074


def _is_standard() -> bool:
    """Whether this thread rounds to nearest and has denormal numbers, as its arithmetic shows."""
    nearest = ONE + NORMAL == ONE == ONE - NORMAL
    return nearest and NORMAL * HALF != 0.0 and DENORMAL * ONE != 0.0


class standard_mode:
    """Runs a block with rounding to nearest and denormal numbers, then restores the caller's mode.

    If the C library has no such functions, the block runs in the caller's mode.
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: ctypes.Array[ctypes.c_char] | None = None

    def __enter__(self) -> None:
        if not _is_standard() and (found := _library()) is not None:
            read, write, fresh = found
            self._before = _Mode()
            read(self._before)
            write(fresh)

    def __exit__(self, *error: object) -> None:
        if self._before is not None and (found := _library()) is not None:
            found[1](self._before)
