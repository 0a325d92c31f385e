"""The floating-point mode in which dlvm's own Python code computes with NumPy.

Constant folding, and running a program by the references of its operations, must not depend on the
mode of the caller's thread. Machine code sets its own mode.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache

ROOM = 1024
"""Size in bytes of a buffer for the C library's ``fenv_t``, which is smaller."""


@cache
def _library() -> tuple[Callable[..., int], Callable[..., int], ctypes.c_void_p] | None:
    """The C functions that read and set the mode, and a fresh mode; None if they are missing."""
    try:
        libc = ctypes.CDLL(None)
        read, write = libc.fegetenv, libc.fesetenv
    except (OSError, TypeError, AttributeError):
        return None
    read.argtypes = write.argtypes = [ctypes.c_void_p]
    try:
        fresh = ctypes.addressof(ctypes.c_char.in_dll(libc, "_FE_DFL_ENV"))  # macOS
    except ValueError:
        fresh = -1  # FE_DFL_ENV of the other C libraries
    return read, write, ctypes.c_void_p(fresh)


@contextmanager
def standard_mode() -> Generator[None]:
    """Runs a block with rounding to nearest and denormal numbers, then restores the caller's mode.

    If the C library has no such functions, the block runs in the caller's mode.
    """
    found = _library()
    if found is None:
        yield
        return
    read, write, fresh = found
    before = ctypes.create_string_buffer(ROOM)
    read(before)
    write(fresh)
    try:
        yield
    finally:
        write(before)
