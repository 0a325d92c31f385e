"""Faults of passes and laws from outside the package, told at the line of their author.

This file knows functions and tracebacks, and nothing of the IR.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .brief import shortened
from .errors import ExtensionError, Origin

Written = Callable[..., Any]

SHOWN = 200
"""Characters of a wrong result that a message shows."""
LINES = 40
"""Lines that a message shows of the program on which a pass failed."""


def is_outside(function: Written) -> bool:
    """Whether a function was defined outside of dlvm."""
    return (function.__module__ or "").partition(".")[0] != "dlvm"


def definition(function: Written) -> Origin | None:
    """The line of ``def``, below the decorators; None for what is not written in Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    first = Origin(code.co_filename, code.co_firstlineno)
    for n in range(first.line, first.line + 20):
        at = Origin(first.file, n)
        if at.source().startswith("def "):
            return at
        if not at.source():
            break
    return first


def raised_in(function: Written, error: Exception) -> Origin | None:
    """The last line of the function's file that ran before an error; else its definition."""
    at, found = error.__traceback__, definition(function)
    while at is not None and found is not None:
        if at.tb_frame.f_code.co_filename == found.file:
            found = Origin(found.file, at.tb_lineno)
        at = at.tb_next
    return found


def failed(what: str, function: Written, error: Exception, on: str) -> ExtensionError:
    """The error for what a pass or a law raised; ``on`` is the text of what it was given."""
    return ExtensionError(
        f"the {what} raised {type(error).__name__}: {error}",
        origin=raised_in(function, error),
        notes=_shown("on", on),
        remedy="correct this line; the program that it was given is well-formed",
    )


def broken(what: str, function: Written, error: Exception, before: str) -> ExtensionError:
    """The error for a pass whose result breaks a rule of the language."""
    return ExtensionError(
        f"the {what} broke the program: {str(error).strip()}",
        origin=definition(function),
        notes=_shown("before it", before),
        remedy="give each result the type of the value that it replaces, and define operands first",
    )


def _shown(title: str, text: str) -> tuple[str, ...]:
    return title, *(f"  {line}" for line in shortened(text.strip(), LINES).splitlines())


def returned(
    what: str, function: Written, found: Any, expected: str, remedy: str
) -> ExtensionError:
    """The error for a pass or a law that returned something else than it has to."""
    shown = repr(found)
    shown = shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 3]}..."
    message = f"the {what} returned {shown}; expected {expected}"
    return ExtensionError(message, origin=definition(function), remedy=remedy)
