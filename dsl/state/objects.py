"""What loads, operators and calls mean for captured objects, by what kind of object it is.

An attribute is looked for where Python would look, without running a property or a descriptor of
the user's: their code is walked like any other.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dlvm.dsl.trace.scopes import is_array
from dlvm.dsl.words.methods import WeakMethod

from .guards import CONTAINERS
from .places import Attribute, Derived, Held, Item, Read
from .seen import Scalar, Seen, Use
from .things import (
    ANY,
    HOST,
    NOTHING,
    STAGED,
    Bound,
    Built,
    Iter,
    Method,
    Place,
    Site,
    Super,
    Value,
    flat,
    only,
    union,
)

UNKNOWN = only(ANY)
_DEPTH = 32
_META = {"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "device"}
_VIEWS = {"T", "mT", "transpose", "swapaxes", "squeeze"}
_ORDERED = {"reshape", "ravel"}
_ITERATED = {list, tuple, iter, reversed, sorted, set, frozenset}
_OF_TYPE = {type, isinstance, issubclass, callable, id}
_EVERY = {builtins.vars, builtins.dir, getattr}
_UNREAD = {
    *sys.stdlib_module_names,
    "numpy",
    "dlvm",
    "optree",
    "ml_dtypes",
    "llvmlite",
    "scipy",
} - {"__main__"}
_known: dict[str, bool] = {}


def is_known_code(space: Any) -> bool:
    """Whether code of a module, given as such or by its globals, is read.

    Python's own is not, nor that of an installed package, unless a function of it was staged.
    """
    names: Any = space if isinstance(space, dict) else vars(space) if space is not None else {}
    module = str(names.get("__name__", ""))
    if module not in _known:
        file = str(names.get("__file__", ""))
        installed = "site-packages" in file or "dist-packages" in file
        _known[module] = module.partition(".")[0] not in _UNREAD and not installed
    return _known[module]


def know_package(fn: Any) -> None:
    """Read the code of the package that a staged function is of."""
    module = str(getattr(fn, "__module__", None) or "")
    top = module.partition(".")[0]
    if top not in _UNREAD and not _known.get(module):
        _known.update({n: True for n in [*sys.modules] if n.partition(".")[0] == top})


class Objects(ABC):
    """The meaning of loads and operators; calls and what is handed over are with ``Paths``."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.names: set[str] = set()
        """What is loaded of values of which nothing is known."""
        self._places: dict[Any, Place] = {}

    @abstractmethod
    def call(
        self,
        site: Site,
        callee: Value,
        args: Sequence[Value],
        named: dict[str, Value],
        rest: Value | None = None,
    ) -> Value:
        """What a call may give."""

    @abstractmethod
    def hand(
        self, site: Site, values: Iterable[Value], use: Use = Use.READ, staged: bool = False
    ) -> None:
        """Values go to code that is not read."""

    @abstractmethod
    def open(self, place: Place) -> None:
        """What is loaded by name of anything may be loaded of this."""

    # -- places ------------------------------------------------------------------------------------

    def place(
        self, key: Any, path: str, read: Read, value: Any, depth: int = 0, known: bool = False
    ) -> Place:
        """The place of a key, the same one each time."""
        if key not in self._places:
            self._places[key] = Place(path, read, value, depth, known)
        return self._places[key]

    def held(self, value: Any, path: str = "") -> Place:
        """Something that is part of the code."""
        return self.place(("held", id(value)), path, Held(value), value, 0, True)

    def constant(self, value: Any) -> Value:
        """A constant in the code."""
        if isinstance(value, tuple):
            return only(Built(tuple(self.constant(v) for v in value)))
        return only(
            self.place(("constant", type(value), repr(value)), "", Held(value), value, 0, True)
        )

    def loaded(self, place: Place) -> Value:
        """A place that the code loads."""
        self.seen.loaded(place)
        return only(place)

    def under(self, place: Place, path: str, read: Read, key: Any, value: Any) -> Value:
        """A place in another one."""
        if place.depth >= _DEPTH:
            self.seen.unwatched[place.path] = "nested too deeply to be followed"
            return UNKNOWN
        return self.loaded(self.place((place, key), path, read, value, place.depth + 1))

    def inner(self, place: Place, name: str, value: Any) -> Value:
        """An attribute as a place."""
        path = f"{place.path}.{name}" if place.path else name
        return self.under(place, path, Attribute(place.read, name), ("attribute", name), value)

    def item(self, place: Place, key: Any, value: Any) -> Value:
        """What a container holds under a key, as a place."""
        read = Item(place.read, key)
        return self.under(place, f"{place.path}[{key!r}]", read, ("item", type(key), key), value)

    def is_container(self, value: Any) -> bool:
        """Whether items of it are places."""
        if not isinstance(value, CONTAINERS):
            return False
        return not isinstance(getattr(type(value), "__getitem__", None), types.FunctionType) or (
            type(value).__module__ == "collections"
        )

    def kinds(self, value: Value) -> set[str]:
        """Whether it is staged (s), of Python or NumPy (h), or may be anything (a)."""
        out: set[str] = set()
        for t in flat(value):
            plain = isinstance(t, Place) and (isinstance(t.value, Scalar) or is_array(t.value))
            out.add("s" if t is STAGED else "h" if t is HOST or plain else "a")
        return out

    def _is_array(self, t: Any) -> bool:
        return isinstance(t, Place) and is_array(t.value)

    def home_of(self, value: Any) -> str:
        """The package of a function or object: its first name."""
        if isinstance(value, np.ufunc):
            return "numpy"
        if isinstance(value, types.FunctionType):
            return str(value.__globals__.get("__name__", "")).partition(".")[0]
        module = getattr(value, "__module__", None) or type(value).__module__
        return str(module).partition(".")[0]

    # -- attributes --------------------------------------------------------------------------------

    def attribute(self, site: Site, x: Value, name: str) -> Value:
        """What a value has under a name."""
        return union(self._attribute(site, t, name) for t in x)

    def _attribute(self, site: Site, t: Any, name: str) -> Value:
        if isinstance(t, Place):
            return self._of_place(site, t, name)
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
        if is_array(value):
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

    def has(self, place: Place, name: str) -> bool:
        """Whether an object itself has an attribute."""
        return name in getattr(place.value, "__dict__", {})

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
        if is_known_code(module):
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
        if hasattr(static, "__get__") and not self._is_ours(static):
            return only(Method(place, name))
        if not is_known_code(sys.modules.get(home.__module__)):
            return only(
                self.place((place, name), name, Attribute(place.read, name), static, 0, True)
            )
        return self.inner(place, name, static)

    def _function(self, place: Place, name: str, fn: Any, inside: str) -> Place:
        """A function that an object has from its class, guarded."""
        read: Read = Attribute(place.read, name)
        read = Attribute(read, inside) if inside else read
        path = f"{place.path}.{name}" if place.path else name
        if not place.known and is_known_code(getattr(fn, "__globals__", {})):
            self.seen.guard(path, read, fn, by_identity=True)
        return self.place((place, "function", name, id(fn)), path, read, fn, 0, True)

    def _is_ours(self, static: Any) -> bool:
        return type(static).__module__.partition(".")[0] == "dlvm"

    def _of_object(self, site: Site, place: Place, name: str) -> Value:
        cls: Any = type(place.value)
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
        """A name that an object has not: its class may make it up."""
        self._absent(place, name)
        self.seen.missed.add(f"{place.path}.{name}")
        found = next(
            (k.__dict__["__getattr__"] for k in cls.__mro__ if "__getattr__" in k.__dict__), None
        )
        if isinstance(found, types.FunctionType):
            return self.call(site, only(self.held(found)), (only(place), self.constant(name)), {})
        return UNKNOWN

    def _absent(self, place: Place, name: str) -> None:
        if not place.known and hasattr(place.value, "__dict__"):
            here = Derived(place.read, lambda x: name in x.__dict__)
            self.seen.guard(f"whether {place.path} has {name}", here, False)

    def _from_class(self, site: Site, place: Place, name: str, home: Any, static: Any) -> Value:
        """What an object has from its class: a method, a property, a slot or a value."""
        standing = Item(Attribute(Held(home), "__dict__"), name)
        path = f"{place.path}.{name}" if place.path else name
        if isinstance(static, types.FunctionType):
            if not is_known_code(static.__globals__):
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
        if self._is_ours(static):
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
        if not isinstance(fn, types.FunctionType) or not is_known_code(fn.__globals__):
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
                if isinstance(static, types.FunctionType) and is_known_code(static.__globals__):
                    found.append(only(Bound(self.held(static), only(first))))
                elif isinstance(first, Place):
                    found.append(self._from_class(site, first, name, home, static))
        return union(found) or UNKNOWN

    # -- items -------------------------------------------------------------------------------------

    def subscript(self, site: Site, x: Value, key: Value) -> Value:
        """What stands under a key."""
        return union(self._subscript(site, t, key) for t in x)

    def _subscript(self, site: Site, t: Any, key: Value) -> Value:
        if isinstance(t, Place):
            return self._item(site, t, key)
        keys = [k.value for k in key if isinstance(k, Place)]
        if isinstance(t, Built):
            inside = [k for k in keys if isinstance(k, int) and -len(t.parts) <= k < len(t.parts)]
            exact = len(inside) == len(key) == 1
            return t.parts[inside[0]] if exact else union(t.parts) | only(Iter(union(t.parts)))
        if isinstance(t, Iter):
            return t.of | (only(t) if any(isinstance(k, slice) for k in keys) else NOTHING)
        self._by_array(site, key)
        return only(t) if t in (STAGED, HOST) else UNKNOWN

    def _by_array(self, site: Site, key: Value) -> None:
        """Arrays as indices of what is staged: places are arguments, masks are read."""
        for k in flat(key):
            if self._is_array(k):
                self.seen.used(site, k, Use.READ if k.value.dtype.kind == "b" else Use.MAYBE)

    def _item(self, site: Site, place: Place, key: Value) -> Value:
        value = place.value
        if is_array(value):
            return self._of_key(site, place, key)
        if isinstance(value, Scalar):
            return only(HOST)
        self.hand(site, [frozenset(k for k in key if self._is_array(k))])
        if self.is_container(value):
            self.seen.entered(place)
            known = [k.value for k in key if isinstance(k, Place) and isinstance(k.value, Scalar)]
            if len(known) == len(key):
                return union(self._under(place, k) for k in known)
            found = self.elements(site, only(place), values=True)
            sliced = any(isinstance(k, Place) and isinstance(k.value, slice) for k in key)
            return found | (only(Iter(found)) if sliced else NOTHING)
        if hasattr(type(value), "__getitem__"):
            method = self.attribute(site, only(place), "__getitem__")
            return self.call(site, method, (key,), {})
        self.hand(site, [only(place)])
        return UNKNOWN

    def _under(self, place: Place, key: Any) -> Value:
        try:
            return self.item(place, key, place.value[key])
        except Exception:  # a key that is not there, or a __missing__ of the user's
            self.seen.missed.add(f"{place.path}[{key!r}]")
            self.seen.guard(
                f"whether {place.path} has {key!r}",
                Derived(place.read, lambda x: _has(x, key)),
                _has(place.value, key),
            )
            return UNKNOWN

    def _of_key(self, site: Site, place: Place, key: Value) -> Value:
        """A view of an array where it is known to be one; else elements that Python reads."""
        items = [t.parts if isinstance(t, Built) else (only(t),) for t in key]
        parts = [next(iter(part)) for item in items for part in item if len(part) == 1]
        simple = len(items) == 1 and len(parts) == len(items[0])
        values = [p.value if isinstance(p, Place) and p.known else ANY for p in parts]
        slices = all(v is None or v is Ellipsis or isinstance(v, slice) for v in values)
        whole = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
        ranks = place.value.ndim - sum(isinstance(v, int) for v in values)
        mixed = all(v is None or v is Ellipsis or type(v) in (slice, int) for v in values)
        if (
            simple
            and values
            and (
                slices or (whole and ranks > 0) or (mixed and any(type(v) is slice for v in values))
            )
        ):
            return self._part(place, ranks + values.count(None))
        self.hand(site, [key])
        self.seen.used(site, place, Use.READ)
        return only(HOST)

    def _part(self, place: Place, rank: int) -> Value:
        """Some part of an array, whose size does not matter; it counts as a view with gaps."""
        return self.view(place, np.broadcast_to(np.zeros((), place.value.dtype), (2,) * rank))

    def sliced(self, site: Site, x: Value, bounds: Sequence[Value]) -> Value:
        """What stands between two bounds."""
        return self.subscript(site, x, self.slice_of(site, bounds))

    def slice_of(self, site: Site, parts: Sequence[Value]) -> Value:
        """A slice."""
        self.hand(site, parts)
        return only(self.held(_SLICE))

    def elements(self, site: Site, x: Value, values: bool = False) -> Value:
        """What iterating gives; of a dict the keys, unless its ``values`` are wanted."""
        return union(self._elements(site, t, values) for t in x)

    def _elements(self, site: Site, t: Any, values: bool) -> Value:
        if isinstance(t, Built):
            return union(t.parts)
        if isinstance(t, Iter):
            return t.of
        if not isinstance(t, Place):
            self.hand(site, [only(t)])
            return only(t) if t in (STAGED, HOST) else UNKNOWN
        value = t.value
        if is_array(value):
            if value.ndim > 1:
                return self._part(t, value.ndim - 1)
            self.seen.used(site, t, Use.READ)
            return only(HOST)
        if isinstance(value, Scalar | range):
            return only(HOST)
        if self.is_container(value):
            self.seen.entered(t)
            rest = self.seen.structure(t)
            if hasattr(value, "items") and not values:
                return only(HOST)
            return union([only(HOST), *(self.item(t, k, v) for k, v in rest)])
        self.hand(site, [only(t)])
        return UNKNOWN

    def parts(self, site: Site, x: Value, count: int) -> tuple[Value, ...]:
        """What a sequence of some length is unpacked to."""
        columns: list[tuple[Value, ...]] = []
        for t in x:
            if isinstance(t, Built) and len(t.parts) == count:
                columns.append(t.parts)
            elif (
                isinstance(t, Place) and isinstance(t.value, tuple | list) and len(t.value) == count
            ):
                self.seen.structure(t)
                columns.append(tuple(self.item(t, i, v) for i, v in enumerate(t.value)))
            else:
                columns.append((self.elements(site, only(t)),) * count)
        return tuple(union(c[i] for c in columns) for i in range(count))

    # -- operators ---------------------------------------------------------------------------------

    def operate(self, site: Site, operands: Sequence[Value], in_place: bool = False) -> Value:
        """An operator, or a function of NumPy."""
        if any(not x for x in operands):
            return NOTHING
        self.arrays_of(site, operands, operands)
        if in_place:
            for t in operands[0]:
                if isinstance(t, Place):
                    self.seen.touched(site, t)
        rest = [frozenset(t for t in x if not self._is_array(t)) for x in operands]
        self.hand(site, rest)
        found = [self.kinds(x) for x in operands]
        if all(k <= {"h"} for k in found):
            return only(HOST)
        return only(STAGED) if {"s"} in found else UNKNOWN

    def arrays_of(self, site: Site, columns: Sequence[Value], operands: Sequence[Value]) -> None:
        """What becomes of arrays that meet other operands: arguments of the trace, or numbers."""
        found = [self.kinds(x) for x in operands]
        for i, x in enumerate(columns):
            others = found[:i] + found[i + 1 :]
            use = Use.READ
            if {"s"} in others:
                use = Use.STAGED
            elif any("h" not in k and k for k in others) or (len(found) == 1 and "a" in found[0]):
                use = Use.MAYBE
            for t in x:
                if self._is_array(t):
                    self.seen.used(site, t, use)

    def asked(self, site: Site, x: Value) -> None:
        """Whether a value is true."""
        for t in x:
            if isinstance(t, Place) and self.is_container(t.value):
                self.seen.length(t)
            elif isinstance(t, Place) and not isinstance(t.value, type | types.FunctionType):
                self.hand(site, [only(t)])

    def compared(self, site: Site, x: Value, y: Value) -> None:
        """Whether one object is another, or None."""
        for a, b in ((a, b) for a in x for b in y):
            nones = [isinstance(t, Place) and t.value is None for t in (a, b)]
            for t in (a, b):
                if isinstance(t, Place) and not t.known and not isinstance(t.value, Scalar):
                    self.seen.typed(t) if any(nones) else self.seen.identity(t)

    def contains(self, site: Site, container: Value, x: Value) -> None:
        """Whether a container has something."""
        self.hand(
            site,
            [
                frozenset(
                    t for t in x if not isinstance(t, Place) or not isinstance(t.value, Scalar)
                )
            ],
        )
        keys = [t.value for t in x if isinstance(t, Place) and isinstance(t.value, Scalar)]
        for t in container:
            if isinstance(t, Place) and isinstance(t.value, dict) and len(keys) == len(x):
                for key in keys:
                    has = Derived(t.read, lambda d, key=key: _has(d, key))
                    if not t.known:
                        self.seen.guard(f"whether {t.path} has {key!r}", has, _has(t.value, key))
            else:
                self.hand(site, [only(t)])

    def write(
        self, site: Site, target: Value, x: Value, name: str = "", key: Value | None = None
    ) -> None:
        """Give an object an attribute, or a container an item."""
        staged = key is not None and not any(isinstance(t, Place) for t in target)
        self.hand(site, [x], Use.MAYBE if staged else Use.READ)
        for t in target:
            if not isinstance(t, Place):
                self._by_array(site, key or NOTHING)
            elif is_array(t.value):
                self.seen.touched(site, t)
                self.seen.used(site, t, Use.READ)
            elif key is None:
                path = f"{t.path}.{name}"
                self.seen.written(site, path, Attribute(t.read, name))
            elif self.is_container(t.value):
                self.seen.touched(site, t)
                for k in (k.value for k in key if isinstance(k, Place)):
                    if isinstance(k, Scalar):
                        self.seen.written(site, f"{t.path}[{k!r}]", Item(t.read, k))
                self.elements(site, only(t), values=True)
            else:
                self.hand(site, [only(t)])

    # -- calls of what has no code to be read ------------------------------------------------------

    def method(self, site: Site, t: Method, args: Sequence[Value], given: list[Value]) -> Value:
        """A method of an array, of a container, or of an object of Python's own."""
        of = t.of
        if not isinstance(of, Place):
            return self._method_of_built(site, of, t.name, given)
        if is_array(of.value):
            return self._method_of_array(site, of, t.name, given)
        if self.is_container(of.value) and isinstance(of.value, dict):
            if t.name in ("items", "values"):
                found = self.elements(site, only(of), values=True)
                return only(Iter(only(Built((only(HOST), found))) if t.name == "items" else found))
            if t.name == "get" and args:
                return self._item(site, of, args[0]) | union(args[1:])
            if t.name == "keys":
                return only(Iter(self.elements(site, only(of))))
        self.hand(site, given)
        self.seen.touched(site, of)
        self.hand(site, [only(of)])
        return UNKNOWN

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
        """What a function of Python's own gives, where more is known of it; else None."""
        try:
            hash(fn)
        except TypeError:
            return None
        if fn is len and args:
            for t in (t for t in args[0] if isinstance(t, Place)):
                if is_array(t.value):
                    self.seen.typed(t)
                elif self.is_container(t.value):
                    self.seen.length(t)
                else:
                    self.hand(site, [only(t)])
            return only(HOST) if self.kinds(args[0]) != {"a"} else UNKNOWN
        if fn in _OF_TYPE and args:
            for t in (t for t in args[0] if isinstance(t, Place) and not t.known):
                self.seen.typed(t)
            return only(HOST) if fn is not type else UNKNOWN
        if fn is globals:
            return only(self.held(site.frame.globals))
        if fn in _ITERATED and len(given) == 1:
            return only(Iter(self.elements(site, given[0])))
        if fn is enumerate and args:
            return only(Iter(only(Built((only(HOST), self.elements(site, args[0]))))))
        if fn is zip and len(args) == len(given):
            return only(Iter(only(Built(tuple(self.elements(site, x) for x in args)))))
        if fn in (getattr, hasattr) and len(args) >= 2:
            return self._by_name(site, args)
        if fn in _EVERY and args:
            self.hand(site, [self.everything(site, args[0])])
            return UNKNOWN
        return None

    def _by_name(self, site: Site, args: Sequence[Value]) -> Value:
        names = [t.value for t in args[1] if isinstance(t, Place) and isinstance(t.value, str)]
        if len(names) == len(args[1]):
            found = union(self.attribute(site, args[0], n) for n in names)
        else:
            found = self.everything(site, args[0])
        return union([found, *args[2:]])

    def everything(self, site: Site, x: Value) -> Value:
        """All that objects have of their own."""
        out = [UNKNOWN]
        for t in (t for t in x if isinstance(t, Place)):
            self.hand(site, [only(t)])
            slots = (n for k in type(t.value).__mro__ for n in getattr(k, "__slots__", ()))
            own = getattr(t.value, "__dict__", {})
            if isinstance(own, dict):
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
            if not isinstance(value.__func__, types.FunctionType) and not self._is_ours(
                value.__func__
            ):
                return None
            return [only(Bound(self.held(value.__func__), self.loaded(first)))], True
        if isinstance(value, functools.partial):
            return [self._partial(t)], True
        if self._is_ours(value):
            return self._ours(t)
        wrapped = getattr(value, "__dict__", {}).get("__wrapped__")
        plain = isinstance(value, types.FunctionType | type) or self.home_of(value) in _UNREAD
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
            name = () if where == "args" else ((key, given),)
            function = only(
                Bound(next(iter(function)), given if where == "args" else NOTHING, name)
            )
        return function

    def _ours(self, t: Place) -> tuple[list[Value], bool] | None:
        """Staged functions and those with a rule for their derivative."""
        value = t.value
        source = _source(value)
        if source is not None:
            return [only(self.held(root)) for root in source.roots], False
        if hasattr(value, "_rules"):
            if not t.known:
                self.seen.guard(
                    f"the rules of {t.path}",
                    Attribute(t.read, "_rules"),
                    value._rules,
                    by_identity=True,
                )
            return [only(self.held(f)) for f in (value._fun, *value._rules)], False
        return None


_SLICE = slice(None)


def _source(value: Any) -> Any:
    """What a staged function was made of; also of a method of a dataclass."""
    for x in (value, getattr(value, "_function", None)):
        if hasattr(x, "python") and hasattr(x, "source"):
            return x.source
    return None


def _has(container: Any, key: Any) -> bool:
    """Whether a container has a key."""
    try:
        return (
            bool(key in container)
            if hasattr(container, "keys")
            else -len(container) <= key < len(container)
        )
    except TypeError:
        return False
