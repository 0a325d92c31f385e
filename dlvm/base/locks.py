"""Locks that no other thread holds while a process forks: a child would wait for them for ever.

A fork first waits for every lock here, outer ones first, so for a compile of another thread to
end; parent and child give them back.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any, TypeVar

Lock = TypeVar("Lock", bound=AbstractContextManager[Any])


class Order(IntEnum):
    """Who may wait for whom: what holds a lock may ask for a later one only."""

    COMPILING = 0
    POOL = 1
    STORE = 2
    LLVM = 3


_HELD: list[tuple[Order, AbstractContextManager[Any]]] = []
_taken: list[AbstractContextManager[Any]] = []


def held_at_fork(lock: Lock, order: Order) -> Lock:
    """The lock, which forks wait for from now on."""
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
