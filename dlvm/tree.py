"""Trees of arrays: dicts, lists, tuples, NamedTuples, dataclasses and None, as one value.

A path is a tuple of the keys, positions and names of fields that lead to a leaf:
``("blocks", 0, "qkv")``. Functions with a tree as result keep None and configuration.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from dlvm.base.errors import ArgumentError, AxisError, DTypeError, ShapeError
from dlvm.dsl.trace import trees as forms
from dlvm.dsl.trace.comparing import mismatch
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import INDEX
from dlvm.dsl.trace.operands import known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.suggestions import reader
from dlvm.dsl.words.calling import called
from dlvm.dsl.words.namespace import xp

__all__ = [
    "flatten",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "ravel",
    "reduce",
    "stack",
    "structure",
    "unflatten",
    "unstack",
]

Path = tuple[Any, ...]

flatten = facing_users(forms.flatten)
structure = facing_users(forms.structure)
unflatten = facing_users(forms.unflatten)


@facing_users
def map(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """The tree with ``fn`` of its leaves (and of those at the same place in the others)."""
    takes = ", ".join(_names(rest))
    return forms.map_leaves(partial(called, "tree.map: the function", takes, fn), tree, *rest)


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


# -- one vector ------------------------------------------------------------------------------------


@facing_users
def ravel(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All elements of a tree in one vector, and a function from such a vector to such a tree.

    The vector has the element type to which those of the leaves promote; the function gives each
    leaf its own again. Both can be differentiated.

    >>> vector, back = dlvm.tree.ravel({"w": np.ones((2, 2)), "b": np.zeros(2)})
    >>> vector
    array([0., 0., 1., 1., 1., 1.])
    """
    written, spec = forms.flatten(tree)
    found = [xp.asarray(plain(x)) for x in written]
    shapes, dtypes = [shape_of(x) for x in found], [known_dtype(x.dtype) for x in found]
    vector = xp.concat([xp.reshape(x, (-1,)) for x in found]) if found else xp.zeros(0)
    ends = [0, *accumulate(math.prod(shape) for shape in shapes)]
    whole = known_dtype(vector.dtype)

    @facing_users
    def unravel(vector: Any) -> Any:
        """The tree of a vector."""
        vector = xp.asarray(plain(vector))
        _check_vector(vector, ends[-1], whole)
        pieces = [vector[a:b] for a, b in pairwise(ends)]
        rows = zip(pieces, shapes, dtypes, strict=True)
        return forms.unflatten(spec, [xp.astype(xp.reshape(x, s), t) for x, s, t in rows])

    return vector, unravel


def _check_vector(vector: Any, size: Any, whole: Any) -> None:
    if shape_of(vector) != (size,):
        raise ShapeError(
            f"tree.ravel: the function back takes a vector of {size} elements, found the shape "
            f"{shown_shape(shape_of(vector))}",
            origin=user_origin(),
            remedy="give a vector with one element for each element of the tree",
        )
    if known_dtype(vector.dtype) is not whole:
        raise DTypeError(
            f"tree.ravel: the function back takes elements of {whole}, found "
            f"{known_dtype(vector.dtype)}",
            origin=user_origin(),
            remedy=f"convert the vector: dlvm.astype(vector, {str(whole)!r})",
        )


# -- many trees ------------------------------------------------------------------------------------


@facing_users
def stack(trees: Sequence[Any], axis: int = 0) -> Any:
    """The tree whose leaves are those of all trees of a list, stacked along a new axis."""
    if not isinstance(trees, list | tuple) or not trees:
        raise ArgumentError(
            f"tree.stack: expected a list of trees, found {trees!r:.40}",
            origin=user_origin(),
            remedy="give a list or a tuple of at least one tree",
        )
    rows, spec = list[list[Any]](), forms.structure(trees[0])
    for i, tree in enumerate(trees, 1):
        found, other = forms.flatten(tree)
        if other != spec:
            said, remedy = "tree.stack: the trees differ", "give trees of one structure"
            raise mismatch(said, f"tree_{i}", spec, other, remedy)
        rows.append([plain(x) for x in found])
    columns = zip(*rows, strict=True)
    return forms.unflatten(spec, [_stacked(xs, i, spec, axis) for i, xs in enumerate(columns)])


def _stacked(xs: Sequence[Any], place: int, spec: forms.Spec, axis: int) -> Any:
    """The leaves at one place of several trees as one array."""
    for i, x in enumerate(xs, 1):
        if shape_of(x) != shape_of(xs[0]):
            raise ShapeError(
                f"tree.stack: {forms.labels(spec, 'tree_1')[place]} has the shape "
                f"{shown_shape(shape_of(xs[0]))}, {forms.labels(spec, f'tree_{i}')[place]} has "
                f"{shown_shape(shape_of(x))}",
                origin=user_origin(),
                remedy="give trees whose leaves have the same shapes",
            )
    return xp.stack(xs, axis)


@facing_users
def unstack(tree: Any, axis: int = 0) -> list[Any]:
    """The trees that ``stack`` would make this tree of: one for each place along an axis."""
    found, spec = forms.flatten(tree)
    columns = list[list[Any]]()
    for x, name in zip([plain(x) for x in found], forms.labels(spec, "tree"), strict=True):
        size = _size(x, axis, name)
        if columns and size != len(columns[0]):
            raise ShapeError(
                f"tree.unstack: {name} has {size} slices along axis {axis}, the leaves before it "
                f"have {len(columns[0])}",
                origin=user_origin(),
                remedy="give leaves of one size along this axis",
            )
        columns.append(list(xp.unstack(x, axis=axis)))
    return [forms.unflatten(spec, row) for row in zip(*columns, strict=True)]


def _size(x: Any, axis: int, name: str) -> Any:
    """The size of a leaf along an axis that it must have."""
    shape = shape_of(x)
    if not INDEX.fits(axis) or not -len(shape) <= axis < len(shape):
        raise AxisError(
            f"tree.unstack: {name} has the shape {shown_shape(shape)}, and no axis {axis!r:.40}",
            origin=user_origin(),
            remedy="give an axis that all leaves have",
        )
    return shape[axis]


if not TYPE_CHECKING:
    __getattr__, __dir__ = reader(__name__, __all__)
