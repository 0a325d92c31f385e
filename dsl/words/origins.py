"""Finds lines of the user's: where an operation was written, and where an error was raised.

Frames of dlvm and of libraries between the user and dlvm are left out. For an error in another
library, the user's line that led there is reported beside the library's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from types import CodeType, FrameType, TracebackType

from dlvm.base.errors import Origin, UserError

_INTERNAL = {"dlvm", "numpy", "optree", "functools", "contextlib", "ml_dtypes"}
_internal: dict[str, bool] = {}
_origins: dict[tuple[str, int], Origin] = {}
_LIBRARIES = (os.path.dirname(os.__file__) + os.sep, "<frozen ")


def is_internal(frame: FrameType) -> bool:
    """Whether code belongs to dlvm, or to a library between users and dlvm."""
    module: str = frame.f_globals.get("__name__", "")
    inside = _internal.get(module)
    if inside is None:
        inside = _internal[module] = module.partition(".")[0] in _INTERNAL
    return inside


def is_ours(frame: FrameType) -> bool:
    """Whether code is dlvm's own."""
    module: str = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == "dlvm"


def user_origin() -> Origin:
    """The file and line of the first frame outside this package."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and is_internal(frame):
        frame = frame.f_back
    key = (frame.f_code.co_filename, frame.f_lineno)
    found = _origins.get(key)
    if found is None:
        found = _origins[key] = Origin(*key)
    return found


def steps_of_users() -> Iterator[tuple[CodeType, int]]:
    """The running frames of users' code, from the innermost call, each with its offset."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if not is_internal(frame):
            yield frame.f_code, frame.f_lasti
        frame = frame.f_back


def origin_in(traceback: TracebackType | None) -> Origin | None:
    """The file and line of the innermost frame of a traceback outside this package."""
    mine = [at for at in frames(traceback) if not is_internal(at.tb_frame)]
    return Origin(mine[-1].tb_frame.f_code.co_filename, mine[-1].tb_lineno) if mine else None


CALLER = "called at"


def caller_of_library(error: UserError, origin: Origin | None) -> Origin | None:
    """The user's line for an error inside of a library that the user called."""
    if origin is None or not _is_library(origin.file):
        return None
    within = [(at.tb_frame, at.tb_lineno) for at in frames(error.__traceback__)]
    frame, around = sys._getframe(2), list[tuple[FrameType, int]]()  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        around.append((frame, frame.f_lineno))
        frame = frame.f_back
    for frame, line in (*reversed(within), *around):
        if not is_internal(frame) and not _is_library(frame.f_code.co_filename):
            return Origin(frame.f_code.co_filename, line)
    return None


def calls_in_library() -> list[str]:
    """The full names of the functions of libraries that run between the user's code and dlvm.

    The one that the user called comes first; empty where the user's own code called dlvm.
    """
    frame, found = sys._getframe(1), list[str]()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and (is_internal(frame) or _is_library(frame.f_code.co_filename)):
        if not is_internal(frame):
            found.append(_name_of(frame))
        frame = frame.f_back
    return found[::-1]


def calls_in(library: str) -> list[str]:
    """The full names of a library's functions between the user's code and dlvm, from the outermost.

    Unlike in ``calls_in_library``, a library is told by its name, wherever it is installed.
    """
    frame, found = sys._getframe(1), list[str]()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and (is_internal(frame) or _is_of(frame, library)):
        if not is_internal(frame):
            found.append(_name_of(frame))
        frame = frame.f_back
    return found[::-1]


def builders_in(library: str, others: Collection[str]) -> tuple[list[str], Origin | None]:
    """The public functions of a library that made those that run now, from the innermost.

    With them comes the line that called the library. Frames of ``others`` may lie in between.
    """
    frame, found = sys._getframe(1), list[str]()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and (
        is_internal(frame) or any(_is_of(frame, x) for x in (library, *others))
    ):
        if _is_of(frame, library):
            found.append(frame.f_code.co_qualname.partition(".")[0])
        frame = frame.f_back
    return found, Origin(frame.f_code.co_filename, frame.f_lineno) if frame is not None else None


def _is_of(frame: FrameType, library: str) -> bool:
    module: str = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == library


WRAPPERS = {"wrapper": "f", "reraise_with_filtered_traceback": "fun", "cache_miss": "fun"}
"""Functions around those of libraries, and the variable that holds the inner one."""


def _name_of(frame: FrameType) -> str:
    """The full name of a function that runs; of a wrapper around one, that of what it wraps."""
    name = f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}"
    word = WRAPPERS.get(frame.f_code.co_name)
    wrapped = frame.f_locals.get(word) if word else None
    inner = getattr(wrapped, "__name__", None), getattr(wrapped, "__module__", None)
    return f"{inner[1]}.{inner[0]}" if all(inner) else name


def line_of_user(error: Exception) -> Origin | None:
    """The user's line in which an error was raised; None if code of dlvm is between."""
    for at in reversed([*frames(error.__traceback__)]):
        code = at.tb_frame.f_code
        if is_ours(at.tb_frame):
            return None
        if not is_internal(at.tb_frame) and not _is_library(code.co_filename):
            return Origin(code.co_filename, at.tb_lineno)
    return None


def is_pythons(frame: FrameType) -> bool:
    """Whether code belongs to Python's library."""
    file = frame.f_code.co_filename
    return file.startswith(_LIBRARIES) and "-packages" not in file


def _is_library(file: str) -> bool:
    return file.startswith(_LIBRARIES) or "site-packages" in file or "dist-packages" in file


def frames_of_user(error: Exception) -> TracebackType | None:
    """A traceback with only the user's frames."""
    kept: TracebackType | None = None
    for at in reversed([*frames(error.__traceback__)]):
        if not is_internal(at.tb_frame):
            kept = TracebackType(kept, at.tb_frame, at.tb_lasti, at.tb_lineno)
    return kept


def frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """A traceback from the outermost frame to the innermost."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
