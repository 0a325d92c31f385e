"""Which leaves of a tree can be reached past it: by a reference to a leaf or to a part of the tree.

A part of a tree that only its container refers to has a known number of references.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

from dlvm.dsl.trace.configuration import parts
from dlvm.dsl.trace.leaves import Leaf, picker, places
from dlvm.dsl.trace.trees import flatten

from .calibration import AMONG_PICKED, IN_CONTAINER, most, references

Apart: TypeAlias = "Callable[[Any], bool]"
"""Says of a tree whether nobody reaches its donated leaves past it."""
TABLES = (dict, OrderedDict, defaultdict)


def apart(node: Any, donated: set[int]) -> Apart | None:
    """The question for trees like a template; None if no leaf below it is donated."""
    if isinstance(node, Leaf) or donated.isdisjoint(places(node)):
        return None
    getters = _getters(node)
    if getters is None:
        return lambda x: False
    children = [(get, get(node)) for get in getters]
    leaves = [g for g, c in children if isinstance(c, Leaf) and c.index in donated]
    inner = [(g, within) for g, c in children if (within := apart(c, donated)) is not None]
    inner += [(attrgetter("__dict__"), _yes)] * hasattr(node, "__dict__")
    pick = _together(leaves) if leaves else None

    def ask(x: Any) -> bool:
        if pick is not None and most(pick(x)) > AMONG_PICKED:
            return False
        for get, within in inner:
            child = get(x)
            if references(child) > IN_CONTAINER or not within(child):
                return False
        return True

    return ask


def reached(x: Any, shared: bool) -> set[int]:
    """The identities of the leaves of a tree that are reached past it; all if it is ``shared``."""
    getters = _getters(x)
    if getters is None:
        below = flatten(x)[0]
        alone = len(below) == 1 and below[0] is x
        return {id(leaf) for leaf in below} if shared or not alone else set()
    if hasattr(x, "__dict__"):
        child = x.__dict__
        shared = shared or references(child) > IN_CONTAINER
        del child
    found: set[int] = set()
    for get in getters:
        child = get(x)
        others = references(child) > IN_CONTAINER
        found |= reached(child, shared or others)
    return found


def _yes(x: Any) -> bool:
    return True


def _getters(node: Any) -> list[Callable[[Any], Any]] | None:
    """What gets each child of a container; None for a leaf and for other kinds of nodes."""
    cls: type[Any] = type(node)  # pyright: ignore[reportUnknownVariableType]
    if cls in TABLES:
        return [itemgetter(k) for k in node]
    if isinstance(node, tuple | list):
        return [itemgetter(i) for i in range(len(node))]  # pyright: ignore[reportUnknownArgumentType]
    if dataclasses.is_dataclass(cls):
        return [attrgetter(name) for name in parts(node)[0]]
    return None


def _together(getters: Iterable[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """What gets several children at once."""
    every = list(getters)
    names = [g.__reduce__()[1][0] for g in every]  # type: ignore[index]
    if isinstance(every[0], itemgetter):
        return picker(names)
    return attrgetter(*names) if len(names) > 1 else lambda x: [getattr(x, names[0])]
