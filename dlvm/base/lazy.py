"""Attributes that are computed on first use and then kept, without a lock.

Before Python 3.12 ``functools.cached_property`` has one lock for all instances: a thread that
computes makes all others wait, and a child process that is forked meanwhile waits for ever. Here
two threads may compute the same attribute; both then see the value that was stored first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # lower case, as it is used like property
    """``@lazy def x(self)``: an attribute that the method computes on first use."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.name, self.compute(instance))
