"""What things are called: a file by its path, and a leaf in it by its place in the tree.

The name of a leaf is its path in the tree with dots, such as ``blocks.0.qkv``.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import Spec, keys, labels
from dlvm.ir.sharding.sharded import Sharded

ALONE = "value"
"""The name of a leaf that is the whole tree."""
RESERVED = "__metadata__"
"""What files hold beside arrays, under a name that no array may have."""


def names_of(what: str, spec: Spec, tree: str) -> list[str]:
    """The name of each leaf. Two leaves of one name are an error, which calls the tree ``tree``."""
    names = [".".join(map(str, path)) if path else ALONE for path in keys(spec)]
    for text, count in Counter(names).items():
        if count > 1 or text == RESERVED or not _is_text(text):
            every = zip(names, labels(spec, tree), strict=True)
            at = [label for name, label in every if name == text]
            raise ArgumentError(
                f"{what}: {' and '.join(at[:2])} can't have the name {text!r} in a file"
                + (", which each would have" if count > 1 else ""),
                origin=user_origin(),
                remedy="rename a key of the dict: a name in a file is the keys with dots between",
            )
    return names


def path_of(what: str, path: Any, usage: str) -> str:
    """A path as text; what is no path is an error, such as a tree that is given first."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise ArgumentError(
            f"{what}: expected a path, found {path!r:.40} of type {type(path).__name__}",
            origin=user_origin(),
            remedy=f"write {usage}",
        ) from None


def refuse_sharded(what: str, leaf: Any, label: str, remedy: str) -> None:
    """An error for an array of which each rank of a mesh has a piece: a file has whole arrays."""
    if isinstance(leaf, Sharded):
        raise ArgumentError(
            f"{what}: {label} is shared by the ranks of the mesh {leaf.mesh}, and a file has whole "
            "arrays",
            origin=user_origin(),
            remedy=remedy,
        )


def _is_text(name: str) -> bool:
    """Whether a name can be written as UTF-8, which a lone surrogate can't."""
    return not any("\ud800" <= c <= "\udfff" for c in name)
