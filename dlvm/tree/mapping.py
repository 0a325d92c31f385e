"""Functions of the leaves of a tree: mapped, listed with their paths, folded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace import trees as forms
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.calling import called

Path = tuple[Any, ...]

flatten = facing_users(forms.flatten)
structure = facing_users(forms.structure)
unflatten = facing_users(forms.unflatten)


@facing_users
def map(fn: Callable[..., Any], tree: Any, *rest: Any, is_leaf: forms.IsLeaf = None) -> Any:
    """The tree with ``fn`` of its leaves (and of those at the same place in the others).

    ``is_leaf`` says of a part of the first tree, None among them, whether ``fn`` takes it whole.

    >>> dlvm.tree.map(len, {"a": (1, 2), "b": (3,)}, is_leaf=lambda x: isinstance(x, tuple))
    {'a': 2, 'b': 1}
    """
    takes = ", ".join(_names(rest))
    calls = partial(called, "tree.map: the function", takes, fn)
    return forms.map_leaves(calls, tree, *rest, is_leaf=is_leaf)


@facing_users
def map_with_path(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """The tree with ``fn(path, leaf)`` of its leaves, and of those of the others as in ``map``.

    >>> dlvm.tree.map_with_path(lambda path, x: path[-1] != "bias", {"w": 1.0, "bias": 2.0})
    {'w': True, 'bias': False}
    """
    takes = ", ".join(["path", *_names(rest)])
    calls = partial(called, "tree.map_with_path: the function", takes, fn)
    return forms.map_with_keys(calls, tree, *rest)


def _names(rest: Sequence[Any]) -> list[str]:
    """What messages call the leaves that a function takes."""
    return [f"leaf_{i}" for i in range(len(rest) + 1)] if rest else ["leaf"]


@facing_users
def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, dicts by sorted key."""
    return forms.flatten(tree)[0]


@facing_users
def leaves_with_path(tree: Any) -> list[tuple[Path, Any]]:
    """The leaves of a tree, each with its path, dicts by sorted key."""
    found, spec = forms.flatten(tree)
    return list(zip(forms.keys(spec), found, strict=True))


@facing_users
def reduce(fn: Callable[[Any, Any], Any], tree: Any, initializer: Any = ...) -> Any:
    """``fn`` of what it returned before and the next leaf, from ``initializer`` or the first on."""
    found = forms.flatten(tree)[0]
    if initializer is not ...:
        found = [initializer, *found]
    if not found:
        raise ArgumentError(
            "tree.reduce: the tree has no leaves",
            origin=user_origin(),
            remedy="give what the result is to be then: dlvm.tree.reduce(f, tree, 0)",
        )
    return functools.reduce(partial(called, "tree.reduce: the function", "result, leaf", fn), found)
