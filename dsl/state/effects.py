"""What operations of a summary do with values that are captured state: the parts, by operation.

What depends on the function in which an operation stands, such as its variables, is in ``follow``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from .abstract_values import (
    NULL,
    UNKNOWN,
    Arguments,
    Built,
    Iter,
    Super,
    Value,
    only,
    union,
    widened,
)
from .attributes import Attributes
from .calls import Calls
from .frames import Frames, Site
from .functions import Functions
from .handed import Handed
from .instructions import Effect
from .items import Items, Operators
from .natives import Natives
from .record import Seen
from .walk import Walk

Results: TypeAlias = "tuple[Value, ...]"


class Effects:
    """One of each part, and which of their methods are operations."""

    def __init__(self, seen: Seen, frames: Frames) -> None:
        self.walk = walk = Walk(seen)
        self.attributes = attributes = Attributes(walk)
        self.items = items = Items(walk, attributes)
        operators = Operators(walk, items)
        self.functions = functions = Functions(walk, items, frames)
        natives = Natives(walk, attributes, items, operators)
        calls = Calls(walk, attributes, operators, functions, natives)
        walk.tie(calls.call, Handed(walk, items, functions).hand)
        self._methods: dict[str, Callable[..., Value | Results | None]] = {
            "attribute": attributes.load,
            "behind": self._behind,
            "module": natives.module,
            "subscript": items.subscript,
            "slice_of": items.slice_of,
            "elements": items.elements,
            "parts": items.parts,
            "write_attribute": operators.write_attribute,
            "write_item": operators.write_item,
            "operate": operators.operate,
            "operate_in_place": operators.operate_in_place,
            "asked": operators.asked,
            "compared": operators.compared,
            "contains": operators.contains,
            "hand": self._hand,
            "built": _built,
            "mapped": _mapped,
            "extended": self._extended,
            "iterated": self._iterated,
            "spread": self._spread,
            "call": self._call,
            "call_spread": self._call_spread,
        }

    def run(self, effect: Effect, site: Site, values: Sequence[Value]) -> Results:
        """The values of the results of an operation."""
        found = self._methods[effect.name](site, *values, *effect.given)
        return () if found is None else found if isinstance(found, tuple) else (found,)

    def _behind(self, site: Site, cls: Value, first: Value, name: str) -> Value:
        return self.attributes.load(site, only(Super(cls, first)), name)

    def _hand(self, site: Site, *values: Value) -> None:
        self.walk.hand(site, values)

    def _extended(self, site: Site, held: Value, *given: Any) -> Value:
        *parts, one, of_dict = given
        new = union(parts)
        return held | _iter(new if one else self.items.elements(site, new, of_dict))

    def _iterated(self, site: Site, x: Value) -> Value:
        return _iter(self.items.elements(site, x))

    def _spread(self, site: Site, x: Value) -> Value:
        found = self.items.elements(site, x)
        return found | _iter(found)

    def _call(self, site: Site, callee: Value, *given: Any) -> Value:
        *args, names = given
        count = len(args) - len(names)
        named = dict(zip(names, args[count:], strict=True))
        return self.walk.call(site, callee, Arguments(args[:count], named))

    def _call_spread(self, site: Site, callee: Value, *given: Value) -> Value:
        spread = union(self.items.elements(site, x - {NULL}) for x in given)
        return self.walk.call(site, callee, Arguments(rest=spread | UNKNOWN))


def _built(site: Site, *parts: Value) -> Value:
    return widened(only(Built(parts)))


def _mapped(site: Site, *parts: Value) -> Value:
    return _iter(union(parts) | UNKNOWN)


def _iter(of: Value) -> Value:
    return widened(only(Iter(of)))
