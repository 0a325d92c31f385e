"""Trees of arrays: ``map``, ``leaves``, ``flatten``, ``unflatten``, ``structure``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dlvm.dsl.trace import trees
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.suggestions import reader
from dlvm.dsl.words.calling import called

__all__ = ["flatten", "leaves", "map", "structure", "unflatten"]


flatten = facing_users(trees.flatten)
structure = facing_users(trees.structure)
unflatten = facing_users(trees.unflatten)


@facing_users
def map(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """The tree with ``fn`` of its leaves (and of those at the same place in the others)."""
    takes = ", ".join(f"leaf_{i}" for i in range(len(rest) + 1)) if rest else "leaf"
    return trees.map_leaves(partial(called, "tree.map: the function", takes, fn), tree, *rest)


@facing_users
def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, dicts by sorted key."""
    return trees.flatten(tree)[0]


__getattr__ = reader(__name__, __all__)
