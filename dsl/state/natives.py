"""Methods of arrays and containers, and built-in functions, whose code can't be read."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import builtins
import importlib
import operator
import sys
import types
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .abstract_values import (
    HOST,
    UNKNOWN,
    Arguments,
    Built,
    Iter,
    Method,
    Place,
    Value,
    flat,
    only,
    union,
)
from .attributes import Attributes
from .frames import Site
from .items import Items, Operators
from .outputs import changed, names_of, texts_in, texts_of
from .places import Attribute, Derived, Held, Item, is_numeric
from .record import Scalar, Use
from .walk import Walk, is_container, kinds
from .whose_code import is_read

_ITERATED = {list, tuple, iter, reversed, sorted, set, frozenset}
_OF_TYPE = {type, isinstance, issubclass, callable, id}
_IMPORTS = {importlib.import_module, builtins.__import__}
_BY_NAME = {operator.attrgetter, operator.methodcaller}
_SETTERS = {"__setattr__", "__delattr__"}
_EVERY = {builtins.vars, builtins.dir}
_VIEWS = {"transpose", "swapaxes", "squeeze"}
_ORDERED = {"reshape", "ravel"}


@dataclass(frozen=True, slots=True, eq=False)
class Natives:
    """The effect of calls of what has no code to be read."""

    walk: Walk
    attributes: Attributes
    items: Items
    operators: Operators

    def method(self, site: Site, t: Method, arguments: Arguments) -> Value:
        """The result of a method of an array, a container, or another built-in object."""
        of, args, given = t.of, arguments.args, arguments.all
        if t.name in _SETTERS:
            whole = isinstance(of, Place) and isinstance(of.value, type)
            return self._set_by_name(site, args if whole else (only(of), *args))
        if not isinstance(of, Place):
            return self._method_of_built(site, of, t.name, given)
        if is_numeric(of.value):
            return self._method_of_array(site, of, t.name, given)
        if isinstance(of.value, ContextVar) and t.name == "get":
            now = Derived(of.read, _present)
            return UNKNOWN | self.walk.under(of, f"{of.path}.get()", now, "now", _present(of.value))
        if is_container(of.value) and isinstance(of.value, dict):
            if t.name in ("items", "values"):
                found = self.items.elements(site, only(of), values=True)
                return only(Iter(only(Built((only(HOST), found))) if t.name == "items" else found))
            if t.name == "keys":
                return only(Iter(self.items.elements(site, only(of))))
        self.walk.hand(site, given)
        self.walk.seen.all_touched(site, only(of) | changed(of.value, args, {}, t.name))
        self.walk.hand(site, [only(of)])
        return UNKNOWN

    def got(self, site: Site, gets: Value, key: Value) -> Value:
        """The items under a key of dicts."""
        return union(self.items.at_key(site, t.of, key) for t in gets)

    def _method_of_built(self, site: Site, of: Any, name: str, given: list[Value]) -> Value:
        inside = flat(only(of))
        if name == "items":
            return only(Iter(only(Built((only(HOST), inside)))))
        if name in ("values", "get", "copy", "keys"):
            return only(Iter(inside)) | inside
        self.walk.hand(site, [*given, inside])
        return UNKNOWN

    def _method_of_array(self, site: Site, of: Place, name: str, given: list[Value]) -> Value:
        if name in _VIEWS and of.value.ndim >= 2:
            return self.walk.view(of, of.value.T)
        if name in _ORDERED and of.value.flags.c_contiguous:
            return self.walk.view(of, of.value.reshape(-1))
        self.walk.seen.touched(site, of)
        self.walk.seen.used(site, of, Use.READ)
        self.walk.hand(site, given)
        return only(HOST)

    def builtin(self, site: Site, fn: Any, arguments: Arguments) -> Value | None:
        """The result of a built-in function, if its effect is known; else None."""
        args, given = arguments.args, arguments.all
        try:
            hash(fn)
        except TypeError:
            return None
        if fn is len and args:
            return self._length(site, args[0])
        if fn is type and len(args) == 1:
            return union(self._class_of(t) for t in args[0])
        if fn is next and args:
            self.items.elements(site, args[0])
            return UNKNOWN
        if fn in _IMPORTS and args:
            found = [sys.modules.get(n) for n in texts_in(args[:1])]
            return UNKNOWN | frozenset(
                self.walk.held(m, m.__name__) for m in found if m is not None
            )
        if fn in _OF_TYPE and args:
            for t in (t for t in args[0] if isinstance(t, Place) and not t.known):
                self.walk.seen.typed(t)
            return only(HOST)
        if fn in _BY_NAME:
            self.walk.opened.names.update(n for s in texts_in(args) for n in s.split("."))
        if fn is globals:
            self.walk.seen.local += 1
            return only(self.walk.held(site.frame.globals))
        if fn in _ITERATED and len(given) == 1:
            return only(Iter(self.items.elements(site, given[0])))
        if fn is enumerate and args:
            return only(Iter(only(Built((only(HOST), self.items.elements(site, args[0]))))))
        if fn is zip and len(args) == len(given):
            return only(Iter(only(Built(tuple(self.items.elements(site, x) for x in args)))))
        if fn in (getattr, hasattr) and len(args) >= 2:
            return self._by_name(site, args)
        if fn in (setattr, delattr) and len(args) >= 2:
            return self._set_by_name(site, args)
        if fn in _EVERY and args:
            self.walk.hand(site, [self._everything(site, args[0])])
            return UNKNOWN
        return None

    def _length(self, site: Site, x: Value) -> Value:
        for t in (t for t in x if isinstance(t, Place)):
            if is_numeric(t.value):
                self.walk.seen.typed(t)
            elif is_container(t.value):
                self.walk.seen.length(t)
            else:
                self.walk.hand(site, [only(t)])
        return only(HOST) if kinds(x) != {"a"} else UNKNOWN

    def _class_of(self, t: Any) -> Value:
        """The class of a value."""
        if not isinstance(t, Place) or isinstance(t.value, Scalar) or is_numeric(t.value):
            return UNKNOWN
        read = Attribute(t.read, "__class__")
        return self.walk.under(t, f"the type of {t.path}", read, "class", type(t.value))

    def _by_name(self, site: Site, args: Sequence[Value]) -> Value:
        names = texts_of(args[1])
        found = [self.attributes.load(site, args[0], n) for n in names]
        return union([*(found if names else [self._everything(site, args[0])]), *args[2:]])

    def _set_by_name(self, site: Site, args: Sequence[Value]) -> Value:
        """Writes an attribute whose name is a value: any attribute if the name is not known."""
        target, names, x = (*args, UNKNOWN, UNKNOWN, UNKNOWN)[:3]
        if not texts_of(names):
            self._everything(site, target)
        for name in texts_of(names) or names_of(target):
            self.operators.write_attribute(site, target, x, name)
        return UNKNOWN

    def module(self, site: Site, names: Value, name: str) -> Value:
        """A module imported inside a function."""
        inner = any(isinstance(t, Built) for t in names)  # from a.b import c
        name = name if inner else name.partition(".")[0]
        if (found := sys.modules.get(name)) is None:
            return UNKNOWN
        now = Item(Held(sys.modules), name)
        self.walk.seen.guard(f"the module {name}", now, found, by_identity=True)
        return only(self.walk.held(found, name))

    def _everything(self, site: Site, x: Value) -> Value:
        """All attributes that objects themselves have."""
        out = [UNKNOWN]
        for t in (t for t in x if isinstance(t, Place)):
            if isinstance(t.value, types.ModuleType) and not is_read(t.value):
                continue  # nothing of a module that isn't read is compared
            self.walk.hand(site, [only(t)])
            slots = (n for k in type(t.value).__mro__ for n in getattr(k, "__slots__", ()))
            own = getattr(t.value, "__dict__", {})
            if isinstance(own, dict) and hasattr(t.value, "__dict__") and not t.known:
                keys = Derived(t.read, lambda v: tuple(v.__dict__))
                self.walk.seen.guard(f"the attributes of {t.path}", keys, tuple(own))
            out += [self.attributes.load(site, only(t), n) for n in [*own, *slots]]
        return union(out)


def _present(variable: ContextVar[Any]) -> Any:
    return variable.get(None)


def gets_of(callee: Value) -> Value:
    """Those of the things that may be called which are ``get`` of a dict."""
    found = (t for t in callee if isinstance(t, Method) and t.name == "get")
    places = (t for t in found if isinstance(t.of, Place) and isinstance(t.of.value, dict))
    return frozenset(t for t in places if is_container(t.of.value))
