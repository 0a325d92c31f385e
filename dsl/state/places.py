"""Places of captured state: ways to read a value that can be inspected as well as called.

A place is read by calling it. Because it says which key it reads of which owner, the reads of one
call can be combined: all keys of one namespace are read together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any, TypeGuard

from dlvm.dsl.trace.scopes import is_array
from dlvm.ir import Array

Read = Callable[[], Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Held:
    """An object that is held, such as the namespace of a module."""

    value: Any

    def __call__(self) -> Any:
        """Returns the object."""
        return self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Item:
    """The item of a container under a key."""

    of: Read
    key: Any

    def __call__(self) -> Any:
        """Reads the place."""
        return self.of()[self.key]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attribute:
    """An attribute of an object."""

    of: Read
    name: str

    def __call__(self) -> Any:
        """Reads the place."""
        return getattr(self.of(), self.name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Items:
    """The items of a container under several keys."""

    of: Read
    keys: tuple[Any, ...]
    made: Callable[[tuple[Any, ...]], Any]

    def __call__(self) -> Any:
        """Reads the items."""
        found = self.of()
        return self.made(tuple(found[k] for k in self.keys))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Derived:
    """A value computed from another place, such as the keys of a container."""

    of: Read
    compute: Callable[[Any], Any]

    def __call__(self) -> Any:
        """Computes the value."""
        return self.compute(self.of())


def is_numeric(value: Any) -> TypeGuard[Array]:
    """Whether something is an array of numbers; one of objects is a container."""
    return is_array(value) and value.dtype != object


def filled(cell: Any) -> bool:
    """Whether a variable of a closure has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def kept_by(fn: FunctionType) -> Iterator[tuple[CellType, Read, Any]]:
    """The variables of a closure that have a value: the cell, how it is read, and the value."""
    for cell in fn.__closure__ or ():
        if filled(cell):
            yield cell, Attribute(Held(cell), "cell_contents"), cell.cell_contents


def slots_of(cls: type) -> tuple[str, ...]:
    """The names of the slots that a class adds, as they are read from outside of it."""
    found: Any = cls.__dict__.get("__slots__", ())
    names = (found,) if isinstance(found, str) else [n for n in found if isinstance(n, str)]
    own = cls.__name__.lstrip("_")
    return tuple(f"_{own}{n}" if n.startswith("__") and not n.endswith("__") else n for n in names)


class Numbers:
    """A number for each place: two ways to read one place have the same."""

    def __init__(self) -> None:
        self._known: dict[Any, int] = {}

    def __call__(self, read: Any) -> int:
        """The number of the place that is read."""
        number = self._known.get(read)
        if number is None:
            number = self._known.setdefault(self._key(read), len(self._known))
            self._known[read] = number
        return number

    def _key(self, read: Any) -> Any:
        if isinstance(read, Held):
            return id(read.value)
        if isinstance(read, Item):
            return (self(read.of), type(read.key), read.key)
        if isinstance(read, Attribute):
            return (self(read.of), read.name)
        return (self(read.of),) if isinstance(read, Derived | Items) else (id(read), *[None] * 3)
