"""Functions while they are followed: the possible values of their variables and registers."""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .abstract_values import NOTHING, Value, widened
from .instructions import Entry
from .summaries import Summary, summary_of


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

    def watched(self, site: Site, name: str) -> Value:
        """The values of a variable; the operation that asks is evaluated again if they grow."""
        self.watchers.setdefault(name, set()).add(site)
        return self.variables.get(name, NOTHING)

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


class Frames:
    """All functions that are followed, and the operations of theirs that are to be evaluated."""

    def __init__(self) -> None:
        self.known: dict[Any, Frame] = {}
        self.dirty: dict[Frame, None] = {}
        self.late: list[tuple[Frame, Value]] = []
        """Values of variables of functions of which everything counts as read."""
        self._unions: dict[tuple[Value, Value], Value] = {}

    def joined(self, a: Value, b: Value) -> Value:
        """The union of two values, widened."""
        if a is b or not b:
            return a
        if not a:
            return widened(b)
        key = (a, b)
        if key not in self._unions:
            self._unions[key] = a if b <= a else widened(a | b)
        return self._unions[key]

    def grow(self, frame: Frame, name: str, x: Value) -> None:
        """Notes that a variable may have other values, too."""
        known = frame.variables.get(name, NOTHING)
        new = self.joined(known, x)
        if new is known or new == known:
            return
        frame.variables[name] = new
        if frame.lost:
            self.late.append((frame, x))
        elif stale := frame.stale(name):
            frame.pending.update(stale)
            self.dirty[frame] = None
        self.again(frame.watchers.get(name, ()))

    def again(self, sites: Iterable[Site]) -> None:
        """Notes that operations are to be evaluated once more."""
        for site in sites:
            if site.operation >= 0:
                site.frame.pending.add(site.operation)
                self.dirty[site.frame] = None

    def start(self, frame: Frame) -> None:
        """Every operation of a function is to be evaluated, once."""
        if not frame.started:
            frame.start()
            self.dirty[frame] = None

    def give(self, frame: Frame, x: Value) -> None:
        """Records a value that a function returns."""
        new = self.joined(frame.returns, x)
        if new is not frame.returns and new != frame.returns:
            frame.returns = new
            self.again(frame.readers)
