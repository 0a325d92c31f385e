"""Places where a program keeps a value: a variable, and attributes and elements below it.

What a place holds is read in a frame, without calling any code of the user's: an attribute must be
one that Python itself reads and writes, and an element one of a dict or list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType, MemberDescriptorType
from typing import Any, Literal

from .frames import contents, local

Kind = Literal["fast", "cell", "global", "name"]
Way = Literal["attribute", "element"]


@dataclass(frozen=True, slots=True)
class Place:
    """A variable, and the attributes and elements that lead on from it."""

    kind: Kind
    name: str
    index: int = 0
    path: tuple[tuple[Way, Any], ...] = ()

    def below(self, way: Way, key: Any) -> Place:
        """An attribute or an element of what this place holds."""
        return Place(self.kind, self.name, self.index, (*self.path, (way, key)))

    @property
    def root(self) -> Place:
        """The variable."""
        return Place(self.kind, self.name, self.index)

    def value(self, frame: FrameType) -> Any:
        """What it holds now; a ``LookupError`` where that can't be said."""
        found = self._variable(frame)
        for way, key in self.path:
            found = _attribute(found, key) if way == "attribute" else _element(found, key)
        return found

    def holds(self, frame: FrameType, x: Any) -> bool:
        """Whether it holds this object now."""
        try:
            return self.value(frame) is x
        except LookupError:
            return False

    def is_readable(self, frame: FrameType) -> bool:
        """Whether it can be read now."""
        try:
            self.value(frame)
        except LookupError:
            return False
        return True

    def _variable(self, frame: FrameType) -> Any:
        if self.kind == "global":
            return frame.f_globals[self.name]
        if self.kind == "fast":
            return local(frame, self.name, self.index)
        if self.kind == "cell":
            return contents(frame, self.name, self.index)
        names: Mapping[str, Any] = frame.f_locals
        if type(names) is not dict:  # code may run at each access
            raise LookupError(self.name)
        return names[self.name]


def _attribute(owner: Any, name: str) -> Any:
    stored = _stored_by(type(owner), name)  # pyright: ignore[reportUnknownArgumentType]
    if stored == "slot":
        try:
            return getattr(owner, name)
        except AttributeError:
            raise LookupError(name) from None
    if stored == "dict":
        return owner.__dict__[name]
    raise LookupError(name)


@lru_cache(maxsize=1024)
def _stored_by(cls: type, name: str) -> str | None:
    """Where objects of a class have an attribute; None if code of the user's may decide."""
    if (
        cls.__setattr__ is not object.__setattr__
        or cls.__getattribute__ is not object.__getattribute__
    ):
        return None
    found: Any = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
    if isinstance(found, MemberDescriptorType):
        return "slot"
    kind: type[Any] = found.__class__
    if hasattr(kind, "__set__") or hasattr(kind, "__delete__"):
        return None
    return "dict" if cls.__dictoffset__ else None


def _element(owner: Any, key: Any) -> Any:
    if type(owner) is dict or type(owner) is list:
        try:
            return owner[key]  # pyright: ignore[reportUnknownVariableType]
        except TypeError:
            pass
    raise LookupError(key)
