"""Configuration: fields of dataclasses that are part of the code and not arguments.

A field that holds a str, a bool, an enum member or a function is configuration, and so is every
field that is marked ``dlvm.static``. Configuration belongs to the structure of a tree: it is
compared by type and value, and a function compiles once for each.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np

from dlvm.base.errors import CallError, TraceError

from .scopes import user_origin
from .sizes import bare

KEY = "static"


class Static:
    """Marks a field of a dataclass as configuration: part of the code, and not an argument.

    The field of a size, of a number of layers or of anything else with a hash is marked by its
    annotation or by its default::

        @dataclasses.dataclass
        class Model:
            weights: Array
            heads: dlvm.static[int]                        # or typing.Annotated[int, dlvm.static]
            layers: int = dlvm.static(default=2)           # takes what dataclasses.field takes
    """

    def __call__(self, **options: Any) -> Any:
        """Makes a field that is configuration; the options are those of ``dataclasses.field``."""
        given: Mapping[Any, Any] = options.pop("metadata", None) or {}
        try:
            return dataclasses.field(metadata={**given, KEY: True}, **options)
        except (TypeError, ValueError) as error:
            raise CallError(
                f"static: {error}",
                origin=user_origin(),
                remedy="give the options that dataclasses.field takes, such as default=2",
            ) from None

    def __getitem__(self, cls: Any) -> Any:
        return Annotated[cls, self]

    def __repr__(self) -> str:
        return "dlvm.static"


static = Static()


def exact_type(value: Any) -> Any:
    """The type of a value of configuration with those of what it holds, and the sign of a zero.

    Two values that are equal and of one exact type are the same for a program: 1 is not 1.0, nor is
    ``(1,)`` the same as ``(1.0,)``, or 0.0 as -0.0.
    """
    cls: Any = value.__class__
    if isinstance(value, tuple):
        return cls, *map(exact_type, value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, set | frozenset):
        return cls, frozenset((exact_type(x), x) for x in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(value, float | np.floating):
        return cls if value else (cls, str(value))  # pyright: ignore[reportUnknownArgumentType]
    if dataclasses.is_dataclass(cls) and cls.__eq__ is not object.__eq__:
        compared = (f.name for f in dataclasses.fields(cls) if f.compare)
        return cls, *(exact_type(getattr(value, name, None)) for name in compared)
    return cls


def same_setting(x: Any, y: Any) -> bool:
    """Whether two values of configuration are the same for a program."""
    return exact_type(x) == exact_type(y) and bool(x == y)


class Setting:
    """The value of a field that is configuration, equal to another by exact type and value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Setting):
            return NotImplemented
        x, y = self.value, other.value
        return x is y or same_setting(bare(x), bare(y))

    def __hash__(self) -> int:
        return hash((self.value.__class__, bare(self.value)))

    def __repr__(self) -> str:
        return repr(self.value)


Parts = tuple[tuple[str, ...], tuple[tuple[str, Setting], ...]]


@functools.cache
def static_fields(cls: type) -> Mapping[str, bool]:
    """The fields of a dataclass by name, and whether each is marked ``dlvm.static``."""
    return {
        f.name: bool(f.metadata.get(KEY)) or _annotated(cls, f) for f in dataclasses.fields(cls)
    }


def _annotated(cls: type, field: dataclasses.Field[Any]) -> bool:
    """Whether the annotation of a field, which may be text, says that it is static."""
    kind: Any = field.type
    if isinstance(kind, str):
        owner = next(c for c in cls.__mro__ if field.name in inspect.get_annotations(c))
        try:
            holder = types.SimpleNamespace(__annotations__={field.name: kind})
            names, local = vars(sys.modules[owner.__module__]), dict(vars(owner))
            kind = typing.get_type_hints(holder, names, local, include_extras=True)[field.name]
        except Exception:  # names of a function in which the class stands, or for type checkers
            return re.search(r"\bstatic\b", str(field.type)) is not None
    return typing.get_origin(kind) is Annotated and static in kind.__metadata__


def parts(x: Any) -> Parts:
    """The fields of a dataclass that are parts of the tree, and those that are configuration."""
    own: list[str] = []
    settings: list[tuple[str, Setting]] = []
    for name, marked in static_fields(x.__class__).items():
        value = getattr(x, name, dataclasses.MISSING)
        if marked or configures(value):
            settings.append((name, _setting(x.__class__, name, value)))
        else:
            own.append(name)
    return tuple(own), tuple(settings)


def configures(value: Any) -> bool:
    """Whether a value in a field is configuration without a mark; None is structure anyway."""
    if isinstance(value, str | bool | enum.Enum) or value is dataclasses.MISSING:
        return True
    if not callable(value) or hasattr(value, "shape"):
        return False
    return isinstance(value, type) or not (
        dataclasses.is_dataclass(value) or isinstance(value, tuple | list | dict | Branch)
    )


class Branch:
    """An object that can be called and that is a tree of its own: a pullback, a linear map."""

    __slots__ = ()


def _setting(cls: type, name: str, value: Any) -> Setting:
    try:
        hash(made := Setting(value))
    except TypeError:
        raise TraceError(
            f"the field {name} of {cls.__name__} is configuration, and its value, "
            f"a {type(value).__name__}, has no hash",
            origin=user_origin(),
            remedy=_remedy(name, value),
        ) from None
    return made


def _remedy(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"pass a tuple: {name}=tuple(...)"
    if dataclasses.is_dataclass(value):
        return f"write @dataclass(frozen=True) above the class {type(value).__name__}"
    if hasattr(value, "__array__"):
        return f"remove dlvm.static from the field {name}: arrays are arguments"
    return f"pass a value with a hash for {name}, such as a tuple, a str or a frozen dataclass"


def functions(settings: Any) -> list[Callable[..., Any]]:
    """The functions among the configuration; the state that they capture is captured state."""
    return [s.value for _, s in settings if callable(s.value) and not isinstance(s.value, type)]
