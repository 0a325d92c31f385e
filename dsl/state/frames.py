"""Functions while they are followed: the possible values of their variables and registers."""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .instructions import Entry
from .summaries import Summary, summary_of
from .things import NOTHING, Value


@dataclass(eq=False, slots=True)
class Frame:
    """A function whose code is read.

    ``fn`` is the function where there is one; one that is made inside another has ``outer``.
    """

    code: types.CodeType
    globals: dict[str, Any]
    fn: Any = None
    outer: Frame | None = None
    variables: dict[Any, Value] = field(default_factory=dict[Any, Value])
    """Of variables by name, and of registers by number."""
    returns: Value = NOTHING
    readers: set[Site] = field(default_factory=set["Site"])
    """Operations that use what the function returns."""
    watchers: dict[str, set[Site]] = field(default_factory=dict[str, set["Site"]])
    """Operations that read a variable, beside those of which the summary tells."""
    pending: set[int] = field(default_factory=set[int])
    """Operations of which some source has changed."""
    evaluated: int = 0
    summary: Summary | None = None
    started: bool = False
    lost: bool = False
    """Whether everything that it mentions counts as read."""
    _sites: dict[int, Site] = field(default_factory=dict[int, "Site"])

    def start(self) -> None:
        """Every operation is to be evaluated."""
        self.started = True
        self.summary = summary_of(self.code)
        if self.summary is not None:
            self.variables = {**self.summary.fixed, **self.variables}
            self.pending = set(range(len(self.summary.operations)))

    def site(self, n: int) -> Site:
        """The site of an operation."""
        if n not in self._sites:
            op = self.summary.operations[n] if self.summary else None
            line = op.line if op else self.code.co_firstlineno
            self._sites[n] = Site(self, op.step if op else 0, line, n)
        return self._sites[n]

    def stale(self, entry: Entry) -> Iterable[int]:
        """The operations that read a variable or register."""
        return self.summary.readers.get(entry, ()) if self.summary else ()


@dataclass(frozen=True, slots=True)
class Closure:
    """A function defined inside another one: its frame and the values of its defaults."""

    frame: Frame


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A step of a function, at which uses of arrays are recorded, and the operation there."""

    frame: Frame
    step: int
    line: int
    operation: int = -1
