"""Where captured state stands: ways to read it that can be looked at, not only called.

A place is read by calling it. As it says what it reads of what, places that are read at each
call can be put together: what stands in one namespace is read at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Read = Callable[[], Any]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Held:
    """Something that is held on to, such as the namespace of a module."""

    value: Any

    def __call__(self) -> Any:
        """It."""
        return self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Item:
    """What a container holds under a key."""

    of: Read
    key: Any

    def __call__(self) -> Any:
        """Read it."""
        return self.of()[self.key]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attribute:
    """What an object has under a name."""

    of: Read
    name: str

    def __call__(self) -> Any:
        """Read it."""
        return getattr(self.of(), self.name)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Items:
    """What a container holds under several keys."""

    of: Read
    keys: tuple[Any, ...]
    made: Callable[[tuple[Any, ...]], Any]

    def __call__(self) -> Any:
        """Read them."""
        found = self.of()
        return self.made(tuple(found[k] for k in self.keys))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Derived:
    """Something computed of what stands elsewhere, such as the keys of a container."""

    of: Read
    compute: Callable[[Any], Any]

    def __call__(self) -> Any:
        """Compute it."""
        return self.compute(self.of())


def standing(read: Any) -> Any:
    """Where a place stands, as a key: two ways to read one place have the same."""
    if isinstance(read, Held):
        return id(read.value)
    if isinstance(read, Item):
        return (standing(read.of), type(read.key), read.key)
    if isinstance(read, Attribute):
        return (standing(read.of), read.name)
    return (standing(read.of),) if isinstance(read, Derived | Items) else id(read)
