"""What was made of a function, for as long as the function lives.

It refers to the function, so a table of ours would keep both for ever: a function holds what was
made of it itself, and they go together. Methods, partial functions and callable objects are made
anew or belong to the user; what was made of the last ``KEPT`` of those is remembered.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Hashable
from typing import Any

from .function import StagedFunction, is_staged

Fun = Callable[..., Any]
Staged = StagedFunction[..., Any]
ATTRIBUTE = "__dlvm_made__"
KEPT = 64


class Made(dict[Hashable, Staged]):
    """What was made of one function, and not of those to which ``functools.wraps`` copies it."""

    def __init__(self, of: Fun) -> None:
        super().__init__()
        self.of = weakref.ref(of)


_others: dict[Fun, Made] = {}


def made_of(f: Fun) -> dict[Hashable, Staged]:
    """The table of a function."""
    if isinstance(f, types.FunctionType) or (is_staged(f) and not f.is_method):
        found: Made | None = vars(f).get(ATTRIBUTE)
        if found is None or found.of() is not f:
            found = vars(f)[ATTRIBUTE] = Made(f)
        return found
    try:
        if f not in _others and len(_others) >= KEPT:
            _others.pop(next(iter(_others)), None)
        return _others.setdefault(f, Made(f))
    except TypeError:  # without a hash, or without weak references: for this time only
        return {}
