"""The possible values of a variable or a stack entry, as far as code tells.

A value is a set of things. A ``Place`` is captured state that exists now; the marks stand for
objects that are made while the function runs: by the trace, by Python or NumPy, or by unknown code.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .places import Held, Read

Value: TypeAlias = "frozenset[Any]"
NOTHING: Value = frozenset()


@dataclass(frozen=True, slots=True)
class Mark:
    """An object that is made while the function runs."""

    name: str


STAGED = Mark("a staged value, or a tree of them")
HOST = Mark("a value that Python or NumPy computed")
ANY = Mark("anything")
NULL = Mark("nothing, where Python's stack has a gap")
UNKNOWN: Value = frozenset((ANY,))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Place:
    """Captured state: its path in messages, how it is read, and its present value.

    A place that is ``known`` is part of the code, as a constant is, and needs no guard.
    """

    path: str
    read: Read
    value: Any
    depth: int = 0
    known: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """A tuple or list that the function makes, part by part."""

    parts: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Iter:
    """An object that yields such a value when it is iterated, indexed or unpacked."""

    of: Value


@dataclass(frozen=True, slots=True)
class Bound:
    """A function with its first argument, or with some arguments by name."""

    function: Any
    first: Value
    named: tuple[tuple[str, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an object whose code is not read, such as ``items`` of a dict."""

    of: Any
    name: str


@dataclass(frozen=True, slots=True)
class Super:
    """The result of ``super()``: attributes are searched behind a class."""

    behind: Value
    first: Value


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """What a call is given; ``rest`` are values of further arguments."""

    args: Sequence[Value] = ()
    named: Mapping[str, Value] = field(default_factory=dict[str, Value])
    rest: Value | None = None

    @property
    def all(self) -> list[Value]:
        """The values of all arguments."""
        return [*self.args, *self.named.values(), *([self.rest] if self.rest else [])]


def only(thing: Any) -> Value:
    """The value that is one thing."""
    return frozenset((thing,))


def union(values: Iterable[Value]) -> Value:
    """The union of several values."""
    found = [*values]
    return found[0] if len(found) == 1 else NOTHING.union(*found)


_CONSTANTS: weakref.WeakValueDictionary[Any, Place] = weakref.WeakValueDictionary()


def constant(value: Any) -> Value:
    """The place of a constant in the code, which is the same for all code that has it."""
    if isinstance(value, tuple):
        return only(Built(tuple(constant(v) for v in value)))  # pyright: ignore[reportUnknownVariableType]
    key: Any = (type(value), repr(value))
    place = _CONSTANTS.get(key)
    if place is None:
        _CONSTANTS[key] = place = Place("", Held(value), value, 0, True)
    return only(place)


def depth(thing: Any) -> int:
    """The depth of nested containers that the function built."""
    parts = (
        thing.parts if isinstance(thing, Built) else (thing.of,) if isinstance(thing, Iter) else ()
    )
    return 1 + max((depth(t) for part in parts for t in part), default=0) if parts else 0


_CONTAINERS = frozenset((Built, Iter))


def flat(value: Value) -> Value:
    """The things in a value, and those inside of containers that the function built."""
    if not _CONTAINERS.intersection(map(type, value)):
        return value
    built = [t for t in value if type(t) in _CONTAINERS]
    inside = [flat(union(t.parts) if isinstance(t, Built) else t.of) for t in built]
    return value.difference(built).union(*inside)


_DEEP = 4
_WIDE = 8


def widened(value: Value) -> Value:
    """A value with few built containers; many or nested ones are replaced by their contents.

    Walks of a function that builds in a loop, or calls itself, therefore end.
    """
    if not _CONTAINERS.intersection(map(type, value)):
        return value
    built = [t for t in value if isinstance(t, (Built, Iter))]
    if len(built) <= _WIDE and all(depth(t) <= _DEEP for t in built):
        return value
    inside = flat(frozenset(built))
    return value.difference(built) | {Iter(inside | {ANY}), ANY}
