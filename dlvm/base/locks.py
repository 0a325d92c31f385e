"""Locks that a fork waits for, since a child process would wait for ever for a lock held meanwhile.

A fork first takes every lock that is registered here, outer ones first; so it waits, for example,
until a compilation in another thread ends. Afterwards parent and child release the locks.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any, TypeVar

Lock = TypeVar("Lock", bound=AbstractContextManager[Any])


class Order(IntEnum):
    """The order in which locks are taken: whoever holds a lock may only wait for a later one."""

    COMPILING = 0
    POOL = 1
    STORE = 2
    LLVM = 3


_HELD: list[tuple[Order, AbstractContextManager[Any]]] = []
_taken: list[AbstractContextManager[Any]] = []


def held_at_fork(lock: Lock, order: Order) -> Lock:
    """Registers a lock, for which forks wait from now on; returns it."""
    _HELD.append((order, lock))
    _HELD.sort(key=lambda pair: pair[0])
    return lock


def _take() -> None:
    for _, lock in list(_HELD):
        lock.__enter__()
        _taken.append(lock)


def _give() -> None:
    while _taken:
        _taken.pop().__exit__(None, None, None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give, after_in_child=_give)
