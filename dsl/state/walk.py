"""What the parts that follow code share: places, what was found, and the two ways back.

The parts are ``Attributes``, ``Items``, ``Operators``, ``Functions``, ``Handed``, ``Natives`` and
``Calls``; each is given those before it in this list that it needs. Two methods are needed by parts
that are made earlier, because a load may call a property, and most values may be passed to unknown
code: ``Calls.call`` and ``Handed.hand``. The parts reach these two through the ``Walk``, and every
other method through the part that owns it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .abstract_values import HOST, STAGED, UNKNOWN, Arguments, Place, Value, flat, only
from .frames import Site
from .guards import CONTAINERS, present
from .places import Attribute, Derived, Held, Item, Read, is_numeric
from .record import Scalar, Seen, Use
from .whose_code import class_is_read, holds_numbers, own_names, special_names

_DEPTH = 32
_MANY = 4000
_IMPLICIT = {
    *("__init__", "__new__", "__post_init__", "__repr__", "__str__", "__del__", "__hash__"),
    "__annotations__",
    "__init_subclass__",
}


class Walk:
    """One walk over all code that can be called: what it read, and the places that it met."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.opened = OpenObjects(seen)
        self._places: dict[Any, Place] = {}
        self._results: dict[Any, Any] = {}

    def tie(self, call: Callable[..., Value], hand: Callable[..., bool]) -> None:
        """Gives the parts the two ways back."""
        self._call, self._hand = call, hand

    def call(self, site: Site, callee: Value, given: Arguments) -> Value:
        """The possible results of a call."""
        return self._call(site, callee, given)

    def hand(
        self, site: Site, values: Iterable[Value], use: Use = Use.READ, staged: bool = False
    ) -> None:
        """Records that values are passed to unknown code, or stored where they are not followed.

        Functions among them may be called with the others, which are ``staged`` before.
        """
        given = tuple(values)
        self.once(("hand", use, staged, *given), self._hand, site, given, use, staged)

    def once(self, key: Any, compute: Callable[..., Any], *given: Any) -> Any:
        """The result of a computation, which is kept if it is the same at each line of the code."""
        found = self._results.get(key)
        if found is None:
            before = self.seen.local
            found = compute(*given)
            if self.seen.local == before:
                self._results[key] = found
        return found

    def place(
        self, key: Any, path: str, read: Read, value: Any, depth: int = 0, known: bool = False
    ) -> Place:
        """The place for a key; one key always has the same place."""
        if key not in self._places:
            self._places[key] = Place(path, read, value, depth, known)
        return self._places[key]

    def held(self, value: Any, path: str = "") -> Place:
        """The place of a value that is part of the code."""
        return self.place(("held", id(value)), path, Held(value), value, 0, True)

    def loaded(self, place: Place) -> Value:
        """Records that the code loads from a place."""
        self.seen.loaded(place)
        return only(place)

    def under(self, place: Place, path: str, read: Read, key: Any, value: Any) -> Value:
        """A place inside another one."""
        if place.depth >= _DEPTH:
            self.seen.too_much(place.path, "nested too deeply to be followed")
            return UNKNOWN
        return self.loaded(self.place((place, key), path, read, value, place.depth + 1))

    def attribute(self, place: Place, name: str, value: Any) -> Value:
        """An attribute as a place."""
        read = Attribute(place.read, name)
        return self.under(place, path_of(place, name), read, ("attribute", name), value)

    def item(self, place: Place, key: Any, value: Any) -> Value:
        """The item of a container under a key, as a place."""
        read = Item(place.read, key)
        return self.under(place, f"{place.path}[{key!r}]", read, ("item", type(key), key), value)

    def view(self, place: Place, view: Any) -> Value:
        """A view of an array: the same place, with another shape."""
        key = (place, "view", view.shape, view.strides)
        return only(self.place(key, place.path, place.read, view, -1))


class OpenObjects:
    """Objects of which any attribute may be loaded that the code loads from anything."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self.names: set[str] = set()
        """Names that the code loads from values of which nothing is known."""
        self._followed: dict[Place, set[str]] = {}
        """The names of attributes that were followed, for each object."""
        self._classes: dict[int, tuple[set[str], set[str]]] = {}
        self._first: dict[int, Place] = {}
        """The first place of each object, by identity."""

    def open(self, place: Place) -> None:
        """Records that any attribute that the code loads anywhere may be loaded from this value.

        Objects refer to one another in circles: one that was opened by another path is compared
        there, and here it is compared whether it is the same.
        """
        value: Any = place.value
        first = self._first.setdefault(id(value), place)
        if first is not place and not isinstance(value, type):
            there, here = first.read, place.read  # no place, which would keep the object alive
            if present(there) is value and present(here) is value:
                same = Derived(here, lambda found: found is there())
                self._seen.guard(f"whether {place.path} is {first.path}", same, True)
                return
        opened = class_is_read(value) if isinstance(value, type) else holds_numbers(value)
        if opened and len(self._followed) >= _MANY:
            self._seen.too_much(place.path, f"one of more than {_MANY} objects in reach")
        elif opened:
            self._followed.setdefault(place, set())

    def rest(self) -> Iterator[tuple[Place, list[str]]]:
        """Objects with attributes that were not followed yet: the names of those that exist."""
        for place, done in [*self._followed.items()]:
            value: Any = place.value
            special, written = self._names_of(value if isinstance(value, type) else type(value))
            names = self.names - done if done else self.names | own_names(value) | special
            if names:
                done |= names
                yield place, sorted(names & (written | getattr(value, "__dict__", {}).keys()))

    def _names_of(self, cls: Any) -> tuple[set[str], set[str]]:
        """The special methods of a class that are read, and the names of all that it has."""
        if id(cls) not in self._classes:
            every = set[str]().union(*(k.__dict__ for k in cls.__mro__))
            self._classes[id(cls)] = (special_names(cls) - _IMPLICIT, every)
        return self._classes[id(cls)]


def path_of(place: Place, name: str) -> str:
    """The path of an attribute in messages."""
    return f"{place.path}.{name}" if place.path else name


def is_container(value: Any) -> bool:
    """Whether the items of something are places."""
    cls: Any = type(value)
    if isinstance(value, np.ndarray):
        return np.dtype(object) == value.dtype
    own = isinstance(getattr(cls, "__getitem__", None), types.FunctionType)
    return isinstance(value, CONTAINERS) and (not own or cls.__module__ == "collections")


def is_array(t: Any) -> bool:
    """Whether a thing is a captured array of numbers."""
    return isinstance(t, Place) and is_numeric(t.value)


def kinds(value: Value) -> set[str]:
    """Letters for what a value may be: staged (s), of Python or NumPy (h), anything (a)."""
    out: set[str] = set()
    for t in flat(value):
        plain = isinstance(t, Place) and (isinstance(t.value, Scalar) or is_numeric(t.value))
        out.add("s" if t is STAGED else "h" if t is HOST or plain else "a")
    return out
