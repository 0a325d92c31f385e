"""The public names: one table that ``dlvm.<name>``, operators, methods and NumPy dispatch read.

A function registers itself; one that follows from an operation's class is derived when it is
first asked for, so that adding an operation adds its public name and its NumPy function too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

PUBLIC: dict[str, Function] = {}
DERIVERS: list[Callable[[str], Function | None]] = []
LISTERS: list[Callable[[], list[str]]] = []


def lookup(name: str) -> Function | None:
    """The public function of a name, if there is one."""
    found = PUBLIC.get(name)
    if found is None:
        for derive in DERIVERS:
            if (found := derive(name)) is not None:
                PUBLIC[name] = found
                break
    return found


def named(name: str) -> Function:
    """The public function of a name that is known to exist."""
    found = PUBLIC.get(name) or lookup(name)
    if found is None:
        raise AttributeError(f"dlvm has no {name!r}")
    return found


def every_name() -> list[str]:
    """All names for users, derived ones included; those of operators start with ``_``.

    Those of other modules, such as ``linalg.norm``, are found there.
    """
    names = {*PUBLIC, *(n for names in LISTERS for n in names())}
    return sorted(n for n in names if not n.startswith("_") and "." not in n)
