"""The border between users and dlvm: the error that a caller sees when a public call fails.

Every public entry catches the exceptions raised inside of it and raises what ``faced`` returns for
them. ``faced`` decides whose error it is, in this order: a mistake that one of our checks found, a
call that does not fit the signature, the user's own code (or NumPy and Python as the user called
them), an argument of the wrong kind, and last a bug in dlvm, about which a file is written. Errors
inside of another public call are left to the outermost one, which the user wrote.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

from dlvm.base.errors import CallError, CompilerError, DlvmError, OutOfMemory, TooDeep, UserError
from dlvm.base.handlers import raised_by_handler
from dlvm.dsl.words.calling import (
    BOUNDARIES,
    known_as,
    misfit,
    of_attribute,
    of_numpy,
    remedy,
    usage,
)
from dlvm.dsl.words.origins import (
    CALLER,
    caller_of_library,
    frames,
    frames_of_user,
    is_internal,
    is_ours,
    is_pythons,
    user_origin,
)
from dlvm.ir import Module

from .kinds import unlike
from .notes import described
from .provenance import explained
from .scopes import refusal

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
Told = Callable[[Exception, str, Sequence[Any], Mapping[str, Any], "Module | None"], CompilerError]
ANYBODYS = OSError | Warning
"""Exceptions that are nobody's mistake, or that a user's object raises in C code."""
DECIDED = "_raised_by_user"
"""Attribute that marks an error which an inner entry has attributed to the user's code."""
ENTRIES: set[CodeType] = set()
"""The code objects of all public entries."""
RECORDERS: list[Told] = []
"""Makes the error for a bug in dlvm; ``dlvm.dsl`` registers the function."""


def entry(fn: F) -> F:
    """Registers the code of a public entry; it raises the errors that ``faced`` returns."""
    ENTRIES.add(fn.__code__)
    return fn


def public_of(fn: Any) -> Callable[..., Any] | None:
    """The function itself, if it is a public one of ours that a user stages as it is."""
    return fn if getattr(fn, "__code__", None) in ENTRIES else None


def facing_users(fn: Callable[P, R]) -> Callable[P, R]:
    """Makes a public function, whose errors show the user's line and none of our frames."""

    @entry
    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            raise faced(error, known_as(fn, args), fn, args, kwargs)  # noqa: B904  # it says from what

    return call


def faced(
    error: Exception,
    name: str,
    fn: Callable[..., Any] | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    program: Module | None = None,
) -> Exception:
    """The error that a user sees when a call of ``name`` raised ``error``.

    ``fn`` is our function. It is None if the user called a staged function of their own;
    ``program`` is the program that ran if the function is staged.
    """
    if _inside_another(sys._getframe(1).f_back):  # pyright: ignore[reportPrivateUsage]
        return error
    if isinstance(error, UserError):
        shows_argument = fn is not None and "\n" in error.message  # such as an array for a mode
        wrong = unlike(name, fn, args, kwargs) if fn is not None and shows_argument else None
        return _told(wrong or error, name, fn, args)
    if hasattr(error, DECIDED) or raised_by_handler(error):
        return _of_the_user(error)
    if not isinstance(error, CompilerError):
        if fn is not None and (wrong := _wrong_call(error, name, fn, args, kwargs)) is not None:
            return _told(wrong, name, None, args)
        innermost = _innermost(error)
        if innermost is not None and not is_ours(innermost):
            return _of_the_user(of_numpy(error) or of_attribute(error) or error)
        if (limit := _limit_of_python(error, name)) is not None:
            return _told(limit, name, None, args)
        if isinstance(error, DlvmError | ANYBODYS):
            return error
        if innermost is not None and innermost.f_code in BOUNDARIES:
            wrong = fn and unlike(name, fn, args, kwargs)
            return _told(wrong, name, None, args) if wrong else _of_the_user(error)
    if fn is not None and (wrong := unlike(name, fn, args, kwargs)) is not None:
        return _told(wrong, name, None, args)
    if isinstance(error, CompilerError) and error.reproducer is not None:
        return error
    (record,) = RECORDERS
    return record(error, name, args, kwargs, program).with_traceback(frames_of_user(error))


def _limit_of_python(error: Exception, name: str) -> UserError | None:
    """The error for memory that NumPy did not find, or a nesting too deep for Python's stack."""
    said = f": {error}" if str(error) else ""
    if isinstance(error, MemoryError):
        return OutOfMemory(f"{name}: no memory is left{said}")
    if isinstance(error, RecursionError):
        return TooDeep(
            f"{name}: expected values and functions nested within {sys.getrecursionlimit():,} "
            f"frames of Python, found more{said}",
            remedy="nest less deeply: put arrays into one list or stack them, write repetitions as "
            "loops of dlvm; a list must not hold itself",
        )
    return None


def _inside_another(frame: FrameType | None) -> bool:
    """Whether another public entry called this one, with no code of the user's between them."""
    while frame is not None and is_internal(frame):
        if frame.f_code in ENTRIES:
            return True
        frame = frame.f_back
    return False


def _of_the_user(error: Exception) -> Exception:
    """An error of the user's code, with the user's frames; outer entries leave it as it is."""
    found = error.with_traceback(frames_of_user(error))
    setattr(found, DECIDED, True)
    return found


def _innermost(error: Exception) -> FrameType | None:
    """The innermost frame of an error in our code or the user's; other libraries are skipped."""
    known = [at.tb_frame for at in frames(error.__traceback__)]
    mine = (f for f in reversed(known) if is_ours(f) or not (is_internal(f) or is_pythons(f)))
    return next(mine, None)


def _wrong_call(
    error: Exception,
    name: str,
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> CallError | None:
    """The error for arguments that do not fit the signature of one of our functions."""
    if type(error) is not TypeError or (said := misfit(fn, args, kwargs)) is None:
        return None
    return CallError(f"{name}: {said}", remedy=remedy(usage(name, fn), fn, kwargs))


def _told(
    error: UserError, name: str, fn: Callable[..., Any] | None, args: Sequence[Any]
) -> UserError:
    """A mistake with the user's line, the operands and only the user's frames."""
    notes: list[str] = []
    if fn is not None:
        error.remedy = error.remedy or usage(name, fn)
        notes = described(fn, args)
    found = explained(error.located(user_origin(), *notes), args)
    found.__cause__, found.__suppress_context__ = error.__cause__, True
    caller = caller_of_library(error, found.origin)
    if caller is not None and not any(note.startswith(CALLER) for note in found.notes):
        found.notes = (*found.notes, f"{CALLER} {caller}: {caller.shown()}")
    refusal(found)
    return found.with_traceback(frames_of_user(error))
