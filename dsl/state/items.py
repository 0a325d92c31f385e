"""Items of captured containers and arrays, and operators on captured values."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from .abstract_values import (
    ANY,
    HOST,
    NOTHING,
    STAGED,
    UNKNOWN,
    Arguments,
    Built,
    Iter,
    Place,
    Value,
    constant,
    flat,
    only,
    union,
)
from .attributes import Attributes
from .frames import Site
from .places import Attribute, Derived, Item, is_numeric
from .record import Scalar, Use
from .walk import Walk, is_array, is_container, kinds


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The effect of reads of items."""

    walk: Walk
    attributes: Attributes

    def subscript(self, site: Site, x: Value, key: Value) -> Value:
        """The item under a key."""
        return union(self._subscript(site, t, key) for t in x)

    def _subscript(self, site: Site, t: Any, key: Value) -> Value:
        if isinstance(t, Place):
            return self.at_key(site, t, key)
        keys = [k.value for k in key if isinstance(k, Place)]
        if isinstance(t, Built):
            inside = [k for k in keys if isinstance(k, int) and -len(t.parts) <= k < len(t.parts)]
            exact = len(inside) == len(key) == 1
            return t.parts[inside[0]] if exact else union(t.parts) | only(Iter(union(t.parts)))
        if isinstance(t, Iter):
            return t.of | (only(t) if any(isinstance(k, slice) for k in keys) else NOTHING)
        self.by_array(site, key)
        return only(t) if t in (STAGED, HOST) else UNKNOWN

    def by_array(self, site: Site, key: Value) -> None:
        """Indices of staged values: arrays of positions become arguments, the rest is read."""
        for k in flat(key):
            if is_array(k):
                self.walk.seen.used(site, k, Use.READ if k.value.dtype.kind == "b" else Use.MAYBE)
            else:
                self.walk.hand(site, [only(k)])

    def at_key(self, site: Site, place: Place, key: Value) -> Value:
        """The item of captured state under a key."""
        return self.walk.once(("item", place, key), self._item, site, place, key)

    def _item(self, site: Site, place: Place, key: Value) -> Value:
        value = place.value
        if is_numeric(value):
            return self._of_key(site, place, key)
        if isinstance(value, Scalar):
            return only(HOST)
        self.walk.hand(site, [frozenset(k for k in key if is_array(k))])
        if is_container(value):
            self.walk.seen.entered(place)
            known = [k.value for k in key if isinstance(k, Place) and isinstance(k.value, Scalar)]
            if len(known) == len(key) and not any(isinstance(k, slice) for k in known):
                return union(self._under(site, place, k) for k in known)
            found = self.elements(site, only(place), values=True)
            whole = all(isinstance(k, slice) for k in known) and len(known) == len(key)
            return only(Iter(found)) | (NOTHING if whole else found)
        if hasattr(type(value), "__getitem__"):
            method = self.attributes.load(site, only(place), "__getitem__")
            return self.walk.call(site, method, Arguments((key,)))
        self.walk.hand(site, [only(place)])
        return UNKNOWN

    def _under(self, site: Site, place: Place, key: Any) -> Value:
        if _has(place.value, key):
            return self.walk.item(place, key, place.value[key])
        self.walk.seen.missed.add(f"{place.path}[{key!r}]")
        self.guard_key(place, key)
        if isinstance(getattr(type(place.value), "__missing__", None), types.FunctionType):
            method = self.attributes.load(site, only(place), "__missing__")
            return self.walk.call(site, method, Arguments((constant(key),))) | UNKNOWN
        return UNKNOWN

    def guard_key(self, place: Place, key: Any) -> None:
        """Records that the code depends on whether a container has a key."""
        read = Derived(place.read, lambda x: _has(x, key))
        self.walk.seen.guard(f"whether {place.path} has {key!r}", read, _has(place.value, key))

    def _of_key(self, site: Site, place: Place, key: Value) -> Value:
        """A view of an array if it is known to be one; else elements that Python reads."""
        items = [t.parts if isinstance(t, Built) else (only(t),) for t in key]
        parts = [next(iter(part)) for item in items for part in item if len(part) == 1]
        simple = len(items) == 1 and len(parts) == len(items[0])
        values = [p.value if isinstance(p, Place) and p.known else ANY for p in parts]
        slices = all(v is None or v is Ellipsis or isinstance(v, slice) for v in values)
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
        ranks = place.value.ndim - sum(isinstance(v, int) for v in values)
        mixed = all(v is None or v is Ellipsis or type(v) in (slice, int) for v in values)
        mixed = mixed and any(type(v) is slice for v in values)
        if simple and values and (slices or (whole and ranks > 0) or mixed):
            return self._part(place, ranks + values.count(None))
        self.walk.hand(site, [key])
        self.walk.seen.used(site, place, Use.READ)
        return only(HOST)

    def _part(self, place: Place, rank: int) -> Value:
        """Some part of an array of any size; it counts as a view with gaps."""
        return self.walk.view(place, np.broadcast_to(np.zeros((), place.value.dtype), (2,) * rank))

    def slice_of(self, site: Site, *parts: Value) -> Value:
        """A slice object."""
        self.walk.hand(site, parts)
        return only(self.walk.held(_SLICE))

    def elements(self, site: Site, x: Value, values: bool = False) -> Value:
        """The elements of an iteration; for a dict its keys, or its ``values``."""
        return union(self._elements_of(site, t, values) for t in x)

    def _elements_of(self, site: Site, t: Any, values: bool) -> Value:
        if isinstance(t, Place):
            return self.walk.once(("elements", t, values), self._elements, site, t, values)
        return self._elements(site, t, values)

    def _elements(self, site: Site, t: Any, values: bool) -> Value:
        if isinstance(t, Built):
            return union(t.parts)
        if isinstance(t, Iter):
            return t.of
        if not isinstance(t, Place):
            self.walk.hand(site, [only(t)])
            return only(t) if t in (STAGED, HOST) else UNKNOWN
        value = t.value
        if is_numeric(value):
            if value.ndim > 1:
                return self._part(t, value.ndim - 1)
            self.walk.seen.used(site, t, Use.READ)
            return only(HOST)
        if isinstance(value, Scalar | range):
            return only(HOST)
        if is_container(value):
            self.walk.seen.entered(t)
            rest = self.walk.seen.structure(t)
            if hasattr(value, "items") and not values:
                return only(HOST)
            return union([only(HOST), *(self.walk.item(t, k, v) for k, v in rest)])
        if isinstance(value, Iterator):
            self.walk.seen.consumed(site, t)
        self.walk.hand(site, [only(t)])
        return UNKNOWN

    def parts(self, site: Site, x: Value, count: int) -> tuple[Value, ...]:
        """The parts of a sequence that is unpacked into a number of names."""
        columns: list[tuple[Value, ...]] = []
        for t in x:
            if isinstance(t, Built) and len(t.parts) == count:
                columns.append(t.parts)
            elif _is_sequence(t) and len(t.value) == count:
                self.walk.seen.structure(t)
                columns.append(tuple(self.walk.item(t, i, v) for i, v in enumerate(t.value)))
            else:
                columns.append((self.elements(site, only(t)),) * count)
        return tuple(union(c[i] for c in columns) for i in range(count))


@dataclass(frozen=True, slots=True, eq=False)
class Operators:
    """The effect of operators, comparisons and assignments."""

    walk: Walk
    items: Items

    def operate(self, site: Site, *operands: Value) -> Value:
        """The result of an operator."""
        if not all(operands):
            return NOTHING
        self.arrays_of(site, operands, operands)
        self.walk.hand(site, [frozenset(t for t in x if not is_array(t)) for x in operands])
        found = [kinds(x) for x in operands]
        if all(k <= {"h"} for k in found):
            return only(HOST)
        return only(STAGED) if {"s"} in found else UNKNOWN

    def operate_in_place(self, site: Site, x: Value, y: Value) -> Value:
        """The result of an operator that may change its first operand."""
        if y:
            self.walk.seen.all_touched(site, x)
        return self.operate(site, x, y)

    def arrays_of(self, site: Site, columns: Sequence[Value], operands: Sequence[Value]) -> None:
        """Records how arrays beside other operands are used: by the trace, or by NumPy."""
        found = [kinds(x) for x in operands]
        for i, x in enumerate(columns):
            others = found[:i] + found[i + 1 :]
            use = Use.READ
            if {"s"} in others:
                use = Use.STAGED
            elif any("h" not in k and k for k in others) or (len(found) == 1 and "a" in found[0]):
                use = Use.MAYBE
            for t in x:
                if is_array(t):
                    self.walk.seen.used(site, t, use)

    def asked(self, site: Site, x: Value) -> None:
        """Records that the code asks whether a value is true."""
        for t in x:
            if isinstance(t, Place) and is_container(t.value):
                self.walk.seen.length(t)
            elif isinstance(t, Place) and not isinstance(t.value, type | types.FunctionType):
                self.walk.hand(site, [only(t)])

    def compared(self, site: Site, x: Value, y: Value) -> None:
        """Records that the code compares identities."""
        for a, b in ((a, b) for a in x for b in y):
            nones = [isinstance(t, Place) and t.value is None for t in (a, b)]
            for t in (a, b):
                if isinstance(t, Place) and not t.known and not isinstance(t.value, Scalar):
                    self.walk.seen.typed(t) if any(nones) else self.walk.seen.identity(t)

    def contains(self, site: Site, container: Value, x: Value) -> Value:
        """The answer to the question whether a container has an element."""
        plain = frozenset(t for t in x if isinstance(t, Place) and isinstance(t.value, Scalar))
        self.walk.hand(site, [x - plain])
        for t in container:
            if isinstance(t, Place) and isinstance(t.value, dict) and plain == x:
                for key in (key.value for key in plain if not t.known):
                    self.items.guard_key(t, key)
            else:
                self.walk.hand(site, [only(t)])
        return only(HOST) if container | x <= {HOST} else UNKNOWN

    def write_attribute(self, site: Site, target: Value, x: Value, name: str) -> None:
        """Records that the code writes an attribute."""
        self.walk.hand(site, [x])
        for t in (t for t in target if isinstance(t, Place)):
            if is_numeric(t.value):
                self._change(site, t)
            else:
                self.walk.seen.written(site, f"{t.path}.{name}", Attribute(t.read, name))

    def write_item(self, site: Site, target: Value, x: Value, key: Value) -> None:
        """Records that the code writes an item."""
        staged = not any(isinstance(t, Place) for t in target)
        self.walk.hand(site, [x], Use.MAYBE if staged else Use.READ)
        for t in target:
            if not isinstance(t, Place):
                self.items.by_array(site, key)
            elif is_numeric(t.value):
                self._change(site, t)
            elif is_container(t.value):
                self.walk.seen.touched(site, t)
                for k in (k.value for k in key if isinstance(k, Place)):
                    if isinstance(k, Scalar):
                        self.walk.seen.written(site, f"{t.path}[{k!r}]", Item(t.read, k))
                self.items.elements(site, only(t), values=True)
            else:
                self.walk.hand(site, [only(t)])

    def _change(self, site: Site, array: Place) -> None:
        self.walk.seen.touched(site, array)
        self.walk.seen.used(site, array, Use.READ)


_SLICE = slice(None)


def _is_sequence(t: Any) -> TypeGuard[Place]:
    return isinstance(t, Place) and isinstance(t.value, tuple | list)


def _has(container: Any, key: Any) -> bool:
    """Whether a container has a key, or a sequence a position."""
    try:
        if hasattr(container, "keys"):
            return bool(key in container)
        return -len(container) <= key < len(container)
    except TypeError:
        return False
