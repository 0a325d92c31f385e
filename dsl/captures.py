"""Captured state: what a function reads that is not an argument.

Before a trace the names that the code mentions are followed through closures, globals,
containers and objects. Arrays found there become hidden arguments when they are used, read
again at each call; scalars and functions become guards, and another value retraces.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dlvm.ir import Array

from .methods import WeakMethod
from .scopes import is_array

Read = Callable[[], Any]
Scalar = bool | int | float | complex | str | bytes | np.generic | np.dtype | enum.Enum | None
LIMIT = 256
DEPTH = 6
_FOREIGN = {"dlvm", "numpy", "optree", *sys.stdlib_module_names} - {"__main__"}


class Gone:
    """What is read where a name no longer leads anywhere."""

    def __repr__(self) -> str:
        return "gone"


GONE = Gone()


def present(read: Read) -> Any:
    """What a name leads to now, or ``GONE``."""
    try:
        return read()
    except (NameError, LookupError, AttributeError, TypeError, ValueError):
        return GONE


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """Something that was read while tracing; the trace holds only while it is the same."""

    path: str
    read: Read
    expected: Any
    by_identity: bool

    def holds(self) -> bool:
        """Whether it is still the same."""
        found = self.now()
        if self.by_identity:
            return found is self.expected
        return type(found) is type(self.expected) and _equal(found, self.expected)

    def now(self) -> Any:
        """What is there now, or ``GONE``."""
        return present(self.read)


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """An array that can be reached by name: its path and how it is read."""

    path: str
    read: Read


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    return bool(a == b)


class Captures:
    """Everything that some functions can reach by the names in their code."""

    def __init__(self, roots: list[Any]) -> None:
        self.arrays: dict[int, Found] = {}
        self.held: list[Array] = []
        self.guards: dict[str, Guard] = {}
        self.names: set[str] = set()
        self._home = {_top(getattr(root, "__module__", "")) for root in roots}
        for _ in range(2):  # the second time all names that reachable code mentions are known
            self._seen: set[int] = set()
            self.guards.clear()
            for root in roots:
                self._visit("", root, lambda root=root: root, 0)

    def find(self, array: Array) -> str | None:
        """The path of an array, if it or what it is a view of can be reached."""
        found = self.arrays.get(id(array))
        if found is None and (found := self._view(array)) is not None:
            self.held.append(array)
            self.arrays[id(array)] = found
        return found.path if found else None

    def _view(self, array: Array) -> Found | None:
        owner, (low, high) = _owner(array), byte_bounds(array)
        for base in self.held if owner is not array else ():
            start, stop = byte_bounds(base)
            inside = start <= low and high <= stop
            if _owner(base) is owner and inside and base.flags.c_contiguous:
                found = self.arrays[id(base)]
                return Found(f"{found.path}_view", _same_view(array, base, found.read))
        return None

    # -- following names ----------------------------------------------------------------------

    def _visit(self, path: str, value: Any, read: Read, depth: int) -> None:
        if is_array(value):
            self.held.append(value)
            self.arrays.setdefault(id(value), Found(path, read))
        elif isinstance(value, Scalar):
            self._guard(path, read, value, by_identity=False)
        elif isinstance(value, types.FunctionType):
            self._guard(path, read, value, by_identity=True)
            self._function(value)
        elif depth < DEPTH and id(value) not in self._seen:
            self._seen.add(id(value))
            self._held_by(path, value, read, depth + 1)

    def _held_by(self, path: str, value: Any, read: Read, depth: int) -> None:
        if isinstance(value, types.ModuleType | type):
            if not self._foreign(getattr(value, "__module__", value.__name__)):
                self._attributes(path, value, read, depth, self.names)
        elif isinstance(value, types.MethodType | WeakMethod):
            self._visit(path, value.__func__, lambda: value.__func__, depth)
            self._visit(f"{path}.__self__" if path else "self", value.__self__, _own(read), depth)
        elif isinstance(value, functools.partial):
            self._items(path, (value.func, value.args, value.keywords), _parts(read), depth)  # pyright: ignore[reportUnknownMemberType]
        elif is_container(value):
            self._items(path, value, read, depth)
        elif callable(inner := getattr(value, "__wrapped__", None)):
            self._guard(path, read, value, by_identity=True)
            self._visit(path, inner, lambda: inner, depth)
        elif not self._foreign(type(value).__module__):
            self._object(path, value, read, depth)

    def _object(self, path: str, value: object, read: Read, depth: int) -> None:
        cls: Any = type(value)
        for name in ("__call__", *self.names):
            method = getattr(cls, name, None)
            if isinstance(method, types.FunctionType):
                self._function(method)
        self._attributes(path, value, read, depth, None)

    def _attributes(
        self, path: str, value: Any, read: Read, depth: int, only: set[str] | None
    ) -> None:
        for name, item in list(getattr(value, "__dict__", {}).items())[: LIMIT * 16]:
            mentioned = name in self.names
            if mentioned if only is not None else mentioned or not isinstance(item, Scalar):
                where = f"{path}.{name}" if path else name
                self._visit(where, item, lambda n=name: getattr(read(), n), depth)

    def _items(self, path: str, value: Any, read: Read, depth: int) -> None:
        pairs = list(_pairs(value))
        if len(pairs) > LIMIT:
            self._guard(path, read, value, by_identity=True)
        else:
            self._guard(f"the structure of {path}", lambda: _shape(read()), _shape(value), False)
        for key, item in pairs[:LIMIT]:
            where = f"{path}[{key!r}]"
            self._visit(where, item, lambda k=key: read()[k], depth)

    def _function(self, fn: types.FunctionType) -> None:
        if id(fn) in self._seen or self._foreign(fn.__module__):
            return
        self._seen.add(id(fn))
        mentioned = set(_names(fn.__code__))
        self.names |= mentioned
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
            if filled(cell):
                self._visit(name, cell.cell_contents, lambda c=cell: c.cell_contents, 0)
        space = fn.__globals__
        for name in sorted(mentioned & space.keys()):
            self._visit(name, space[name], lambda n=name, g=space: g[n], 0)
        for i, default in enumerate(fn.__defaults__ or ()):
            if is_array(default):
                name = fn.__code__.co_varnames[fn.__code__.co_argcount - len(fn.__defaults__ or ())]
                self._visit(name, default, lambda i=i: (fn.__defaults__ or ())[i], 0)

    def _foreign(self, module: str | None) -> bool:
        """Whether a module belongs to Python, to this package or to another installed one."""
        top = _top(module)
        if top in self._home:
            return False
        file = getattr(sys.modules.get(top), "__file__", None) or ""
        return top in _FOREIGN or "site-packages" in file or "dist-packages" in file

    def _guard(self, path: str, read: Read, value: Any, by_identity: bool) -> None:
        if path:
            self.guards.setdefault(path, Guard(path, read, value, by_identity))


def _top(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _owner(array: Array) -> Any:
    """The array whose memory a view shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _same_view(array: Array, base: Array, read: Read) -> Read:
    """How the view is made again of what the name stands for at each call."""
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    shape, dtype, strides = array.shape, array.dtype, array.strides
    whole = (base.shape, base.dtype, base.strides)

    def again() -> Any:
        now = read()
        if (now.shape, now.dtype, now.strides) != whole:
            return now
        return np.ndarray(shape, dtype, now, offset, strides)

    return again


def is_container(x: Any) -> TypeGuard[Mapping[Any, Any] | Sequence[Any]]:
    """Whether something is a dict, a list or a tuple."""
    return isinstance(x, dict | list | tuple)


def _own(read: Read) -> Read:
    return lambda: read().__self__


def _parts(read: Read) -> Read:
    return lambda: (read().func, read().args, read().keywords)


def _pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    return iter(value.items()) if isinstance(value, dict) else iter(enumerate(value))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType]


def _shape(value: Any) -> Any:
    return tuple(value) if isinstance(value, dict) else len(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def filled(cell: Any) -> bool:
    """Whether a variable of a closure has a value yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
