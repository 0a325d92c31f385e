"""Guards: the comparisons that each call makes with state that was read while tracing.

A guard knows how to read a path and the value that was there. Scalars are compared by type and
value, functions and classes by identity, and arrays that Python computed with by all their
elements. This module does not know how paths are found.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType, MappingProxyType, ModuleType
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dlvm.dsl.trace.configuration import exact_type
from dlvm.dsl.trace.scopes import is_array, type_of
from dlvm.ir import Array

from .places import Items, Read

CONTAINERS = (dict, list, tuple, deque, UserDict, UserList, ChainMap, MappingProxyType)
FEW = 64
"""Number of scalars in a container from which on they are compared together."""
EXACT = frozenset((int, bool, str, tuple))
"""Types of which equal values are the same; a tuple has the keys of a mapping."""
COMPARED_BYTES = 1 << 20
"""Largest size in bytes of an array that is compared at each call."""

ELEMENTS = "the elements of "
"""The beginning of the path of a guard on elements."""


class Gone:
    """The value of a path that no longer leads anywhere."""

    def __repr__(self) -> str:
        return "gone"


GONE = Gone()


def present(read: Read) -> Any:
    """The value at a path now, or ``GONE``."""
    try:
        return read()
    except (NameError, LookupError, AttributeError, TypeError, ValueError):
        return GONE


@dataclasses.dataclass(frozen=True, slots=True)
class Guard:
    """A value that was read while tracing; the program holds only while it is the same."""

    path: str
    read: Read
    expected: Any
    by_identity: bool = False

    def holds(self) -> bool:
        """Whether the state is still the same."""
        return self.allows(self.now())

    def allows(self, found: Any) -> bool:
        """Whether a program with this guard holds for another value."""
        if self.by_identity:
            expected = self.expected
            return found is (expected() if isinstance(expected, weakref.ref) else expected)
        return type(found) is type(self.expected) and _equal(found, self.expected)

    @property
    def is_of_elements(self) -> bool:
        """Whether it guards an array with whose elements Python computed."""
        return isinstance(self.expected, Elements) or (self.by_identity and is_array(self.now()))

    def now(self) -> Any:
        """The present value, or ``GONE``."""
        return present(self.read)


def brief(value: Any) -> str:
    """A value of captured state in a message: one line, by the name that users know."""
    if isinstance(value, weakref.ref):
        found = cast(Callable[[], Any], value)()
        return "an object" if found is None else brief(found)
    if is_array(value):
        return str(type_of(value))
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, FunctionType | BuiltinFunctionType | type):
        return f"{value.__module__}.{value.__qualname__}"
    try:
        return f"{value!r:.60}"
    except Exception:  # a repr of the user's own
        return f"an object of type {type(value).__name__}"


def weakly(value: Any) -> Any:
    """A weak reference if possible, because objects that refer to their owner would
    keep it alive.
    """
    try:
        return weakref.ref(value)
    except TypeError:
        return value


def _equal(a: Any, b: Any) -> bool:
    """Whether two values of one type are the same: 0.0 is not -0.0, and NaN is NaN."""
    if isinstance(a, np.generic):
        return a.tobytes() == b.tobytes()
    if isinstance(a, float | complex):
        return repr(complex(a)) == repr(complex(b))
    try:
        return bool(a == b) and (a.__class__ in EXACT or exact_type(a) == exact_type(b))
    except Exception:  # an == of the user's own
        return False


def comparable(value: Any) -> bool:
    """Whether something is compared by value, such as a date or a fraction."""
    cls: Any = value.__class__
    try:
        same = (value == value) is True
    except Exception:  # an == of the user's own
        return False
    return same and bool(cls.__hash__) and cls.__eq__ is not object.__eq__


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """An array that the code reads: its path, how it is read and, for a view, the array
    it shows.
    """

    path: str
    read: Read
    base: Found | None = None


# -- containers ------------------------------------------------------------------------------------


def pairs(value: Any) -> list[tuple[Any, Any]]:
    """The keys or positions of a container with its items; none where it can't be read."""
    if is_array(value):
        array: Array = value
        places = np.ndindex(array.shape) if array.ndim != 1 else range(array.size)
        return [(at, array[at]) for at in places]
    try:
        return list(value.items()) if hasattr(value, "items") else list(enumerate(value))  # pyright: ignore[reportUnknownArgumentType]
    except Exception:  # such as a ChainMap of what is no mapping
        return []


def structure(value: Any) -> Any:
    """The keys of a mapping in order, or the length of a sequence."""
    if is_array(value):
        return value.shape
    try:
        return tuple(value) if hasattr(value, "items") else len(value)
    except Exception:
        return None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The types and values of scalars in a container."""

    values: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"{self.values!r}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entries) or len(self.values) != len(other.values):
            return False
        pairs = zip(self.values, other.values, strict=True)
        return all(a is b or (type(a) is type(b) and _equal(a, b)) for a, b in pairs)


def entries(keys: Sequence[Any], read: Read) -> Items:
    """A function that reads the scalars at these places of a container."""
    return Items(read, tuple(keys), Entries)


# -- arrays ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Elements:
    """A copy of all elements of an array, compared bit by bit."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    data: bytes

    def __repr__(self) -> str:
        size = min(5, len(self.data) // self.dtype.itemsize)
        return f"{np.ndarray(size, self.dtype, self.data).tolist()!r:.40}"

    @staticmethod
    def of(array: Any) -> Elements:
        """The present elements of an array."""
        if not is_array(array):
            raise ValueError("no longer an array")
        return Elements(array.dtype, array.shape, array.tobytes())


def owner(array: Array) -> Any:
    """The array whose memory a view shows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def shows(base: Array, array: Array) -> bool:
    """Whether an array is a view of elements of another one."""
    low, high = byte_bounds(array)
    start, stop = byte_bounds(base)
    if owner(base) is not owner(array) or low < start or high > stop:
        return False
    corners = (low - start, high - array.itemsize - start)
    return base.flags.c_contiguous or all(_on_grid(base, at) for at in corners)


def _on_grid(base: Array, offset: int) -> bool:
    """Whether an element of an array begins at this offset in bytes from its lowest one."""
    for stride, size in sorted(zip(map(abs, base.strides), base.shape, strict=True), reverse=True):
        if stride:
            offset -= min(offset // stride, size - 1) * stride
    return offset < base.itemsize


class _Window:
    """The memory of another array as an object that NumPy can view."""

    def __init__(self, interface: dict[str, Any], base: Array) -> None:
        self.__array_interface__ = interface
        self.base = base


def same_view(array: Array, base: Array, read: Read) -> Read:
    """A function that makes the view again from the array at its path."""
    seen = array.__array_interface__
    offset = seen["data"][0] - base.__array_interface__["data"][0]
    whole = (base.shape, base.dtype, base.strides)
    dtype = array.dtype

    def again() -> Any:
        now = read()
        if not is_array(now) or (now.shape, now.dtype, now.strides) != whole:
            return now
        start, frozen = now.__array_interface__["data"]
        window: Any = _Window({**seen, "data": (start + offset, frozen)}, now)
        return np.asarray(window).view(dtype)

    return again
