"""What is handed over: values that are passed to code that is not read, or stored out of sight.

Everything in a container is recorded, and of an object all attributes whose names the code loads
from anything. A function may be called, with anything that was handed over with it.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from .abstract_values import (
    ANY,
    HOST,
    NOTHING,
    NULL,
    STAGED,
    UNKNOWN,
    Arguments,
    Bound,
    Method,
    Place,
    Value,
    flat,
    only,
    union,
)
from .frames import Closure, Site
from .functions import Functions, inside
from .items import Items
from .places import is_numeric
from .record import PLAIN, Use
from .walk import Walk, is_container


class Handed:
    """What was handed over."""

    def __init__(self, walk: Walk, items: Items, functions: Functions) -> None:
        self.walk, self.items, self.functions = walk, items, functions
        self._seen: set[tuple[Place, Use, Site]] = set()
        """Containers that were handed over, and the steps that did it."""
        self._whole: set[Any] = {ANY, HOST, STAGED, NULL}
        """What needs not be looked at again."""
        self._settled: dict[Use, set[Place]] = {use: set() for use in Use}
        """Containers that were handed over, with nothing that depends on the line that does it."""

    def hand(self, site: Site, given: Sequence[Value], use: Use, staged: bool) -> bool:
        """Follows what is handed over; returns that it is done."""
        everything = union([NOTHING, *(self.walk.once(("flat", x), flat, x) for x in given)])
        rest = everything - self._settled[use] - self._whole
        passed = (as_staged(everything, False) if staged else everything) | UNKNOWN
        for t in rest:
            if isinstance(t, Place):
                self._hand(site, t, use, passed)
            elif isinstance(t, Closure):
                self.functions.run(site, t.frame, Arguments(rest=passed))
            elif isinstance(t, Bound):
                self.walk.call(site, only(t), Arguments(rest=passed - {t}))
            elif isinstance(t, Method):
                self.walk.hand(site, [only(t.of)])
        return True

    def _hand(self, site: Site, t: Place, use: Use, passed: Value) -> None:
        if type(t.value) in PLAIN:
            self._whole.add(t)
        elif is_numeric(t.value):
            self.walk.seen.used(site, t, use)
        elif not isinstance(t.value, (dict, list, tuple)):
            if t not in self._whole:
                self._whole.add(t)
                self._hand_inside(site, t, use, passed)
        elif t not in self._settled[use]:
            # arrays in a container are used at this step; others may use them elsewhere
            before, key = self.walk.seen.local, (t, use, site)
            if key not in self._seen:
                self._seen.add(key)
                self._hand_inside(site, t, use, passed)
                if self.walk.seen.local == before:
                    self._settled[use].add(t)
                    return
            self.walk.seen.local += 1

    def _hand_inside(self, site: Site, t: Place, use: Use, passed: Value) -> None:
        value = t.value
        if isinstance(value, types.FunctionType):
            if frame := self.functions.frame_of(value):
                self.functions.run(site, frame, Arguments(rest=passed))
            else:
                self.walk.hand(site, self.functions.kept(value), use)
        elif isinstance(value, types.CodeType):
            pass
        elif is_container(value):
            self.walk.hand(site, [self.items.elements(site, only(t), values=True)], use)
            self.walk.opened.open(t)
        elif (inner := inside(self.walk, t)) is not None:
            for function in inner[0]:
                self.walk.call(site, function, Arguments(rest=passed - {t}))
        else:
            self.walk.seen.whole(t)
            self.walk.opened.open(t)


def as_staged(x: Value, known: bool) -> Value:
    """Arguments as a staged function sees them; integers and strings may stay ``known``."""
    return frozenset(STAGED if _is_staged(t, known) else t for t in x)


def _is_staged(t: Any, known: bool) -> bool:
    if not isinstance(t, Place):
        return t is HOST and not known
    value = t.value
    plain = isinstance(value, bool | int | str) and known
    numbers = isinstance(value, bool | int | float | np.generic) and not plain
    return numbers or is_numeric(value) or is_container(value)
