"""Trees as one vector, and lists of trees as one tree of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from dlvm.base.errors import ArgumentError, AxisError, DTypeError, ShapeError
from dlvm.dsl.trace import trees as forms
from dlvm.dsl.trace.comparing import mismatch
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import INDEX
from dlvm.dsl.trace.operands import known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

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
