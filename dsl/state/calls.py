"""Results of calls whose code can't be read.

These are methods of arrays and containers, built-in functions, and objects that hold functions.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import builtins
import dataclasses
import functools
import importlib
import operator
import sys
import types
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from dlvm.dsl.trace.trees import captured_functions
from dlvm.dsl.words.methods import WeakMethod

from .attributes import UNKNOWN
from .frames import Site
from .homes import UNREAD, home_of, is_ours, is_read
from .items import Items
from .outputs import changed, names_of, texts_in, texts_of
from .places import Attribute, Derived, Item, is_numeric
from .seen import Scalar, Use
from .things import (
    HOST,
    NOTHING,
    Bound,
    Built,
    Iter,
    Method,
    Place,
    Value,
    flat,
    only,
    union,
)

_ITERATED = {list, tuple, iter, reversed, sorted, set, frozenset}
_OF_TYPE = {type, isinstance, issubclass, callable, id}
_IMPORTS = {importlib.import_module, builtins.__import__}
_BY_NAME = {operator.attrgetter, operator.methodcaller}
_SETTERS = {"__setattr__", "__delattr__"}
_EVERY = {builtins.vars, builtins.dir}
_VIEWS = {"transpose", "swapaxes", "squeeze"}
_ORDERED = {"reshape", "ravel"}


class Calls(Items):
    """The effect of calls whose code is not read."""

    # -- calls of what has no code to be read ------------------------------------------------------

    def method(self, site: Site, t: Method, args: Sequence[Value], given: list[Value]) -> Value:
        """The result of a method of an array, a container, or another built-in object."""
        of = t.of
        if t.name in _SETTERS:
            whole = isinstance(of, Place) and isinstance(of.value, type)
            return self._set_by_name(site, args if whole else (only(of), *args))
        if not isinstance(of, Place):
            return self._method_of_built(site, of, t.name, given)
        if is_numeric(of.value):
            return self._method_of_array(site, of, t.name, given)
        if isinstance(of.value, ContextVar) and t.name == "get":
            now = Derived(of.read, _present)
            return UNKNOWN | self.under(of, f"{of.path}.get()", now, "now", _present(of.value))
        if self.is_container(of.value) and isinstance(of.value, dict):
            if t.name in ("items", "values"):
                found = self.elements(site, only(of), values=True)
                return only(Iter(only(Built((only(HOST), found))) if t.name == "items" else found))
            if t.name == "keys":
                return only(Iter(self.elements(site, only(of))))
        self.hand(site, given)
        self.seen.all_touched(site, only(of) | changed(of.value, args, {}, t.name))
        self.hand(site, [only(of)])
        return UNKNOWN

    def gets(self, callee: Value) -> Value:
        """Those of the things that may be called which are ``get`` of a dict."""
        found = (t for t in callee if isinstance(t, Method) and t.name == "get")
        places = (t for t in found if isinstance(t.of, Place) and isinstance(t.of.value, dict))
        return frozenset(t for t in places if self.is_container(t.of.value))

    def got(self, site: Site, gets: Value, key: Value) -> Value:
        """The items under a key of dicts."""
        return union(self.at_key(site, t.of, key) for t in gets)

    def _method_of_built(self, site: Site, of: Any, name: str, given: list[Value]) -> Value:
        inside = flat(only(of))
        if name == "items":
            return only(Iter(only(Built((only(HOST), inside)))))
        if name in ("values", "get", "copy", "keys"):
            return only(Iter(inside)) | inside
        self.hand(site, [*given, inside])
        return UNKNOWN

    def _method_of_array(self, site: Site, of: Place, name: str, given: list[Value]) -> Value:
        if name in _VIEWS and of.value.ndim >= 2:
            return self.view(of, of.value.T)
        if name in _ORDERED and of.value.flags.c_contiguous:
            return self.view(of, of.value.reshape(-1))
        self.seen.touched(site, of)
        self.seen.used(site, of, Use.READ)
        self.hand(site, given)
        return only(HOST)

    def builtin(
        self, site: Site, fn: Any, args: Sequence[Value], given: list[Value]
    ) -> Value | None:
        """The result of a built-in function, if its effect is known; else None."""
        try:
            hash(fn)
        except TypeError:
            return None
        if fn is len and args:
            for t in (t for t in args[0] if isinstance(t, Place)):
                if is_numeric(t.value):
                    self.seen.typed(t)
                elif self.is_container(t.value):
                    self.seen.length(t)
                else:
                    self.hand(site, [only(t)])
            return only(HOST) if self.kinds(args[0]) != {"a"} else UNKNOWN
        if fn is type and len(args) == 1:
            return union(self._class_of(t) for t in args[0])
        if fn is next and args:
            self.elements(site, args[0])
            return UNKNOWN
        if fn in _IMPORTS and args:
            found = [sys.modules.get(n) for n in texts_in(args[:1])]
            return UNKNOWN | frozenset(self.held(m, m.__name__) for m in found if m is not None)
        if fn in _OF_TYPE and args:
            for t in (t for t in args[0] if isinstance(t, Place) and not t.known):
                self.seen.typed(t)
            return only(HOST)
        if fn in _BY_NAME:
            self.names.update(n for s in texts_in(args) for n in s.split("."))
        if fn is globals:
            self.seen.local += 1
            return only(self.held(site.frame.globals))
        if fn in _ITERATED and len(given) == 1:
            return only(Iter(self.elements(site, given[0])))
        if fn is enumerate and args:
            return only(Iter(only(Built((only(HOST), self.elements(site, args[0]))))))
        if fn is zip and len(args) == len(given):
            return only(Iter(only(Built(tuple(self.elements(site, x) for x in args)))))
        if fn in (getattr, hasattr) and len(args) >= 2:
            return self._by_name(site, args)
        if fn in (setattr, delattr) and len(args) >= 2:
            return self._set_by_name(site, args)
        if fn in _EVERY and args:
            self.hand(site, [self.everything(site, args[0])])
            return UNKNOWN
        return None

    def _class_of(self, t: Any) -> Value:
        """The class of a value."""
        if not isinstance(t, Place) or isinstance(t.value, Scalar) or is_numeric(t.value):
            return UNKNOWN
        read = Attribute(t.read, "__class__")
        return self.under(t, f"the type of {t.path}", read, "class", type(t.value))

    def _by_name(self, site: Site, args: Sequence[Value]) -> Value:
        names = texts_of(args[1])
        found = [self.attribute(site, args[0], n) for n in names]
        return union([*(found if names else [self.everything(site, args[0])]), *args[2:]])

    def _set_by_name(self, site: Site, args: Sequence[Value]) -> Value:
        """Writes an attribute whose name is a value: any attribute if the name is not known."""
        target, names, x = (*args, UNKNOWN, UNKNOWN, UNKNOWN)[:3]
        if not texts_of(names):
            self.everything(site, target)
        for name in texts_of(names) or names_of(target):
            self.write(site, target, x, name=name)
        return UNKNOWN

    def module(self, name: str, names: Value) -> Value:
        """A module imported inside a function."""
        inner = any(isinstance(t, Built) for t in names)  # from a.b import c
        found = sys.modules.get(name if inner else name.partition(".")[0])
        return UNKNOWN if found is None else only(self.held(found, name))

    def everything(self, site: Site, x: Value) -> Value:
        """All attributes that objects themselves have."""
        out = [UNKNOWN]
        for t in (t for t in x if isinstance(t, Place)):
            if isinstance(t.value, types.ModuleType) and not is_read(t.value):
                continue  # nothing of a module that isn't read is compared
            self.hand(site, [only(t)])
            slots = (n for k in type(t.value).__mro__ for n in getattr(k, "__slots__", ()))
            own = getattr(t.value, "__dict__", {})
            if isinstance(own, dict) and hasattr(t.value, "__dict__") and not t.known:
                keys = Derived(t.read, lambda v: tuple(v.__dict__))
                self.seen.guard(f"the attributes of {t.path}", keys, tuple(own))
            out += [self.attribute(site, only(t), n) for n in [*own, *slots]]
        return union(out)

    def inside(self, t: Place) -> tuple[list[Value], bool] | None:
        """The functions in a callable object, and whether they are called with its arguments."""
        value = t.value
        if isinstance(value, types.MethodType | WeakMethod):
            owner: Any = value.__self__
            where = f"{t.path}.__self__" if t.path else "self"
            first = self.place((t, "self"), where, Attribute(t.read, "__self__"), owner)
            if not isinstance(value.__func__, types.FunctionType) and not is_ours(value.__func__):
                return None
            return [only(Bound(self.held(value.__func__), self.loaded(first)))], True
        if isinstance(value, functools.partial):
            return [self._partial(t)], True
        if is_ours(value):
            return self._ours(t)
        wrapped = getattr(value, "__dict__", {}).get("__wrapped__")
        plain = isinstance(value, types.FunctionType | type) or home_of(value) in UNREAD
        if callable(wrapped) and not plain:
            path = getattr(wrapped, "__name__", t.path)
            return [self.under(t, path, Attribute(t.read, "__wrapped__"), "wrapped", wrapped)], True
        return None

    def _partial(self, t: Place) -> Value:
        value, path = t.value, t.path
        function = self.under(
            t, f"{path}.func".lstrip("."), Attribute(t.read, "func"), "func", value.func
        )
        parts = [("args", i, x) for i, x in enumerate(value.args)]
        parts += [("keywords", k, x) for k, x in value.keywords.items()]
        for where, key, x in parts:
            read = Item(Attribute(t.read, where), key)
            given = self.under(t, f"{path}.{where}[{key!r}]".lstrip("."), read, (where, key), x)
            name: Any = () if where == "args" else ((key, given),)
            function = only(
                Bound(next(iter(function)), given if where == "args" else NOTHING, name)
            )
        return function

    def _ours(self, t: Place) -> tuple[list[Value], bool] | None:
        """The functions of a staged function, of one with a derivative rule, or of an optimiser."""
        value = t.value
        source = _source(value)
        if source is not None:
            return [only(self.held(root)) for root in source.roots], False
        if hasattr(value, "_rules"):
            if not t.known:
                rules = Attribute(t.read, "_rules")
                self.seen.guard(f"the rules of {t.path}", rules, value._rules, by_identity=True)
            return [only(self.held(f)) for f in (value._fun, *value._rules)], False
        if dataclasses.is_dataclass(value) and (functions := captured_functions(value)):
            self.seen.whole(t)  # such as an optimiser: its schedule reads state of its own
            return [only(self.held(f)) for f in functions], False
        return None


def _present(variable: ContextVar[Any]) -> Any:
    return variable.get(None)


def _source(value: Any) -> Any:
    """The Python function of a staged one, or of a method of a dataclass."""
    x: Any
    for x in (value, getattr(value, "_function", None)):
        if hasattr(x, "python") and hasattr(x, "source"):
            return x.source
    return None
