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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .abstract_values import (
    HOST,
    NOTHING,
    STAGED,
    UNKNOWN,
    Arguments,
    Bound,
    Built,
    Iter,
    Method,
    Place,
    Super,
    Value,
    constant,
    only,
    union,
)
from .frames import Site
from .guards import CONTAINERS
from .places import Attribute, Derived, Held, Item, Read, is_numeric
from .record import Scalar, Use
from .walk import Walk, path_of
from .whose_code import class_is_read, is_ours, is_read, slot

_META = {"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "device"}


@dataclass(frozen=True, slots=True, eq=False)
class Attributes:
    """The effect of loads of attributes."""

    walk: Walk

    def load(self, site: Site, x: Value, name: str) -> Value:
        """The possible values of an attribute."""
        return union(self._load(site, t, name) for t in x)

    def _load(self, site: Site, t: Any, name: str) -> Value:
        if isinstance(t, Place):
            return self.walk.once(("attribute", t, name), self._of_place, site, t, name)
        if isinstance(t, Super):
            return self._of_super(site, t, name)
        if t is HOST:
            return only(HOST)
        if isinstance(t, Iter | Built):
            return only(Method(t, name))
        if isinstance(t, Bound | Method):
            self.walk.hand(site, [only(t)])
        self.walk.opened.names.add(name)
        return only(STAGED) if t is STAGED and name not in _META else UNKNOWN

    def _of_place(self, site: Site, place: Place, name: str) -> Value:
        value = place.value
        if isinstance(value, np.ndarray) and value.dtype == object:
            self.walk.hand(site, [only(place)])
        if isinstance(value, Scalar | np.ndarray) and _of_its_own(value, name):
            return self._of_object(site, place, name)
        if is_numeric(value):
            return self._of_array(site, place, name)
        if isinstance(value, Scalar):
            return only(HOST)
        self.walk.seen.entered(place)
        if isinstance(value, types.ModuleType):
            return self._of_module(site, place, name)
        if isinstance(value, type):
            return self._of_class(site, place, name)
        if isinstance(value, types.FunctionType):
            return self._own(place, name) or UNKNOWN
        return self._of_object(site, place, name)

    def _own(self, place: Place, name: str) -> Value | None:
        own = getattr(place.value, "__dict__", {})
        return self.walk.attribute(place, name, own[name]) if name in own else None

    def _of_array(self, site: Site, place: Place, name: str) -> Value:
        if name in _META:
            self.walk.seen.typed(place)
            return only(HOST)
        if name in ("T", "mT") and place.value.ndim >= 2:
            return self.walk.view(place, getattr(place.value, name))
        if isinstance(getattr(np.ndarray, name, None), types.GetSetDescriptorType):
            self.walk.seen.used(site, place, Use.READ)  # such as flat and real
            return only(HOST)
        return only(Method(place, name))

    def _of_module(self, site: Site, place: Place, name: str) -> Value:
        module: Any = place.value
        if is_read(module):
            found = self._own(place, name)
            if found is None:
                self._absent(place, name)
            return found or UNKNOWN
        try:
            value = getattr(module, name)
        except AttributeError:
            return UNKNOWN
        self.walk.seen.source(site, place, name)
        path, read = f"{place.path}.{name}", Attribute(place.read, name)
        known = not isinstance(value, CONTAINERS)
        return only(self.walk.place((place, name), path, read, value, 0, known))

    def _of_class(self, site: Site, place: Place, name: str) -> Value:
        cls: Any = place.value
        home = _home(cls.__mro__, name)
        if home is None:
            return self._of_object(site, place, name)
        static = home.__dict__[name]
        if isinstance(static, classmethod):
            fn = self._function(place, name, static.__func__, "__func__")
            return only(Bound(fn, only(place)))
        if isinstance(static, staticmethod | types.FunctionType):
            return only(self._function(place, name, getattr(static, "__func__", static), ""))
        if hasattr(static, "__get__") and not is_ours(static):
            return only(Method(place, name))
        if not class_is_read(home):
            read = Attribute(place.read, name)
            return only(self.walk.place((place, name), name, read, static, 0, True))
        return self.walk.attribute(place, name, static)

    def _function(self, place: Place, name: str, fn: Any, inside: str) -> Place:
        """A function from the class of an object, with a guard."""
        read: Read = Attribute(place.read, name)
        read = Attribute(read, inside) if inside else read
        path = path_of(place, name)
        if not place.known and is_read(getattr(fn, "__globals__", {})):
            self.walk.seen.function(path, read, fn)
        return self.walk.place((place, "function", name, id(fn)), path, read, fn, 0, True)

    def _of_object(self, site: Site, place: Place, name: str) -> Value:
        cls: Any = type(place.value)
        if isinstance(cls.__getattribute__, types.FunctionType):  # anything may happen there
            method = only(self.walk.held(cls.__getattribute__))
            self.walk.call(site, method, Arguments((only(place), constant(name))))
        home = _home(cls.__mro__, name)
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
        if not place.known:
            self._absent(place, name)
        self.walk.seen.missed.add(f"{place.path}.{name}")
        home = _home(cls.__mro__, "__getattr__")
        found = home.__dict__["__getattr__"] if home is not None else None
        if isinstance(found, types.FunctionType):
            given = Arguments((only(place), constant(name)))
            return self.walk.call(site, only(self.walk.held(found)), given)
        return UNKNOWN

    def _absent(self, place: Place, name: str) -> None:
        here = Derived(place.read, lambda x: _has(x, name))
        self.walk.seen.guard(f"whether {place.path} has {name}", here, False)

    def _from_class(self, site: Site, place: Place, name: str, home: Any, static: Any) -> Value:
        """An attribute from the class of an object: a method, a property, a slot or a value."""
        standing = Item(Attribute(Held(home), "__dict__"), name)
        path = path_of(place, name)
        if isinstance(static, types.FunctionType):
            if not is_read(static.__globals__):
                return only(Method(place, name))
            return only(Bound(self._function(place, name, static, "__func__"), only(place)))
        if isinstance(static, staticmethod):
            return only(self._function(place, name, static.__func__, ""))
        if isinstance(static, classmethod):
            read = Attribute(place.read, "__class__")
            cls = place
            if not isinstance(place.value, type):
                cls = self.walk.place((place, "class"), path, read, type(place.value))
            return only(Bound(self._function(place, name, static.__func__, "__func__"), only(cls)))
        if isinstance(static, property | functools.cached_property):
            return self._of_property(site, place, name, home, static)
        if is_ours(static):
            self.walk.seen.guard(path, standing, static, by_identity=True)
            return only(Bound(self.walk.held(static), only(place)))
        if isinstance(static, types.MemberDescriptorType | types.GetSetDescriptorType):
            found = slot(place.value, name)
            if found is None and isinstance(static, types.MemberDescriptorType):
                now = Derived(place.read, lambda x: slot(x, name))
                self.walk.seen.guard(path, now, None)
            return UNKNOWN if found is None else self.walk.attribute(place, name, found)
        get = getattr(type(static), "__get__", None)
        if isinstance(get, types.FunctionType):
            said = f"the descriptor {path}"
            descriptor = self.walk.place((id(home), name), said, standing, static)
            self.walk.seen.guard(descriptor.path, standing, static, by_identity=True)
            owner = self.walk.held(type(place.value))
            given = Arguments((only(descriptor), only(place), only(owner)))
            return self.walk.call(site, only(self.walk.held(get)), given)
        if get is not None:
            return only(Method(place, name))
        return self.walk.attribute(place, name, static)

    def _of_property(self, site: Site, place: Place, name: str, home: Any, static: Any) -> Value:
        fn = static.fget if isinstance(static, property) else static.func
        if not isinstance(fn, types.FunctionType) or not is_read(fn.__globals__):
            return only(Method(place, name))
        where = Item(Attribute(Held(home), "__dict__"), name)
        self.walk.seen.guard(f"{place.path}.{name}", where, static, by_identity=True)
        if not isinstance(static, property) and not place.known:
            own = Derived(place.read, lambda x: name in x.__dict__)
            self.walk.seen.guard(f"whether {place.path} has {name}", own, False)
        return self.walk.call(site, only(self.walk.held(fn)), Arguments((only(place),)))

    def _of_super(self, site: Site, t: Super, name: str) -> Value:
        behind = [b.value for b in t.behind if isinstance(b, Place) and isinstance(b.value, type)]
        found = [self._behind(site, first, cls, name) for first in t.first for cls in behind]
        return union(found) or UNKNOWN

    def _behind(self, site: Site, first: Any, cls: type, name: str) -> Value:
        of = first if isinstance(first, Place) else self.walk.held(cls)
        home = _home(_behind(of.value, cls), name)
        if home is None:
            return NOTHING
        static = home.__dict__[name]
        now = Derived(of.read, lambda x: _home(_behind(x, cls), name).__dict__[name])
        where = f"{cls.__module__}.{cls.__qualname__}"
        self.walk.seen.function(f"super().{name} in {where}", now, static)
        if isinstance(static, types.FunctionType) and is_read(static.__globals__):
            return only(Bound(self.walk.held(static), only(first)))
        if not isinstance(first, Place):
            return NOTHING
        return self._from_class(site, first, name, home, static)


def _home(classes: Sequence[type], name: str) -> Any:
    """The first of these classes that has an attribute of its own."""
    return next((k for k in classes if name in k.__dict__), None)


def _behind(x: Any, cls: type) -> Sequence[type]:
    """The classes in which ``super()`` of a class searches for an object or a class."""
    own: Any = x if isinstance(x, type) and cls in x.__mro__ else type(x)
    line = own.__mro__ if cls in own.__mro__ else cls.__mro__
    return line[line.index(cls) + 1 :]


def _has(x: Any, name: str) -> bool:
    """Whether an object or its class has an attribute, found without running its code."""
    classes = (*type(x).__mro__, *(x.__mro__ if isinstance(x, type) else ()))
    return name in getattr(x, "__dict__", {}) or _home(classes, name) is not None


def _of_its_own(value: Any, name: str) -> bool:
    """Whether an attribute of a number, a text or an array is of a class that the user wrote."""
    home = _home(type(value).__mro__, name)
    return name in getattr(value, "__dict__", {}) if home is None else class_is_read(home)
