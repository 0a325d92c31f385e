"""What a variable or a place on the stack may be, as far as reading code tells.

A value is a set of things. A ``Place`` is captured state that stands somewhere now; the marks say
what is made while the function runs: by a trace, by Python or NumPy, or by nobody knows whom.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .places import Read

Value: TypeAlias = "frozenset[Any]"
NOTHING: Value = frozenset()


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that is made while the function runs."""

    name: str


STAGED = Mark("a staged value, or a tree of them")
HOST = Mark("a value that Python or NumPy computed")
ANY = Mark("anything")
NULL = Mark("nothing, where Python's stack has a gap")


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Captured state: its path in messages, how it is read, and what stands there now.

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
    """Something that gives such a value when it is iterated, indexed or unpacked."""

    of: Value


@dataclass(frozen=True, slots=True)
class Bound:
    """A function with its first argument, or with some that are given by name."""

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
    """What ``super()`` gives: attributes are looked for behind a class."""

    behind: Value
    first: Value


@dataclass(eq=False, slots=True)
class Frame:
    """A function that is read: what its variables may be and what it gives.

    ``fn`` is the function where there is one; one that is made inside another has ``outer``.
    """

    code: types.CodeType
    globals: dict[str, Any]
    fn: Any = None
    outer: Frame | None = None
    variables: dict[str, Value] = field(default_factory=dict[str, Value])
    returns: Value = NOTHING
    readers: set[Frame] = field(default_factory=set["Frame"])
    inner: list[Frame] = field(default_factory=list["Frame"])
    walks: int = 0


@dataclass(frozen=True, slots=True)
class Closure:
    """A function that is made inside another one; its frame and the values of its defaults."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Site:
    """A step of a function: what is done there with which array is recorded."""

    frame: Frame
    step: int
    line: int


def only(thing: Any) -> Value:
    """The value that is one thing."""
    return frozenset((thing,))


def union(values: Iterable[Value]) -> Value:
    """What is one of several values."""
    return NOTHING.union(*values)


def depth(thing: Any) -> int:
    """How deep what was built is nested."""
    parts = (
        thing.parts if isinstance(thing, Built) else (thing.of,) if isinstance(thing, Iter) else ()
    )
    return 1 + max((depth(t) for part in parts for t in part), default=0) if parts else 0


def flat(value: Value) -> Value:
    """The things in a value and in what was built of them."""
    out: set[Any] = set()
    for thing in value:
        if isinstance(thing, Built):
            out |= flat(union(thing.parts))
        elif isinstance(thing, Iter):
            out |= flat(thing.of)
        else:
            out.add(thing)
    return frozenset(out)


_DEEP = 4
_WIDE = 8


def widened(value: Value) -> Value:
    """A value with few things that were built: of many, or nested ones, only what is in them.

    So the values of a function that builds in a loop, or calls itself, come to an end.
    """
    built = [t for t in value if isinstance(t, Built | Iter)]
    if len(built) <= _WIDE and all(depth(t) <= _DEEP for t in built):
        return value
    inside = flat(frozenset(built))
    return value.difference(built) | {Iter(inside | {ANY}), ANY}
