"""Finds the captured state that a function reads, by following its code.

Every function that can be called from the roots is followed with the possible values of its
variables: the operations of its summary are evaluated until nothing new is found. A load of an
attribute or an item of captured state is a path (``self.w``, ``cfg["lr"]``), which ``Seen``
records.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from .abstract_values import ANY, NOTHING, UNKNOWN, Arguments, Iter, Value, constant, only, union
from .effects import Effects
from .frames import Frame, Frames, Site
from .instructions import Operation
from .places import Attribute, Held, Item
from .record import Seen, Use

_PATIENCE = 40
"""Number of times that a function's operations are evaluated, on average, after which everything
that it mentions counts as read.
"""
_IN_FRAMES = frozenset({"variable", "global", "store", "merged", "made", "defaults", "give"}) | {
    *("yield", "write_global"),
}
"""Operations that depend on the function in which they are."""


class Follow:
    """Follows functions, and all that they can call."""

    def __init__(self, seen: Seen) -> None:
        self.frames = Frames()
        self.effects = Effects(seen, self.frames)
        self.walk = self.effects.walk

    def __call__(self, root: Any, known: dict[str, Value], others: Value) -> None:
        """Walks a function with these arguments; any of ``others`` is possible for the rest."""
        start = Site(Frame((lambda: None).__code__, {}), 0, 0)
        self.walk.call(start, only(self.walk.held(root)), Arguments((), known, others))
        while True:
            while self.frames.dirty or self.frames.late:
                late, self.frames.late = self.frames.late, []
                for frame, x in late:
                    self.walk.hand(Site(frame, 0, frame.code.co_firstlineno), [x])
                for frame in [*self.frames.dirty][:1]:
                    self._walk(frame)
            if not self._follow_names(start):
                return

    def _walk(self, frame: Frame) -> None:
        """Evaluates the operations of a function whose sources have changed."""
        del self.frames.dirty[frame]
        if frame.lost:
            return
        operations = frame.summary.operations if frame.summary else ()
        pending = frame.pending
        try:
            while pending and frame.evaluated <= _PATIENCE * len(operations):
                for n in sorted(pending):
                    if n in pending:
                        pending.discard(n)
                        frame.evaluated += 1
                        self._evaluate(frame, n, operations[n])
        except (IndexError, ValueError):  # of a sequence in another form than code expects
            frame.lost = True
        if frame.summary is None or pending:
            frame.lost = True
        if frame.lost:
            self._all_of(frame)

    def _evaluate(self, frame: Frame, n: int, op: Operation) -> None:
        """Evaluates an operation; what it gives for the same values anywhere is kept."""
        variables, effect = frame.variables, op.effect
        values = [variables.get(s, NOTHING) for s in op.sources]
        if effect.name in _IN_FRAMES:
            results = self._in_frame(frame, n, op, values)
        else:
            key = (effect, *values)
            results = self.walk.once(key, self.effects.run, effect, frame.site(n), values)
        if not results:
            return
        for register, x in zip(op.results, results, strict=True):
            if x is not (old := variables.get(register, NOTHING)) and x != old:
                variables[register] = x
                frame.pending.update(frame.stale(register))

    def _in_frame(self, frame: Frame, n: int, op: Operation, values: list[Value]) -> Any:
        """An operation that depends on the variables or on the results of a function."""
        name, given = op.effect.name, op.effect.given
        if name == "merged":
            old = frame.variables.get(op.results[0], NOTHING)
            return (self.frames.joined(old, union(values)),)
        if name == "store":
            if given[0] in frame.code.co_freevars:
                self._store(frame.site(n), given[0], values[0])
            else:
                self.frames.grow(frame, given[0], values[0])
        elif name == "global":
            return (self._global(frame, given[0], values),)
        elif name == "variable":
            return (self.effects.functions.variable(frame.site(n), given[0]),)
        elif name == "made":
            return (self.effects.functions.made(frame.site(n), *values),)
        elif name == "defaults":
            self.effects.functions.defaults(frame.site(n), values[0], values[1], named=given[0])
        elif name == "write_global":
            self._write_global(frame.site(n), *given, *values)
        else:
            self.frames.give(frame, values[0] if name == "give" else only(Iter(values[0])))
        return ()

    def _all_of(self, frame: Frame) -> None:
        """Records everything that code mentions, because its stack can't be followed."""
        site = Site(frame, 0, frame.code.co_firstlineno)
        self.walk.opened.names.update(frame.code.co_names)
        names = [*frame.code.co_names, *frame.code.co_freevars]
        found = [self.effects.functions.variable(site, n) | self._global(frame, n) for n in names]
        found += frame.variables.values()
        self.walk.hand(site, [*found, *(constant(c) for c in frame.code.co_consts)])
        self.frames.give(frame, UNKNOWN)

    def _follow_names(self, site: Site) -> bool:
        """Follows the attributes, loaded from anything by name, of objects that were handed over.

        Says whether there was anything new.
        """
        opened, new = self.walk.opened, False
        for place, names in opened.rest():
            new = True
            for name in names:
                found = self.effects.attributes.load(site, only(place), name)
                use = Use.READ if name in opened.names else Use.WHOLE
                self.walk.hand(site, [found - {ANY}], use)
        return new

    def _store(self, site: Site, name: str, x: Value) -> None:
        """Records that a variable of an outer function gets a value."""
        frame = site.frame
        while name in frame.code.co_freevars and frame.outer is not None:
            frame = frame.outer
        if name in frame.code.co_freevars:
            cell = frame.fn.__closure__[frame.code.co_freevars.index(name)]
            self.walk.seen.written(site, name, Attribute(Held(cell), "cell_contents"))
            self.walk.hand(site, [x])
        self.frames.grow(frame, name, x)

    def _global(self, frame: Frame, name: str, local: Sequence[Value] = ()) -> Value:
        """The possible values of a global or built-in name, or of one in the body of a class."""
        if any(local):
            return union(local)
        space = frame.globals
        return self.walk.once(("global", id(space), name), self._of_space, space, name)

    def _of_space(self, space: dict[str, Any], name: str) -> Value:
        if name in space:
            return self.walk.loaded(
                self.walk.place((id(space), name), name, Item(Held(space), name), space[name])
            )
        found = getattr(builtins, name, None)
        return UNKNOWN if found is None else only(self.walk.held(found))

    def _write_global(self, site: Site, name: str, x: Value) -> None:
        """Records that the code writes a global variable."""
        self.walk.seen.written(site, name, Item(Held(site.frame.globals), name))
        self.walk.hand(site, [x])
