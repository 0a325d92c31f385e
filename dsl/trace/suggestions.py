"""Suggests what was probably meant by an unknown name, or what to do instead.

The same name in another module of dlvm comes first, then a function that other libraries know under
that name, then the reason why there is no such function. Spelling is compared last, and only names
that differ in few letters are suggested.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dlvm.base.errors import UnknownName, closest
from dlvm.dsl.words.names import lookup
from dlvm.dsl.words.remedies import ADVICE, OURS

from .scopes import user_origin

ROOMS = ("nn", "optim", "linalg", "random", "tree")
"""Modules of dlvm whose functions users look for in other modules."""


def reader(module: str, has: Sequence[str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A module's ``__getattr__``, for names that it does not have, and its ``__dir__``.

    Where a type checker sees the first, it takes every name for known.
    """

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):  # Python and its tools ask what protocols there are
            said = f"module {module!r} has no attribute {name!r}"
            raise UnknownName(said, origin=user_origin(), remedy=f"dir({module}) lists its names")
        raise unknown(module, name, has)

    return __getattr__, lambda: sorted(has)


def unknown(module: str, name: str, has: Iterable[str] = ()) -> UnknownName:
    """The error for a name that a module of dlvm does not have."""
    advice = ADVICE.get(f"{module.removeprefix('dlvm.')}.{name}")
    there = f"write dlvm.{name}" if module != "dlvm" and _is_there(name) else None
    remedy = advice or there or instead(name) or near(name, {f"{module}.{n}": n for n in has})
    return UnknownName(
        f"module {module!r} has no attribute {name!r}",
        origin=user_origin(),
        remedy=remedy or f"dir({module}) lists the names there are",
    )


def instead(name: str) -> str | None:
    """The counterpart of a name in another module or library, or advice about it."""
    where = _elsewhere(name)
    return f"write {where}" if where else ADVICE.get(name)


def _elsewhere(name: str) -> str | None:
    """The function that has this name in another module, or under another name in a library."""
    room = next((r for r in ROOMS if has_room(r, name)), None)
    other = f"{room}.{name}" if room else OURS.get(name)
    return f"dlvm.{other}" if other and _is_there(other) else None


def has_room(room: str, name: str) -> bool:
    """Whether a module of dlvm lists a name."""
    return name in _names_of(f"dlvm.{room}")


def _is_there(name: str) -> bool:
    room, _, inside = f"dlvm.{name}".rpartition(".")
    return inside in _names_of(room) or (room == "dlvm" and lookup(name) is not None)


def _names_of(module: str) -> Sequence[str]:
    """The names that a module lists; modules that import this one are found at the first error."""
    return importlib.import_module(module).__all__


def near(name: str, known: dict[str, str]) -> str | None:
    """The known name that was probably misspelt."""
    meant = closest(name, known.values())
    return next((f"did you mean {way}?" for way, n in known.items() if n == meant), None)
