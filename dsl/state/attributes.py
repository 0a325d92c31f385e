"""Attributes of captured objects: what a load of one reads, by the kind of object.

An attribute is searched where Python would search, without running a property or descriptor of the
user's; the code of those is read like that of other functions.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import functools
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .frames import Site
from .guards import CONTAINERS
from .homes import class_is_read, is_ours, is_read
from .places import Attribute, Derived, Held, Item, Read, is_numeric
from .seen import Scalar, Seen, Use
from .things import (
    ANY,
    HOST,
    STAGED,
    Bound,
    Built,
    Iter,
    Method,
    Place,
    Super,
    Value,
    constant,
    flat,
    only,
    union,
)

UNKNOWN = only(ANY)
_DEPTH = 32
_META = {"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "device"}


class Attributes(ABC):
    """The effect of loads and operators on captured state; calls are handled by ``Paths``."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.names: set[str] = set()
        """Names that the code loads from values of which nothing is known."""
        self._places: dict[Any, Place] = {}
        self.results: dict[Any, Any] = {}
        """What was found wherever it is asked for, by the question."""

    @abstractmethod
    def call(
        self,
        site: Site,
        callee: Value,
        args: Sequence[Value],
        named: dict[str, Value],
        rest: Value | None = None,
    ) -> Value:
        """The possible results of a call."""

    @abstractmethod
    def hand(
        self, site: Site, values: Iterable[Value], use: Use = Use.READ, staged: bool = False
    ) -> None:
        """Records that values are passed to code that is not read."""

    @abstractmethod
    def open(self, place: Place) -> None:
        """Records that any attribute that the code loads anywhere may be loaded from this value."""

    def once(self, key: Any, compute: Callable[..., Any], *given: Any) -> Any:
        """The result of a computation, which is kept if it is the same at each line of the code."""
        found = self.results.get(key)
        if found is None:
            before = self.seen.local
            found = compute(*given)
            if self.seen.local == before:
                self.results[key] = found
        return found

    # -- places ------------------------------------------------------------------------------------

    def place(
        self, key: Any, path: str, read: Read, value: Any, depth: int = 0, known: bool = False
    ) -> Place:
        """The place for a key; one key always has the same place."""
        if key not in self._places:
            self._places[key] = Place(path, read, value, depth, known)
        return self._places[key]

    def held(self, value: Any, path: str = "") -> Place:
        """The place of a value that is part of the code."""
        return self.place(("held", id(value)), path, Held(value), value, 0, True)

    def loaded(self, place: Place) -> Value:
        """Records that the code loads from a place."""
        self.seen.loaded(place)
        return only(place)

    def under(self, place: Place, path: str, read: Read, key: Any, value: Any) -> Value:
        """A place inside another one."""
        if place.depth >= _DEPTH:
            self.seen.too_much(place.path, "nested too deeply to be followed")
            return UNKNOWN
        return self.loaded(self.place((place, key), path, read, value, place.depth + 1))

    def inner(self, place: Place, name: str, value: Any) -> Value:
        """An attribute as a place."""
        path = f"{place.path}.{name}" if place.path else name
        return self.under(place, path, Attribute(place.read, name), ("attribute", name), value)

    def item(self, place: Place, key: Any, value: Any) -> Value:
        """The item of a container under a key, as a place."""
        read = Item(place.read, key)
        return self.under(place, f"{place.path}[{key!r}]", read, ("item", type(key), key), value)

    def is_container(self, value: Any) -> bool:
        """Whether its items are places."""
        if isinstance(value, np.ndarray):
            return value.dtype == object
        if not isinstance(value, CONTAINERS):
            return False
        return not isinstance(getattr(type(value), "__getitem__", None), types.FunctionType) or (
            type(value).__module__ == "collections"
        )

    def kinds(self, value: Value) -> set[str]:
        """Letters for what a value may be: staged (s), of Python or NumPy (h), anything (a)."""
        out: set[str] = set()
        for t in flat(value):
            plain = isinstance(t, Place) and (isinstance(t.value, Scalar) or is_numeric(t.value))
            out.add("s" if t is STAGED else "h" if t is HOST or plain else "a")
        return out

    def _is_array(self, t: Any) -> bool:
        return isinstance(t, Place) and is_numeric(t.value)

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self, site: Site, x: Value, name: str) -> Value:
        """The possible values of an attribute."""
        return union(self._attribute(site, t, name) for t in x)

    def _attribute(self, site: Site, t: Any, name: str) -> Value:
        if isinstance(t, Place):
            return self.once(("attribute", t, name), self._of_place, site, t, name)
        if isinstance(t, Super):
            return self._of_super(site, t, name)
        if t is HOST:
            return only(HOST)
        if isinstance(t, Iter | Built):
            return only(Method(t, name))
        if isinstance(t, Bound | Method):
            self.hand(site, [only(t)])
        self.names.add(name)
        return only(STAGED) if t is STAGED and name not in _META else UNKNOWN

    def _of_place(self, site: Site, place: Place, name: str) -> Value:
        value = place.value
        if isinstance(value, np.ndarray) and value.dtype == object:
            self.hand(site, [only(place)])
        if isinstance(value, Scalar | np.ndarray) and _of_its_own(value, name):
            return self._of_object(site, place, name)
        if is_numeric(value):
            return self._of_array(site, place, name)
        if isinstance(value, Scalar):
            return only(HOST)
        self.seen.entered(place)
        if isinstance(value, types.ModuleType):
            return self._of_module(site, place, name)
        if isinstance(value, type):
            return self._of_class(site, place, name)
        if isinstance(value, types.FunctionType):
            return self._own(place, name) or UNKNOWN
        return self._of_object(site, place, name)

    def _own(self, place: Place, name: str) -> Value | None:
        own = getattr(place.value, "__dict__", {})
        return self.inner(place, name, own[name]) if name in own else None

    def _of_array(self, site: Site, place: Place, name: str) -> Value:
        if name in _META:
            self.seen.typed(place)
            return only(HOST)
        if name in ("T", "mT") and place.value.ndim >= 2:
            return self.view(place, getattr(place.value, name))
        return only(Method(place, name))

    def view(self, place: Place, view: Any) -> Value:
        """A view of an array: the same place, with another shape."""
        return only(
            self.place((place, "view", view.shape, view.strides), place.path, place.read, view, -1)
        )

    def _of_module(self, site: Site, place: Place, name: str) -> Value:
        module: Any = place.value
        if is_read(module):
            found = self._own(place, name)
            return UNKNOWN if found is None else found
        try:
            value = getattr(module, name)
        except AttributeError:
            return UNKNOWN
        path = f"{place.path}.{name}"
        self.seen.source(site, place, name)
        return only(
            self.place(
                (place, name),
                path,
                Attribute(place.read, name),
                value,
                0,
                not isinstance(value, CONTAINERS),
            )
        )

    def _of_class(self, site: Site, place: Place, name: str) -> Value:
        cls: Any = place.value
        home = next((k for k in cls.__mro__ if name in k.__dict__), None)
        if home is None:
            return self._of_object(site, place, name)
        static = home.__dict__[name]
        if isinstance(static, classmethod):
            return only(
                Bound(self._function(place, name, static.__func__, "__func__"), only(place))
            )
        if isinstance(static, staticmethod | types.FunctionType):
            return only(self._function(place, name, getattr(static, "__func__", static), ""))
        if hasattr(static, "__get__") and not is_ours(static):
            return only(Method(place, name))
        if not class_is_read(home):
            return only(
                self.place((place, name), name, Attribute(place.read, name), static, 0, True)
            )
        return self.inner(place, name, static)

    def _function(self, place: Place, name: str, fn: Any, inside: str) -> Place:
        """A function from the class of an object, with a guard."""
        read: Read = Attribute(place.read, name)
        read = Attribute(read, inside) if inside else read
        path = f"{place.path}.{name}" if place.path else name
        if not place.known and is_read(getattr(fn, "__globals__", {})):
            self.seen.function(path, read, fn)
        return self.place((place, "function", name, id(fn)), path, read, fn, 0, True)

    def _of_object(self, site: Site, place: Place, name: str) -> Value:
        cls: Any = type(place.value)
        if isinstance(cls.__getattribute__, types.FunctionType):  # anything may happen there
            method = only(self.held(cls.__getattribute__))
            self.call(site, method, (only(place), constant(name)), {})
        home = next((k for k in cls.__mro__ if name in k.__dict__), None)
        static = home.__dict__[name] if home is not None else None
        if home is None or not hasattr(type(static), "__set__"):
            own = None if isinstance(place.value, type) else self._own(place, name)
            if own is not None:
                return own
        if home is None:
            return self._missing(site, place, name, cls)
        return self._from_class(site, place, name, home, static)

    def _missing(self, site: Site, place: Place, name: str, cls: Any) -> Value:
        """An attribute that an object does not have; ``__getattr__`` of its class may make one."""
        self._absent(place, name)
        self.seen.missed.add(f"{place.path}.{name}")
        found = next(
            (k.__dict__["__getattr__"] for k in cls.__mro__ if "__getattr__" in k.__dict__), None
        )
        if isinstance(found, types.FunctionType):
            return self.call(site, only(self.held(found)), (only(place), constant(name)), {})
        return UNKNOWN

    def _absent(self, place: Place, name: str) -> None:
        if not place.known and hasattr(place.value, "__dict__"):
            here = Derived(place.read, lambda x: name in x.__dict__)
            self.seen.guard(f"whether {place.path} has {name}", here, False)

    def _from_class(self, site: Site, place: Place, name: str, home: Any, static: Any) -> Value:
        """An attribute from the class of an object: a method, a property, a slot or a value."""
        standing = Item(Attribute(Held(home), "__dict__"), name)
        path = f"{place.path}.{name}" if place.path else name
        if isinstance(static, types.FunctionType):
            if not is_read(static.__globals__):
                return only(Method(place, name))
            return only(Bound(self._function(place, name, static, "__func__"), only(place)))
        if isinstance(static, staticmethod):
            return only(self._function(place, name, static.__func__, ""))
        if isinstance(static, classmethod):
            cls = self.place(
                (place, "class"), path, Attribute(place.read, "__class__"), type(place.value)
            )
            return only(Bound(self._function(place, name, static.__func__, "__func__"), only(cls)))
        if isinstance(static, property | functools.cached_property):
            return self._of_property(site, place, name, home, static)
        if is_ours(static):
            self.seen.guard(path, standing, static, by_identity=True)
            return only(Bound(self.held(static), only(place)))
        if isinstance(static, types.MemberDescriptorType | types.GetSetDescriptorType):
            found = getattr(place.value, name, None)
            return UNKNOWN if found is None else self.inner(place, name, found)
        get = getattr(type(static), "__get__", None)
        if isinstance(get, types.FunctionType):
            descriptor = self.place((id(home), name), f"the descriptor {path}", standing, static)
            self.seen.guard(descriptor.path, standing, static, by_identity=True)
            owner = self.held(type(place.value))
            return self.call(
                site, only(self.held(get)), (only(descriptor), only(place), only(owner)), {}
            )
        if get is not None:
            return only(Method(place, name))
        return self.inner(place, name, static)

    def _of_property(self, site: Site, place: Place, name: str, home: Any, static: Any) -> Value:
        fn = static.fget if isinstance(static, property) else static.func
        if not isinstance(fn, types.FunctionType) or not is_read(fn.__globals__):
            return only(Method(place, name))
        where = Item(Attribute(Held(home), "__dict__"), name)
        self.seen.guard(f"{place.path}.{name}", where, static, by_identity=True)
        if not isinstance(static, property):
            self._absent(place, name)
        return self.call(site, only(self.held(fn)), (only(place),), {})

    def _of_super(self, site: Site, t: Super, name: str) -> Value:
        found: list[Value] = []
        for first in t.first:
            for behind in t.behind:
                if not isinstance(behind, Place) or not isinstance(behind.value, type):
                    continue
                own = type(first.value) if isinstance(first, Place) else behind.value
                line: list[Any] = (
                    [*own.__mro__] if behind.value in own.__mro__ else [*behind.value.__mro__]
                )
                line = line[line.index(behind.value) + 1 :]
                home = next((k for k in line if name in k.__dict__), None)
                if home is None:
                    continue
                static = home.__dict__[name]
                if isinstance(static, types.FunctionType) and is_read(static.__globals__):
                    found.append(only(Bound(self.held(static), only(first))))
                elif isinstance(first, Place):
                    found.append(self._from_class(site, first, name, home, static))
        return union(found) or UNKNOWN


def _of_its_own(value: Any, name: str) -> bool:
    """Whether an attribute of a number, a text or an array is of a class that the user wrote."""
    home = next((k for k in type(value).__mro__ if name in k.__dict__), None)
    return name in getattr(value, "__dict__", {}) if home is None else class_is_read(home)
