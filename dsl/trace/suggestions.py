"""What was probably meant by a name that there is not, or what to do instead.

The same name in another module of ours comes first, then what other libraries call by it, then why
there is no such function; letters are compared last, and only names that differ in few are near.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dlvm.base.errors import UnknownName, closest
from dlvm.dsl.words.names import lookup
from dlvm.dsl.words.remedies import ADVICE, OURS

from .scopes import user_origin

ROOMS = ("nn", "linalg", "random", "tree")
"""Modules of ours whose names users look for in others."""


def reader(module: str, has: Sequence[str]) -> Callable[[str], Any]:
    """What a module of ours does with a name that it has not."""

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):  # Python and its tools ask what protocols there are
            said = f"module {module!r} has no attribute {name!r}"
            raise UnknownName(said, origin=user_origin(), remedy=f"dir({module}) lists its names")
        raise unknown(module, name, has)

    return __getattr__


def unknown(module: str, name: str, has: Iterable[str] = ()) -> UnknownName:
    """The error for a name that a module of ours has not."""
    there = f"write dlvm.{name}" if module != "dlvm" and _is_there(name) else None
    remedy = there or instead(name) or near(name, {f"{module}.{n}": n for n in has})
    return UnknownName(
        f"module {module!r} has no attribute {name!r}",
        origin=user_origin(),
        remedy=remedy or f"dir({module}) lists the names there are",
    )


def instead(name: str) -> str | None:
    """What stands for a name elsewhere, or what to do about it."""
    where = _elsewhere(name)
    return f"write {where}" if where else ADVICE.get(name)


def _elsewhere(name: str) -> str | None:
    """Where a function is that goes by a name in another module, or another library."""
    room = next((r for r in ROOMS if name in _names_of(f"dlvm.{r}")), None)
    other = f"{room}.{name}" if room else OURS.get(name)
    return f"dlvm.{other}" if other and _is_there(other) else None


def _is_there(name: str) -> bool:
    room, _, inside = f"dlvm.{name}".rpartition(".")
    return inside in _names_of(room) or (room == "dlvm" and lookup(name) is not None)


def _names_of(module: str) -> Sequence[str]:
    """What a module lists; those that import this one are entered by name, with the first error."""
    return importlib.import_module(module).__all__


def near(name: str, known: dict[str, str]) -> str | None:
    """The name that was probably misspelt, among ways to write names."""
    meant = closest(name, known.values())
    return next((f"did you mean {way}?" for way, n in known.items() if n == meant), None)
