"""Objects derived from a function (programs, transformed functions), kept while the function lives.

They refer to the function, so a global table would keep both for ever. A function therefore holds
the objects derived from it, and all are freed together; so does a partial. Methods and callable
objects can't hold them; for these, a table remembers the last ``KEPT``.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from .function import StagedFunction, is_staged

Fun = Callable[..., Any]
Staged = StagedFunction[..., Any]
ATTRIBUTE = "__dlvm_made__"
KEPT = 64


class Derived(dict[Hashable, Staged]):
    """Objects derived from one function; ``functools.wraps`` may copy the table to others by
    mistake. A copy that is pickled with a partial is empty, and of no function.
    """

    def __init__(self, of: Fun | None = None) -> None:
        super().__init__()
        self.of: Callable[[], Any] = _nothing if of is None else weakref.ref(of)

    def __reduce__(self) -> tuple[type[Derived], tuple[()]]:
        return Derived, ()


def _nothing() -> None:
    """What a table of no function is of."""


_others: dict[Fun, Derived] = {}


def made_of(f: Fun) -> dict[Hashable, Staged]:
    """The table of objects derived from a function."""
    holds = isinstance(f, types.FunctionType) or type(f) is functools.partial
    if holds or (is_staged(f) and not f.is_method):
        found: Derived | None = vars(f).get(ATTRIBUTE)
        if found is None or found.of() is not f:
            found = vars(f)[ATTRIBUTE] = Derived(f)
        return found
    try:
        if f not in _others and len(_others) >= KEPT:
            _others.pop(next(iter(_others)), None)
        return _others.setdefault(f, Derived(f))
    except TypeError:  # without a hash, or without weak references: for this time only
        return {}
