"""Reads and compares all captured state of one program at each call.

All keys of one namespace are read together and compared by identity with the last call; only a
different object is compared as its guard says. Objects on the way of a path are read anew each time
and never held, because a program must not keep the objects that it reads alive.
"""

from __future__ import annotations

import operator
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlvm.dsl.trace.scopes import is_array
from dlvm.ir import TensorType

from .guards import ELEMENTS, Found, Guard, brief, present
from .places import Attribute, Derived, Held, Item, Items, Read

Pick = Callable[[Any], Sequence[Any]]
Slot = tuple[int, int]
"""The number of a namespace, and the position of a key in it."""
_GONE = (NameError, LookupError, AttributeError, TypeError, ValueError)
_NEVER = object()
_is = operator.is_


@dataclass(slots=True)
class GuardCheck:
    """A guard on values read from one namespace."""

    slots: tuple[int, ...]
    guard: Guard
    made: Callable[[tuple[Any, ...]], Any]

    def holds(self, now: Sequence[Any]) -> bool:
        """Whether the present value is allowed."""
        return self.guard.allows(self.made(tuple(now[i] for i in self.slots)))


class Keys(list[Any]):
    """The keys that are read from one namespace, each one once."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[Any, int] = {}

    def place(self, key: Any) -> int:
        """The position of a key among those that are read."""
        plain = type(key) in (str, int)
        found = self._places.setdefault((type(key), key) if plain else id(key), len(self))
        if found == len(self):
            self.append(key)
        return found


@dataclass(slots=True)
class Namespace:
    """The keys read from one object, which is held or was itself read from another namespace.

    Some values are compared with those of the last call, others are only followed.
    """

    parent: Slot | None
    held: Any
    kind: type
    compared: Keys = field(default_factory=Keys)
    followed: Keys = field(default_factory=Keys)
    checks: list[GuardCheck] = field(default_factory=list[GuardCheck])
    expected: tuple[Any, ...] = ()
    pick: Pick | None = None
    follow: Pick | None = None

    def finish(self) -> None:
        """Builds the reader; every value is compared in full at the first call."""
        self.expected = (_NEVER,) * len(self.compared)
        self.pick = _picker(self.kind, self.compared)
        self.follow = _picker(self.kind, self.followed)

    def allows(self, now: Sequence[Any]) -> bool:
        """Whether the guards allow the present values, which are then remembered."""
        if all(check.holds(now) for check in self.checks):
            self.expected = tuple(now[: len(self.compared)])
            return True
        return False


def _picker(kind: type, keys: list[Any]) -> Pick | None:
    """A function that reads keys into a tuple; a single key is read twice, which is quickest."""
    if not keys:
        return None
    if kind is types.CellType:
        contents = operator.attrgetter("cell_contents")
        return lambda _: tuple(map(contents, keys))
    if kind is types.FunctionType:
        code = operator.attrgetter("__code__")
        return lambda _: tuple(map(code, keys))
    twice = keys if len(keys) > 1 else keys * 2
    return (operator.attrgetter if kind is Attribute else operator.itemgetter)(*twice)


class Watch:
    """Reads captured state: returns the captured arrays, or None if a guard fails."""

    def __init__(self, guards: Sequence[Guard], captured: Sequence[Found]) -> None:
        self._numbers: dict[Any, int] = {}
        self._spaces: list[Namespace] = []
        self._derived: list[tuple[Slot, Callable[[Any], Any], Guard]] = []
        self._weak: list[tuple[Slot | Read, weakref.ref[Any]]] = []
        self._computed: list[Guard] = []
        for guard in guards:
            self._add(guard)
        self._arrays = [(self._slot(found.read), found.read) for found in captured]
        for space in self._spaces:
            space.finish()
        self._plan = [(s.parent, s.held, s.pick, s, s.follow) for s in self._spaces]

    def __call__(self) -> Sequence[Any] | None:
        """Reads and compares."""
        try:
            values: list[Sequence[Any]] = []
            for at, x, pick, space, follow in self._plan:
                if at is not None:
                    x = values[at[0]][at[1]]
                if pick is not None:
                    now = pick(x)
                    if not all(map(_is, now, space.expected)) and not space.allows(now):
                        return None
                values.append(() if follow is None else follow(x))
            for of, ref in self._weak:
                if (values[of[0]][of[1]] if isinstance(of, tuple) else of()) is not ref():
                    return None
            for (i, j), compute, guard in self._derived:
                if not guard.allows(compute(values[i][j])):
                    return None
            for guard in self._computed:
                if not guard.holds():
                    return None
            return [read() if at is None else values[at[0]][at[1]] for at, read in self._arrays]
        except _GONE:
            return None

    @property
    def reads(self) -> int:
        """The number of places that a call reads."""
        together = sum(len(s.compared) + len(s.followed) for s in self._spaces)
        return together + len(self._derived) + len(self._computed)

    # -- putting places together -------------------------------------------------------------------

    def _add(self, guard: Guard) -> None:
        read, expected = guard.read, guard.expected
        if isinstance(read, Held):
            return  # it is held, so it stays
        if isinstance(expected, weakref.ref):  # pyright: ignore[reportUnknownMemberType]
            at = self._slot(read)
            self._weak.append((at or read, expected))  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(read, Derived) and (at := self._slot(read.of)) is not None:
            self._derived.append((at, read.compute, guard))
        elif isinstance(read, Items) and (number := self._space(read.of, Item)) is not None:
            self._compare(number, read.keys, guard, read.made)
        elif (place := self._place(read)) is not None:
            self._compare(place[0], [place[1]], guard, operator.itemgetter(0))
        else:
            self._computed.append(guard)

    def _compare(self, number: int, keys: Sequence[Any], guard: Guard, made: Any) -> None:
        space = self._spaces[number]
        slots = tuple(space.compared.place(k) for k in keys)
        space.checks.append(GuardCheck(slots, guard, made))

    def _slot(self, read: Read) -> Slot | None:
        """The namespace and position under which a place is read."""
        place = self._place(read)
        return place and (place[0], self._spaces[place[0]].followed.place(place[1]))

    def _place(self, read: Read) -> tuple[int, Any] | None:
        """The namespace and the key of a place."""
        if isinstance(read, Attribute) and _is_cell(read.of):
            return self._numbered(types.CellType, None, None), read.of()
        if isinstance(read, Attribute) and read.name == "__code__" and isinstance(read.of, Held):
            return self._numbered(types.FunctionType, None, None), read.of()
        if isinstance(read, Attribute) and "." not in read.name:
            number, key = self._space(read.of, Attribute), read.name
        elif isinstance(read, Item):
            number, key = self._space(read.of, Item), read.key
        else:
            return None
        return None if number is None else (number, key)

    def _space(self, of: Read, kind: type) -> int | None:
        """The namespace of the object at a place."""
        if isinstance(of, Held):
            return self._numbered(kind, None, of.value)
        at = self._slot(of)
        return None if at is None else self._numbered(kind, at, None)

    def _numbered(self, kind: type, parent: Slot | None, held: Any) -> int:
        key = (kind, parent, id(held))
        if key not in self._numbers:
            self._numbers[key] = len(self._spaces)
            self._spaces.append(Namespace(parent, held, kind))
        return self._numbers[key]


def _is_cell(of: Read) -> bool:
    return isinstance(of, Held) and isinstance(of.value, types.CellType)


class State:
    """All captured state of a program: its guards, and the arrays read at each call."""

    def __init__(
        self, guards: Sequence[Guard], captured: Sequence[tuple[Found, TensorType]]
    ) -> None:
        self.guards = tuple(guards)
        self.captured = tuple(captured)
        self.watch = Watch(self.guards, [found for found, _ in self.captured])
        self.is_empty = not self.guards and not self.captured

    def current(self) -> Sequence[Any] | None:
        """The present captured arrays; None if the program does not hold for the present state."""
        found = () if self.is_empty else self.watch()
        if found is None:
            return None
        types_ = (t for _, t in self.captured)
        return found if all(map(_is_of, found, types_)) else None

    def changed(self) -> str | None:
        """Says what has changed first since the trace; None if nothing has."""
        return next(self.changes(), None)

    def changes(self) -> Iterator[str]:
        """Says all that has changed since the trace."""
        for guard in self.guards:
            if not guard.holds():
                yield f"{guard.path} was {brief(guard.expected)}, is {brief(guard.now())}"
        for found, t in self.captured:
            array = present(found.read)
            if not _is_of(array, t):
                yield f"the captured {found.path} was {t}, is {brief(array)}"

    def other_arrays(self) -> list[str]:
        """The arrays with which NumPy computed during the trace, and that are others now."""
        changed = (g for g in self.guards if g.is_of_elements and not g.holds())
        return [guard.path.removeprefix(ELEMENTS) for guard in changed]


def _is_of(array: Any, t: TensorType) -> bool:
    """Whether a captured array still has its type; captured arrays have no open sizes."""
    return is_array(array) and array.dtype == t.dtype.numpy and array.shape == t.shape
