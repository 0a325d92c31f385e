"""The errors that dlvm raises: what was expected, what was found, where, and one remedy.

There are two families. A ``UserError`` is about the user's program and points at the user's line; a
``CompilerError`` is a bug in dlvm. This file knows nothing of the IR.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

WIDTH = 95
"""Characters of the user's line that an error shows."""
SMALLER = "compute it in parts, such as with dlvm.scan, or give smaller sizes or element types"
"""The remedy where no memory is left."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an operation was written: the user's file and line, and its ordinal in the trace.

    ``derived`` describes an operation that was derived from the one written there, such as ``the
    adjoint of tanh``.
    """

    file: str
    line: int
    ordinal: int = -1
    derived: str = ""

    def of(self, derived: str) -> Origin:
        """The origin of an operation that was derived from the one at this origin."""
        return replace(self, derived=derived)

    def source(self) -> str:
        """The text of the user's line, or an empty string if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def shown(self) -> str:
        """The text of the user's line, shortened to fit a line of a terminal."""
        source = self.source()
        return source if len(source) <= WIDTH else f"{source[: WIDTH - 3]}..."

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


class DlvmError(Exception):
    """The base class of all errors that dlvm raises."""


class UserError(DlvmError):
    """The program being compiled, or a call of it, is wrong.

    ``refused`` is set by stages of compilation that may reject a program. ``sides`` are the two
    sizes of an equation that does not hold; the tracer adds where these sizes came from.
    """

    code = "user"
    refused = False

    def __init__(
        self,
        message: str,
        *,
        origin: Origin | None = None,
        remedy: str | None = None,
        notes: tuple[str, ...] = (),
        sides: tuple[Any, ...] = (),
    ) -> None:
        self.message = message
        self.origin = origin
        self.remedy = remedy
        self.notes = notes
        self.sides = sides
        super().__init__(message)

    def located(self, origin: Origin | None, *notes: str) -> UserError:
        """The same error at an origin, unless it has one already, with more notes."""
        if self.origin is not None or origin is None:
            return self
        notes = (*self.notes, *notes)
        found = type(self)(self.message, origin=origin, remedy=self.remedy, notes=notes)
        found.sides = self.sides
        return found

    def __str__(self) -> str:
        parts = [self.message]
        if self.origin is not None:
            parts.append(f"  --> {self.origin}")
            if source := self.origin.shown():
                parts += [f"   | {source}", f"   | {'^' * len(source)}"]
        parts += [f"  {note}" for note in self.notes]
        if self.remedy:
            parts.append(f"  help: {self.remedy}")
        return "\n".join(parts)


class ArgumentError(UserError, ValueError):
    """An argument of the right type whose value a function does not take."""

    code = "argument"


class ShapeError(UserError, ValueError):
    """Shapes that do not fit each other."""

    code = "shape"


class AxisError(ShapeError, IndexError):
    """An axis that an array does not have."""


class DTypeError(UserError, TypeError):
    """Element types that do not fit each other or the operation."""

    code = "dtype"


class NumberOutOfRange(DTypeError, ValueError, OverflowError):
    """A Python integer that the element type beside it cannot hold, or an operation not take."""

    code = "range"


class IndexOutOfRange(UserError, IndexError):
    """An index that is out of range for its axis."""

    code = "index"


class CallError(UserError, TypeError):
    """A function called with arguments that it does not take, or without required ones."""

    code = "call"


class PicklingError(UserError, TypeError):
    """A staged function that can't be pickled, as its name can't be imported."""

    code = "pickle"


class UnknownName(UserError, AttributeError):
    """A name that a module of dlvm does not define."""

    code = "name"


class NotFinite(UserError, FloatingPointError):
    """A NaN or an infinity in a call that checks for them."""

    code = "number"


class TooDeep(UserError, RecursionError):
    """A recursion for which the stack has no space."""

    code = "depth"


class OutOfMemory(UserError, MemoryError):
    """A value for which no memory is left."""

    code = "memory"

    def __init__(self, message: str, **more: Any) -> None:
        more.setdefault("remedy", SMALLER)
        super().__init__(message, **more)


class AssertionFailed(UserError):
    """A ``dlvm.assert_`` whose condition was false."""

    code = "assert"


class FalseAssumption(UserError):
    """A ``dlvm.assume`` whose matrix does not have the property, as ``dlvm.debug`` found."""

    code = "assumption"


class TraceError(UserError):
    """Python code that cannot be staged, or a staged value where only a concrete one will do."""

    code = "trace"


class StagedTypeError(TraceError, TypeError):
    """A staged value used where Python requires another type of value."""


class StagedAttributeError(TraceError, AttributeError):
    """An attribute that staged values do not have."""


class StaleState(TraceError):
    """A program no longer is what its function would be traced to: something that the function
    reads has changed, and no comparison of each call saw it.
    """


class TraceWarning(UserWarning):
    """Something that a trace noticed and that may not be what the user meant; it is told once."""


class DonationError(UserError, ValueError):
    """A donated argument that cannot be donated."""

    code = "donation"


class IRError(UserError):
    """IR text or a program that breaks a rule of the language."""

    code = "ir"


class ExtensionError(UserError):
    """A pass or a law from outside the package that failed while it was applied."""

    code = "extension"
    refused = True


class CompilerError(DlvmError):
    """A bug in dlvm itself, or in a pass from outside; dlvm's should be reported.

    ``stage`` is the stage of compilation, if it is known. ``reproducer`` is the file that replays
    the failure; it is empty if none could be written, and None if none was tried yet. ``author`` is
    whose bug it is.
    """

    def __init__(
        self,
        message: str,
        *,
        stage: str = "",
        reproducer: str | None = None,
        author: str = "dlvm",
    ) -> None:
        self.message = message
        self.author = author
        self.stage = stage
        self.reproducer = reproducer
        super().__init__(message)

    def __str__(self) -> str:
        if not self.reproducer:
            return self.message
        return (
            f"{self.message}\n  help: this is a bug in {self.author}; dlvm repro {self.reproducer}"
        )


LONGEST = 200
"""Characters of a name for which a near one is looked for, which takes their square in time."""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or None.

    One slip in four letters is allowed, and at most three slips.
    """
    if len(name) > LONGEST:
        return None
    most = min(max(len(name) // 4, len(name) > 2), 3)
    found = sorted((slips(name, k), k) for k in known if abs(len(name) - len(k)) <= most)
    return found[0][1] if found and found[0][0] <= most else None


def slips(a: str, b: str) -> int:
    """The distance between two names in slips: letters added, left out, changed, or two swapped.

    This is the restricted Damerau-Levenshtein distance, in which no letter is changed twice.
    """
    before, last = [0] * (len(b) + 1), [*range(len(b) + 1)]
    for i, x in enumerate(a):
        row = [i + 1]
        for j, y in enumerate(b):
            cost = min(last[j + 1] + 1, row[j] + 1, last[j] + (x != y))
            if i and j and x == b[j - 1] and y == a[i - 1]:
                cost = min(cost, before[j - 1] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name; empty if no known name is close."""
    meant = closest(name, known)
    return f"; did you mean {meant!r}?" if meant else ""
