"""Parts of a tree: two trees of the leaves that a filter chooses, and copies with a part replaced.

Names and signatures are those of Equinox.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace import trees as forms
from dlvm.dsl.trace.comparing import mismatch
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.specs import concrete
from dlvm.dsl.words.calling import called

# -- two trees, and one again ----------------------------------------------------------------------


@facing_users
def partition(tree: Any, filter: Any) -> tuple[Any, Any]:
    """Two trees: the leaves that a filter chooses, and all others; None is in place of the rest.

    ``filter`` is a function of a leaf that says True or False, or a tree of True and False (or of
    such functions) in which one may stand for a whole subtree. Both results keep configuration.
    ``combine`` makes the tree of them again, so that a loss has the gradient of some leaves only::

        train, fixed = dlvm.tree.partition(net, {"body": False, "head": True})
        dlvm.grad(lambda train: loss(dlvm.tree.combine(train, fixed)))(train)

    >>> dlvm.tree.partition({"w": 1.5, "n": 2}, lambda x: isinstance(x, float))
    ({'w': 1.5, 'n': None}, {'w': None, 'n': 2})
    """
    leaves, spec = forms.flatten_with_none(tree)
    marks = _marks(filter, leaves, spec)
    pairs = list(zip(leaves, marks, strict=True))
    chosen, others = ([x if m is wanted else None for x, m in pairs] for wanted in (True, False))
    return forms.unflatten(spec, chosen), forms.unflatten(spec, others)


def _marks(filter: Any, leaves: Sequence[Any], spec: forms.Spec) -> list[bool]:
    """For each leaf whether a filter chooses it."""
    try:
        found = [filter] * len(leaves) if _asks(filter) else list(forms.spread(filter, spec))
    except ValueError:
        raise _wrong_filter("is a tree of another structure") from None
    marks = [x is not None and _mark(m, x) for m, x in zip(found, leaves, strict=True)]
    for label, mark in zip(forms.labels(spec, "tree"), marks, strict=True):
        if not isinstance(mark, bool | np.bool):
            said = f"gives {mark!r:.40} of type {type(mark).__name__} for {label}"
            raise _wrong_filter(said)
    return [bool(mark) for mark in marks]


def _asks(filter: Any) -> bool:
    """Whether a filter is a function of leaves; a model that can be called is a tree."""
    return callable(filter) and not dataclasses.is_dataclass(filter)


def _mark(mark: Any, leaf: Any) -> Any:
    return called("tree.partition: the filter", "leaf", mark, leaf) if _asks(mark) else mark


def _wrong_filter(said: str) -> ArgumentError:
    return ArgumentError(
        f"tree.partition: the filter {said}",
        origin=user_origin(),
        remedy="give a function of a leaf that returns True or False, or a tree of True and False "
        "like the tree, in which one value may stand for a whole subtree",
    )


@facing_users
def combine(*trees: Any) -> Any:
    """The tree of the leaves that are in one of several trees, where the others have None.

    Where more than one has a leaf, that of the first counts.

    >>> dlvm.tree.combine({"w": 1.5, "n": None}, {"w": None, "n": 2})
    {'w': 1.5, 'n': 2}
    """
    if not trees:
        raise ArgumentError(
            "tree.combine: there are no trees",
            origin=user_origin(),
            remedy="give one tree or more, as partition returns them",
        )
    columns, first = list[list[Any]](), forms.flatten_with_none(trees[0])[1]
    for i, tree in enumerate(trees, 1):
        leaves, spec = forms.flatten_with_none(tree)
        if spec != first:
            remedy = "give trees of one structure, as dlvm.tree.partition returns them"
            raise mismatch("tree.combine: the trees differ", f"tree_{i}", first, spec, remedy)
        columns.append(leaves)
    rows = zip(*columns, strict=True)
    return forms.unflatten(first, [next((x for x in row if x is not None), None) for row in rows])


# -- a part replaced -------------------------------------------------------------------------------


class Place:
    """Stands for a leaf while ``where`` walks through a tree, and has the leaf's attributes.

    It is found again by its identity: two leaves may be one object.
    """

    __slots__ = ("leaf",)

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    def __getattr__(self, name: str) -> Any:
        return getattr(self.leaf, name)

    def __getitem__(self, index: Any) -> Any:
        raise _no_part(f"{index!r:.40} of {self.leaf!r:.40}")


@facing_users
def at(
    where: Callable[[Any], Any],
    tree: Any,
    replace: Any = ...,
    replace_fn: Callable[[Any], Any] | None = None,
) -> Any:
    """A copy of a tree in which the parts that ``where`` gives of it are replaced.

    ``where`` returns a leaf, a subtree, a field that is None or configuration, or a tuple or list
    of several; ``replace`` is the new part, or as many in a tuple or list. Instead of it,
    ``replace_fn`` makes each new part of the old one. The tree itself does not change.

    >>> dlvm.tree.at(lambda t: t["b"][0], {"a": 1, "b": [2, 3]}, 9)
    {'a': 1, 'b': [9, 3]}
    >>> dlvm.tree.at(lambda t: (t["a"], t["b"]), {"a": 1, "b": 2}, replace_fn=lambda x: 10 * x)
    {'a': 10, 'b': 20}
    """
    if (replace is ...) is (replace_fn is None):
        raise ArgumentError(
            "tree.at: expected one of replace= and replace_fn=",
            origin=user_origin(),
            remedy="write dlvm.tree.at(where, tree, new)",
        )
    leaves, spec = forms.flatten_fields(tree)
    places = forms.unflatten(spec, [Place(x) for x in leaves])
    chosen, alone = _chosen(called("tree.at: where", "tree", where, places), places)
    if replace_fn is None:
        new = [replace] if alone else _several(replace, len(chosen))
    else:
        new = [called("tree.at: replace_fn", "part", replace_fn, _filled(x)) for x in chosen]
    return _filled(places, {id(x): y for x, y in zip(chosen, new, strict=True)})


def _chosen(found: Any, places: Any) -> tuple[list[Any], bool]:
    """The parts that ``where`` gave, each of which is in the tree once; and whether it is one."""
    alone = _times(found, places) > 0 or not isinstance(found, tuple | list)
    chosen: list[Any] = [found] if alone else [*found]
    for part in chosen:
        if _times(part, places) != 1 or sum(part is x for x in chosen) > 1:
            raise _no_part(repr(part.leaf if isinstance(part, Place) else part)[:60])
    return chosen, alone


def _times(part: Any, places: Any) -> int:
    """How often an object is in a tree."""
    leaves, _ = forms.flatten_fields(places, lambda x: x is part)
    return sum(x is part for x in leaves)


def _filled(places: Any, new: dict[int, Any] | None = None) -> Any:
    """A tree of places as a tree of their leaves, but for the parts that are replaced."""
    given: dict[int, Any] = new or {}
    leaves, spec = forms.flatten_fields(places, lambda x: id(x) in given)
    return forms.unflatten(
        spec,
        [given[id(x)] if id(x) in given else x.leaf for x in leaves],  # noqa: SIM401  # only places have a leaf
    )


def _several(replace: Any, count: int) -> list[Any]:
    if not isinstance(replace, tuple | list) or len(replace) != count:  # pyright: ignore[reportUnknownArgumentType]
        raise ArgumentError(
            f"tree.at: where gives {count} parts, and replace is {replace!r:.40}",
            origin=user_origin(),
            remedy=f"give a tuple of {count} new parts",
        )
    return list(replace)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _no_part(shown: str) -> ArgumentError:
    return ArgumentError(
        f"tree.at: where gives {shown}, which is not one part of the tree",
        origin=user_origin(),
        remedy="return parts as they are in the tree, and each of them once",
    )


# -- are they equal --------------------------------------------------------------------------------


@facing_users
def equal(tree: Any, other: Any) -> bool:
    """Whether two trees have one structure, and arrays of the same types and elements.

    Configuration is compared, too. NaN is equal to nothing, except where both have the same object.

    >>> dlvm.tree.equal({"w": np.ones(2)}, {"w": np.ones(2)})
    True
    """
    if tree is other:
        return True
    (ours, spec), (theirs, structure) = forms.flatten(tree), forms.flatten(other)
    if spec != structure:
        return False
    rows = zip(ours, theirs, forms.labels(spec, "tree"), strict=True)
    return all(_same_leaf(x, y, label) for x, y, label in rows)


def _same_leaf(x: Any, y: Any, label: str) -> bool:
    if x is y:
        return True
    a, b = (concrete("tree.equal", leaf, label) for leaf in (x, y))
    return a.dtype == b.dtype and np.array_equal(a, b)
