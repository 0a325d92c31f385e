"""Every error that leaves dlvm: what was expected, what was found, where, and one remedy.

Two families only. A ``UserError`` speaks about the user's program and points at the user's
line; a ``CompilerError`` is our fault. This room knows nothing of the IR.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

WIDTH = 95
"""How much of the user's line is shown."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an operation was written: the user's file and line, and its ordinal in the trace.

    ``derived`` says what it is of what was written there, such as ``the adjoint of tanh``.
    """

    file: str
    line: int
    ordinal: int = -1
    derived: str = ""

    def of(self, derived: str) -> Origin:
        """The place of an operation that was derived from the one that stands here."""
        return replace(self, derived=derived)

    def source(self) -> str:
        """The text of the user's line, or nothing where the file can't be read."""
        return linecache.getline(self.file, self.line).strip()

    def shown(self) -> str:
        """The same on one line of a terminal."""
        source = self.source()
        return source if len(source) <= WIDTH else f"{source[: WIDTH - 3]}..."

    def __str__(self) -> str:
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


class DlvmError(Exception):
    """The common root of all errors raised by dlvm."""


class UserError(DlvmError):
    """The program being compiled, or the way it is called, is wrong.

    ``refused`` says that a stage of compilation that may say so has said so. ``sides`` are the two
    sizes of an equation that does not hold; whoever traces says where they came from.
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
        """The same error at a place, where it has none yet, with more notes."""
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
    """Shapes that don't fit one another."""

    code = "shape"


class AxisError(ShapeError, IndexError):
    """An axis that an array does not have."""


class DTypeError(UserError, TypeError):
    """Element types that don't fit one another or the operation."""

    code = "dtype"


class IndexOutOfRange(UserError, IndexError):
    """An index outside its axis."""

    code = "index"


class CallError(UserError, TypeError):
    """A function called with arguments that it does not take, or without those that it needs."""

    code = "call"


class UnknownName(UserError, AttributeError):
    """A name that a module of ours has not."""

    code = "name"


class NotFinite(UserError, FloatingPointError):
    """A NaN or an infinity that somebody asked to be told of."""

    code = "number"


class TooDeep(UserError, RecursionError):
    """A function that calls itself more often than there is room for."""

    code = "depth"


class AssertionFailed(UserError):
    """A ``dlvm.assert_`` whose condition was false."""

    code = "assert"


class TraceError(UserError):
    """Python that can't be staged, or a staged value used where it means nothing."""

    code = "trace"


class StagedTypeError(TraceError, TypeError):
    """A staged value where Python wants another kind of value."""


class StagedAttributeError(TraceError, AttributeError):
    """An attribute that a staged value does not have."""


class DonationError(UserError, ValueError):
    """A donated argument that can't be given away."""

    code = "donation"


class IRError(UserError):
    """IR text or an IR program that breaks a rule of the language."""

    code = "ir"


class CompilerError(DlvmError):
    """dlvm itself is wrong; the program that showed it should be reported.

    ``stage`` is where on the road, as far as it is known; ``reproducer`` is the file that replays
    it, empty where none could be written and None where nobody has tried yet.
    """

    def __init__(self, message: str, *, stage: str = "", reproducer: str | None = None) -> None:
        self.message = message
        self.stage = stage
        self.reproducer = reproducer
        super().__init__(message)

    def __str__(self) -> str:
        if not self.reproducer:
            return self.message
        return f"{self.message}\n  help: this is a fault of dlvm; dlvm repro {self.reproducer}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant: one slip in four letters, and no more than three."""
    most = min(max(len(name) // 4, len(name) > 2), 3)
    found = sorted((slips(name, k), k) for k in known if abs(len(name) - len(k)) <= most)
    return found[0][1] if found and found[0][0] <= most else None


def slips(a: str, b: str) -> int:
    """How many letters must be added, left out, changed or exchanged with the next to make b of a.

    The distance of Damerau and Levenshtein, of which no letter is changed twice.
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
    """The end of a message on an unknown name: what was probably meant, if anything was."""
    meant = closest(name, known)
    return f"; did you mean {meant!r}?" if meant else ""
