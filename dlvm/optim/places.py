"""Which leaves of the parameters a mask or a label stands for.

One value may stand for a whole subtree.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import flatten_with_none, spread


class Marks:
    """A mask, a tree of labels, or a function that gives one; trees are compared by value."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    def of(self, params: Any) -> Any:
        """The tree of marks for some parameters."""
        return answer(self.tree, params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Marks) and bool(self.tree == other.tree)

    def __hash__(self) -> int:
        return hash(repr(self.tree))


def answer(marks: Any, params: Any) -> Any:
    """Marks, or what a function gives of the parameters; a model that can be called is a tree."""
    if dataclasses.is_dataclass(marks) or not callable(marks):  # pyright: ignore[reportUnknownArgumentType]
        return marks
    return marks(params)


def chosen_places(mask: Any, params: Any) -> list[bool]:
    """For each leaf of the parameters, None among them, whether a mask holds there."""
    leaves, spec = flatten_with_none(params)
    if mask is None:
        return [True] * len(leaves)
    try:
        found = list(spread(answer(mask, params), spec))
    except ValueError as error:
        raise _wrong_mask("has another structure than the parameters") from error
    for mark, leaf in zip(found, leaves, strict=True):
        if leaf is not None and not isinstance(mark, bool):
            raise _wrong_mask(f"holds True and False, found {type(mark).__name__}")
    return [leaf is not None and mark for mark, leaf in zip(found, leaves, strict=True)]


def _wrong_mask(said: str) -> ArgumentError:
    return ArgumentError(
        f"the mask {said}",
        origin=user_origin(),
        remedy="give a tree of True and False like the parameters, in which one value may stand "
        "for a whole subtree, or a function of the parameters that returns such a tree",
    )
