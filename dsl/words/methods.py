"""Staged methods: the programs of each object, kept for as long as the object lives.

Nothing is stored in the object, so that it can be copied and pickled, and a copy has programs of
its own. The entries refer to the object weakly, or the table would keep it alive.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Made = TypeVar("Made")
KEPT = 16
"""Number of objects without weak references that are remembered."""


class WeakMethod:
    """A function bound to an object that it does not keep alive."""

    __signature__: inspect.Signature
    __closure__: tuple[Any, ...] | None

    def __init__(self, fn: Callable[..., Any], owner: Callable[[], Any]) -> None:
        functools.update_wrapper(self, fn)
        del self.__dict__["__wrapped__"]  # its signature has the object among the parameters
        self.__func__ = fn
        self.__closure__ = getattr(fn, "__closure__", None)
        self.__signature__ = inspect.signature(types.MethodType(fn, owner()))
        self._owner = owner

    @property
    def __self__(self) -> Any:
        """The object, or None when it is gone."""
        return self._owner()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function on the object."""
        return self.__func__(self._owner(), *args, **kwargs)


class Methods(Generic[Made]):
    """The staged function for each object, by identity."""

    def __init__(self) -> None:
        self._weak: dict[int, tuple[weakref.ref[Any], Made]] = {}
        self._strong: dict[int, tuple[Any, Made]] = {}

    def of(self, instance: Any, make: Callable[[Callable[[], Any]], Made]) -> Made:
        """The staged function for an object, made on first use."""
        key = id(instance)
        if (found := self._weak.get(key)) is not None and found[0]() is instance:
            return found[1]
        if (kept := self._strong.get(key)) is not None:
            return kept[1]
        try:
            ref = weakref.ref(instance, functools.partial(self._forget, key))
        except TypeError:  # __slots__ without __weakref__
            return self._keep(key, instance, make(lambda: instance))
        return self._weak.setdefault(key, (ref, make(ref)))[1]

    def _forget(self, key: int, ref: weakref.ref[Any]) -> None:
        if (found := self._weak.get(key)) is not None and found[0] is ref:
            del self._weak[key]

    def _keep(self, key: int, instance: Any, made: Made) -> Made:
        if len(self._strong) >= KEPT:
            del self._strong[next(iter(self._strong))]
        self._strong[key] = (instance, made)
        return made
