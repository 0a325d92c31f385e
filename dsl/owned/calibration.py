"""How many references an object has that only a call and one owner hold, as measured here.

Python's own references to an argument differ between its versions and between forms of calls. So
each form of call is made once with an object that nobody else has.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any

COUNTED = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
"""Whether counts of references tell anything; without Python's lock they don't."""


def _unknown(x: Any) -> int:
    return sys.maxsize


references: Callable[[Any], int] = getattr(sys, "getrefcount", _unknown)


@dataclass(frozen=True, slots=True)
class Form:
    """A form of call, as far as Python's own references to an argument may depend on it."""

    source: str
    """``fast`` for a variable of a function, ``other`` for other places, or ``computed``."""
    spread: bool = False
    named: bool = False
    by_name: bool = False
    through: Callable[[Any], Any] | None = None
    """What stands between the caller and the function, such as a bound method."""


class _Probe:
    """Counts references where a function that donates does."""

    def __init__(self, key: int | str) -> None:
        self.key = key
        self.found: list[int] = []

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._count(args, kwargs)

    def _count(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given: Any = args if isinstance(self.key, int) else kwargs
        key = self.key
        self.found.append(references(given[key]))


@cache
def while_called(form: Form) -> int:
    """References to an argument that a call of this form has, besides those of its caller."""
    shift = 0 if form.through is None else 1
    probe = _Probe("x" if form.by_name else shift)
    called = probe if form.through is None else form.through(probe)
    for _ in range(8):  # Python adapts its code to what it has seen
        CALLS[form.source](called, _kind(form))
    return min(probe.found) - (form.source != "computed")


def _kind(form: Form) -> str:
    if form.spread:
        return "spread"
    return "by name" if form.by_name else "beside names" if form.named else "plain"


class _Owner:
    """Has an object in an attribute."""

    def __init__(self) -> None:
        self.x = object()


def _fast(f: Any, kind: str) -> None:
    x = object()
    if kind == "plain":
        f(x)
    elif kind == "spread":
        f(x, *())
    elif kind == "by name":
        f(x=x)
    else:
        f(x, k=0)


def _other(f: Any, kind: str) -> None:
    o = _Owner()
    if kind == "plain":
        f(o.x)
    elif kind == "spread":
        f(o.x, *())
    elif kind == "by name":
        f(x=o.x)
    else:
        f(o.x, k=0)


def _computed(f: Any, kind: str) -> None:
    if kind == "plain":
        f(object())
    elif kind == "spread":
        f(object(), *())
    elif kind == "by name":
        f(x=object())
    else:
        f(object(), k=0)


CALLS: dict[str, Callable[[Any, str], None]] = {
    "fast": _fast,
    "other": _other,
    "computed": _computed,
}
"""Calls of each form with an object that nobody else has."""


def _in_container() -> int:
    """References to what lies in a container only, as ``Below`` counts them."""
    get, tree = itemgetter(0), [object()]
    child = get(tree)
    return references(child)


def _among_picked() -> int:
    """The same where several are picked out of a container."""
    pick, tree = itemgetter(0, 1), [object(), object()]
    return most(pick(tree))


def most(xs: Sequence[Any]) -> int:
    """The largest number of references to one of these."""
    return max(map(references, xs))


IN_CONTAINER = _in_container()
AMONG_PICKED = _among_picked()
