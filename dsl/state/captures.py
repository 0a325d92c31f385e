"""Captured state: what a function reads that is not an argument.

Before a trace the names that the code mentions are followed through closures, defaults, globals,
containers and objects of any kind. Arrays found there become hidden arguments when they are used,
read again at each call; scalars and functions become guards, and another value retraces. Arrays
that Python itself may have computed with are compared by their elements. What can't be compared
is said in words.
"""

from __future__ import annotations

import array
import dis
import enum
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from dlvm.dsl.trace.scopes import is_array
from dlvm.dsl.words.methods import WeakMethod
from dlvm.ir import Array

from .guards import (
    CONTAINERS,
    ELEMENTS,
    SMALL,
    Elements,
    Found,
    Guard,
    comparable,
    entries,
    pairs,
    same_view,
    shows,
    structure,
    weakly,
)
from .places import Attribute, Derived, Held, Item, Read

Scalar = bool | int | float | complex | str | bytes | np.generic | np.dtype | enum.Enum | None
FEW = 64
MANY = 512
DEPTH = 32
_ARRAYS = {"dlvm", "numpy", "optree"}
_FOREIGN = {*_ARRAYS, *sys.stdlib_module_names} - {"__main__"}
_BUFFERS = (bytearray, memoryview, array.array)
_UNPACKED: list[tuple[Any, Callable[[Any], Any]]] = [(set, tuple), (_BUFFERS, bytes)]
_CHANGED = "changed by the function itself while it was traced"
_BETWEEN = {"CACHE", "TO_BOOL", "COPY", "NOT_TAKEN", "EXTENDED_ARG", "UNARY_NOT"}
_EVERY = {"vars", "__dict__", "getattr", "attrgetter", "asdict", "astuple", "replace", "fields"}
_NUMBERS = {"float", "int", "bool", "complex", "range", "round", "math", "item", "tolist"} | {
    "any",
    "all",
    "array_equal",
}
_NEVER_IMPLICIT = {"__init__", "__new__", "__post_init__", "__repr__", "__str__", "__del__"} | {
    "__hash__",
    "__eq__",
    "__reduce__",
}


class Captures:
    """Everything that some functions can reach by the names in their code."""

    def __init__(self, roots: list[Any]) -> None:
        self._roots = roots
        self.names: set[str] = set()
        self.compares = False
        self._home = {_top(getattr(root, "__module__", "")) for root in roots} - _ARRAYS
        known = -1
        while known < len(self.names):  # until all names that reachable code mentions are known
            known = len(self.names)
            self.arrays: dict[int, Found] = {}
            self.held: list[Array] = []
            self.guards: list[Guard] = []
            self.unwatched: dict[str, str] = {}
            self._seen: dict[Any, Any] = {}
            for root in roots:
                self._visit("", root, Held(root), 0)
        self._seen.clear()

    def find(self, array: Array) -> str | None:
        """The path of an array, if it or what it is a view of can be reached."""
        found = self.arrays.get(id(array))
        if found is None and (found := self._view(array)) is not None:
            self.held.append(array)
            self.arrays[id(array)] = found
        return found.path if found else None

    def _view(self, array: Array) -> Found | None:
        for base in self.held:
            if base is not array and shows(base, array):
                found = self.arrays[id(base)]
                return Found(f"{found.path}_view", same_view(array, base, found.read))
        return None

    def settled(self, computed: bool, free: dict[str, str]) -> tuple[Guard, ...]:
        """The guards of a trace that is done; ``computed`` where it used arrays made by Python.

        Names are followed once more, as the trace may have filled a cache. Elements of ``free``
        arrays are not compared.
        """
        changed = [guard.path for guard in self.guards if not guard.holds()]
        after = Captures(self._roots)
        kept = list(after.guards)
        self.unwatched = after.unwatched | dict.fromkeys(changed, _CHANGED)
        self.unwatched |= free
        everywhere = computed or self.compares or bool(self.names & _NUMBERS)
        for base in self.held:
            found = self.arrays[id(base)]
            wanted = everywhere or base.dtype.kind in "iub"
            if wanted and found.path not in free and not base.dtype.hasobject:
                kept.append(self._elements(found, base))
        return tuple(kept)

    def _elements(self, found: Found, base: Array) -> Guard:
        if base.nbytes > SMALL:
            self.unwatched[found.path] = "of what Python reads of it only a sample is compared"
        return Guard(f"{ELEMENTS}{found.path}", Derived(found.read, Elements.of), Elements.of(base))

    # -- following names ----------------------------------------------------------------------

    def _visit(self, path: str, value: Any, read: Read, depth: int) -> None:
        if is_array(value):
            self._array(path, value, read)
        elif isinstance(value, Scalar):
            self._guard(path, read, value)
        elif isinstance(value, types.FunctionType):
            self._guard(path, read, value, by_identity=True)
            self._function(value)
        elif id(value) in self._seen:
            self._guard(path, read, weakly(value), by_identity=True)
        elif depth >= DEPTH:
            self.unwatched[path] = "nested too deeply to be followed"
        else:
            self._seen[id(value)] = value
            self._held_by(path, value, read, depth + 1)

    def _array(self, path: str, value: Array, read: Read) -> None:
        first = self.arrays.setdefault(id(value), Found(path, read))
        if first.read is read:
            self.held.append(value)
        elif first.path != path:
            same = Derived(read, lambda found: found is first.read())
            self._guard(f"whether {path} is {first.path}", same, True)

    def _held_by(self, path: str, value: Any, read: Read, depth: int) -> None:
        inner = getattr(value, "__dict__", {}).get("__wrapped__")
        if isinstance(value, types.ModuleType | type):
            self._guard(path, read, value, by_identity=True)
            if not self._foreign(getattr(value, "__module__", value.__name__)):
                self._attributes(path, value, read, depth)
        elif isinstance(value, types.MethodType | WeakMethod):
            self._visit(path, value.__func__, Attribute(read, "__func__"), depth)
            where = f"{path}.__self__" if path else "self"
            self._visit(where, value.__self__, Attribute(read, "__self__"), depth)
        elif isinstance(value, functools.partial):
            self._parts(path, value, read, depth)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, CONTAINERS):
            self._items(path, value, read, depth)
        elif callable(inner):
            self._guard(path, read, value, by_identity=True)
            self._visit(path, inner, Held(inner), depth)
            for i, rule in enumerate(value.__dict__.get("_rules", ())):  # of a derivative
                self._visit(f"{path}.rules[{i}]", rule, Item(Attribute(read, "_rules"), i), depth)
        elif _top(type(value).__module__) != "dlvm":
            self._object(path, value, read, depth)

    def _parts(self, path: str, value: functools.partial[Any], read: Read, depth: int) -> None:
        self._visit(path, value.func, Attribute(read, "func"), depth)
        self._visit(f"{path}.args", value.args, Attribute(read, "args"), depth)
        self._visit(f"{path}.keywords", value.keywords, Attribute(read, "keywords"), depth)

    def _object(self, path: str, value: Any, read: Read, depth: int) -> None:
        """An object: its type, and what the code mentions of it."""
        cls: Any = value.__class__
        unpack = next((of for kinds, of in _UNPACKED if isinstance(value, kinds)), None)
        if unpack is not None:
            self._guard(path, Derived(read, unpack), unpack(value))
        elif self._foreign(cls.__module__) and comparable(value):
            self._guard(path, read, value)
        elif callable(value) and self._foreign(cls.__module__):
            self._guard(path, read, value, by_identity=True)
            self._attributes(path, value, read, depth)
        elif hasattr(value, "__dict__") or any("__slots__" in vars(k) for k in cls.__mro__):
            self._guard(f"the type of {path}", Attribute(read, "__class__"), cls, by_identity=True)
            self._attributes(path, value, read, depth)
        else:
            self._guard(path, read, value, by_identity=True)
            kind = f"{cls.__module__}.{cls.__qualname__}"
            self.unwatched[path] = f"what a {kind} holds can't be read, so it isn't compared"

    def _attributes(self, path: str, value: Any, read: Read, depth: int) -> None:
        of_class = isinstance(value, type | types.ModuleType)
        classes = _classes(value)
        own: dict[str, Any] = {} if isinstance(value, type) else getattr(value, "__dict__", {})
        for name in sorted(self._wanted(own, classes, constructing=of_class)):
            where = f"{path}.{name}" if path else name
            reading = Attribute(read, name)
            if name in own:
                self._visit(where, own[name], reading, depth)
            elif (home := _home(classes, name)) is not None:
                self._of_class(where, home, name, value, reading, depth)

    def _wanted(self, own: Iterable[str], classes: list[Any], constructing: bool) -> set[str]:
        """The names of an object that the code mentions, or that Python calls by itself."""
        keys = set(own)
        of_classes = dict[str, Any]()
        for cls in classes:
            of_classes.update(_space(cls))
        slots = {n for n, x in of_classes.items() if _is_slot(x) and not n.startswith("__")}
        wanted = keys | slots if self.names & _EVERY else set[str]()
        implicit = {n for n in of_classes if n.startswith("__") and n.endswith("__")}
        never = set[str]() if constructing else _NEVER_IMPLICIT
        return wanted | (self.names & (keys | of_classes.keys())) | (implicit - never)

    def _of_class(
        self, where: str, home: Any, name: str, value: Any, reading: Read, depth: int
    ) -> None:
        """What an object has from its class: a slot, a method, a property or a value."""
        static: Any = _standing(home, name)()
        code = _code_of(static)
        if code is not None and not self._foreign(home.__module__):
            self._guard(where, _standing(home, name), static, by_identity=True)
            self._function(code)
        elif name.startswith("__"):
            return
        elif _is_slot(static) and not isinstance(value, type):
            if hasattr(value, name):
                self._visit(where, getattr(value, name), reading, depth)
        elif hasattr(static, "__get__"):
            self._visit(f"the descriptor {where}", static, _standing(home, name), depth)
        else:
            self._visit(where, static, reading, depth)

    def _items(self, path: str, value: Any, read: Read, depth: int) -> None:
        self._guard(f"the structure of {path}", Derived(read, structure), structure(value))
        scalar = {k for k, x in pairs(value) if isinstance(x, Scalar)}
        arrays = {k for k, x in pairs(value) if is_array(x)}
        places = [k for k, _ in pairs(value)]
        plain = self._some(f"scalars of {path}", [k for k in places if k in scalar], SMALL)
        rest = [k for k in places if k not in scalar and k not in arrays]
        followed = arrays.union(self._some(f"objects of {path}", rest, MANY))
        if len(plain) + len(followed) < len(places):
            self._guard(path, read, value, by_identity=True)
        if len(plain) >= FEW:
            now = entries(plain, read)
            self._guard(f"the entries of {path}", now, now())
        else:
            followed |= set(plain)
        for key, item in pairs(value):
            if key in followed:
                self._visit(f"{path}[{key!r}]", item, Item(read, key), depth)
        if not self._foreign(type(value).__module__):
            self._attributes(path, value, read, depth)

    def _some(self, what: str, keys: list[Any], most: int) -> list[Any]:
        """All keys, or of too many to compare at each call a few, which is said."""
        if len(keys) <= most:
            return keys
        self.unwatched[what] = f"only {FEW} of {len(keys)} are compared"
        return keys[:: -(-len(keys) // FEW)][:FEW]

    def _function(self, fn: types.FunctionType) -> None:
        if id(fn) in self._seen or self._foreign(fn.__module__):
            return
        self._seen[id(fn)] = fn
        mentioned = set(_names(fn.__code__))
        self.names |= mentioned
        self.compares = self.compares or _compares(fn.__code__)
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            if filled(cell) and self._first(cell):
                self._visit(name, cell.cell_contents, Attribute(Held(cell), "cell_contents"), 0)
        space = fn.__globals__
        for name in sorted(mentioned & space.keys()):
            if self._first(space, name):
                self._visit(name, space[name], Item(Held(space), name), 0)
        for name in sorted((mentioned & sys.modules.keys()) - space.keys()):  # imported inside
            if self._first(sys.modules, name):
                self._visit(name, sys.modules[name], Item(Held(sys.modules), name), 0)
        for name, value, read in _defaults(fn):
            self._visit(name, value, read, 0)
        for name in sorted(mentioned & vars(fn).keys()):
            self._visit(
                f"{fn.__name__}.{name}",
                vars(fn)[name],
                Item(Attribute(Held(fn), "__dict__"), name),
                0,
            )

    def _first(self, *place: Any) -> bool:
        """Whether a variable is met for the first time; its path says nothing about that."""
        key = (id(place[0]), *place[1:])
        return self._seen.setdefault(key, place) is place

    def _foreign(self, module: str | None) -> bool:
        """Whether a module belongs to Python, to this package or to another installed one."""
        top = _top(module)
        if top in self._home:
            return False
        file = getattr(sys.modules.get(top), "__file__", None) or ""
        return top in _FOREIGN or "site-packages" in file or "dist-packages" in file

    def _guard(self, path: str, read: Read, value: Any, by_identity: bool = False) -> None:
        if path:
            self.guards.append(Guard(path, read, value, by_identity))


def _top(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _classes(value: Any) -> list[Any]:
    """Where Python looks for an attribute that an object, or a class, has not of its own."""
    if isinstance(value, types.ModuleType):
        return []
    own: list[Any] = list(value.__mro__) if isinstance(value, type) else []
    cls: Any = type(value)  # pyright: ignore[reportUnknownVariableType]
    return own + list(cls.__mro__)


def _home(classes: list[Any], name: str) -> Any:
    return next((k for k in classes if name in vars(k)), None)


def _space(of: Any) -> Mapping[str, Any]:
    return of.__dict__


def _standing(home: Any, name: str) -> Read:
    return Item(Attribute(Held(home), "__dict__"), name)


def _is_slot(x: Any) -> bool:
    return isinstance(x, types.MemberDescriptorType)


def _code_of(static: Any) -> types.FunctionType | None:
    """The function behind what stands in a class: a method, a property, something staged."""
    for name in ("fget", "func", "__func__", "__wrapped__"):
        static = getattr(static, name, static)
    return static if isinstance(static, types.FunctionType) else None


def _defaults(fn: types.FunctionType) -> Iterator[tuple[str, Any, Read]]:
    """The defaults of a function: name, value and how it is read."""
    positional = fn.__defaults__ or ()
    count = fn.__code__.co_argcount
    names = fn.__code__.co_varnames[count - len(positional) : count]
    for i, (name, value) in enumerate(zip(names, positional, strict=True)):
        yield name, value, Item(Attribute(Held(fn), "__defaults__"), i)
    for name, value in (fn.__kwdefaults__ or {}).items():
        yield name, value, Item(Attribute(Held(fn), "__kwdefaults__"), name)


def filled(cell: Any) -> bool:
    """Whether a variable of a closure has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _names(code: types.CodeType) -> Iterator[str]:
    """What code mentions: names, and strings that may be names for ``getattr``."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant


@functools.lru_cache(maxsize=4096)
def _compares(code: types.CodeType) -> bool:
    """Whether code decides by a comparison, as ``if w[0] > 0``, which no trace would show."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    words = [i.opname for i in dis.get_instructions(code) if i.opname not in _BETWEEN]
    follows = itertools.pairwise(words)
    return any(a == "COMPARE_OP" and "JUMP" in b for a, b in follows) or any(map(_compares, inner))
