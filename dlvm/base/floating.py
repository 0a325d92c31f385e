"""The floating-point mode in which Python code of ours computes with NumPy.

Folding constants, and running a program by the references of its operations, must not depend on
the mode that the caller's thread was left in; machine code sets its own mode.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache

ROOM = 1024
"""Bytes for what the C library keeps of a mode: at most some hundred."""


@cache
def _library() -> tuple[Callable[..., int], Callable[..., int], ctypes.c_void_p] | None:
    """Functions of the C library that read and set the mode, and the mode of a fresh process."""
    try:
        libc = ctypes.CDLL(None)
        read, write = libc.fegetenv, libc.fesetenv
    except (OSError, TypeError, AttributeError):
        return None
    read.argtypes = write.argtypes = [ctypes.c_void_p]
    try:
        fresh = ctypes.addressof(ctypes.c_char.in_dll(libc, "_FE_DFL_ENV"))  # macOS
    except ValueError:
        fresh = -1  # the other C libraries
    return read, write, ctypes.c_void_p(fresh)


@contextmanager
def standard_mode() -> Generator[None]:
    """Run a block rounding to nearest and keeping denormal numbers; the caller's mode comes back.

    Where the C library has no such functions, the block runs in the caller's mode.
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
