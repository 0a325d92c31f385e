"""Trees of arrays: ``map``, ``leaves``, ``flatten``, ``unflatten``, ``structure``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm.dsl.trees import flatten, map_leaves, structure, unflatten

__all__ = ["flatten", "leaves", "map", "structure", "unflatten"]


def map(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """The tree with ``fn`` of its leaves (and of those at the same place in the others)."""
    return map_leaves(fn, tree, *rest)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, dicts by sorted key."""
    return flatten(tree)[0]
