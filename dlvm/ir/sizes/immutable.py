"""What the classes of sizes share: a hash, a text and symbols, each of which is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


class Immutable:
    """What has a hash, a text, symbols and bounds, each of which is computed once."""

    __slots__ = ("_hash", "_names", "_range", "_text")

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", found := hash(self._parts()))
            return found

    def __str__(self) -> str:
        try:
            return self._text
        except AttributeError:
            object.__setattr__(self, "_text", found := self._written())
            return found

    __repr__ = __str__

    def names(self) -> tuple[str, ...]:
        """Every symbol in it, as often as it occurs."""
        try:
            return self._names
        except AttributeError:
            object.__setattr__(self, "_names", found := tuple(self._occurring()))
            return found

    _parts: Callable[[], Any]
    _written: Callable[[], str]
    _occurring: Callable[[], Iterator[str]]
