"""Leaf by leaf over trees of one structure: gradients, moments and parameters side by side.

A place where the first tree has None, as a gradient has for leaves that are no floats, has None in
every result. Leaves of 16 bits are computed with, and remembered, in f32: the small factors of an
optimiser vanish in 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError, UserError
from dlvm.dsl.trace.comparing import unlike
from dlvm.dsl.trace.operands import is_scalar, known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import Spec, flatten_with_none, labels, map_leaves, unflatten
from dlvm.dsl.words.namespace import xp
from dlvm.ir import BOOL, F32, F64, I64, DType, Expr

REMEDY = (
    "give the gradient of these parameters, and the state that init made of them or the last "
    "update returned"
)


def element_type(x: Any) -> DType:
    """The element type of a leaf; a Python float is an f64."""
    x = plain(x)
    if isinstance(x, bool | int | float):
        return F64 if isinstance(x, float) else BOOL if isinstance(x, bool) else I64
    return I64 if isinstance(x, Expr) else known_dtype(x.dtype)


def is_float(x: Any) -> bool:
    """Whether an optimiser moves a leaf."""
    return x is not None and element_type(x).is_float


def wide(x: Any) -> Any:
    """A leaf in the type that is computed with: f32 for one of 16 bits, else its own."""
    return cast(x, element_type(x).compute)


def cast(x: Any, dtype: DType) -> Any:
    """An array of an element type; itself where it has that type."""
    return x if element_type(x) is dtype else xp.astype(x, dtype)


def number(c: Any) -> Any:
    """A hyperparameter: a Python number, or an array that is read at each call.

    A captured array is staged before anything is computed of it: what NumPy computes of it while a
    function is traced would be part of the code.
    """
    return c if type(c) in (int, float, bool) else xp.asarray(c)


def scalar(c: Any, x: Any) -> Any:
    """A hyperparameter beside a leaf: one that is an array takes the leaf's element type."""
    c = number(c)
    return c if type(c) in (int, float, bool) else cast(c, element_type(x))


def root(x: Any) -> Any:
    """The square root; its derivative at 0 is 0, so that one through an update stays finite."""
    return xp.where(x == 0, 0, xp.sqrt(x))


def norm(x: Any) -> Any:
    """The root of the sum of squares."""
    return root(xp.sum(x * x))


def same(x: Any) -> Any:
    """A result as an array: NumPy makes scalars of arrays without axes."""
    return np.asarray(x) if is_scalar(x) else x


def quiet() -> Any:
    """Infinities and NaN of plain arrays go on without a warning, as they do in machine code."""
    return np.errstate(all="ignore")


def widest(leaves: Iterable[Any]) -> DType:
    """The type that is computed with beside all float leaves: f64 if one of them has it."""
    return F64 if any(is_float(x) and element_type(x) is F64 for x in leaves) else F32


def filled(params: Any, value: Any = 0.0) -> Any:
    """A tree of one number in the shape of each float leaf, and None in place of the others."""
    leaves, spec = flatten_with_none(params)

    def one(leaf: Any) -> Any:
        return xp.full_like(leaf, value, dtype=element_type(leaf).compute)

    return unflatten(spec, [one(x) if is_float(x) else None for x in leaves])


def zeros(updates: Any) -> Any:
    """Zeros in place of each leaf, of its own type."""
    return moved(xp.zeros_like, updates)


def each(what: str, fn: Callable[..., Sequence[Any]], results: int = 1, **trees: Any) -> list[Any]:
    """The trees that ``fn`` gives of the leaves at the same place; ``trees`` are named in errors.

    ``fn`` gives ``results`` leaves in a tuple.
    """
    columns, spec = aligned(what, **trees)
    nothing = (None,) * results
    with quiet():
        rows = [nothing if row[0] is None else fn(*row) for row in zip(*columns, strict=True)]
    return unzipped(spec, rows, results)


def unzipped(spec: Spec, rows: Sequence[Sequence[Any]], results: int) -> list[Any]:
    """The trees of the results that there are for each leaf."""
    return [unflatten(spec, [same(row[i]) for row in rows]) for i in range(results)]


def moved(fn: Callable[..., Any], updates: Any, **others: Any) -> Any:
    """The updates as ``fn`` makes them, leaf by leaf, and of the element types they have.

    ``fn`` is given each leaf, and those of the other trees at its place, in the type that is
    computed with.
    """

    def leaf(u: Any, *rest: Any) -> tuple[Any]:
        x = wide(u)
        return (cast(fn(x, *(cast(y, element_type(x)) for y in rest)), element_type(u)),)

    (found,) = each("update", leaf, gradients=updates, **others)
    return found


def aligned(what: str, **trees: Any) -> tuple[list[list[Any]], Spec]:
    """The leaves of each tree, None among them, and the structure of the first."""
    (name, first), *rest = trees.items()
    leaves, spec = flatten_with_none(first)
    for i, x in enumerate(leaves):
        if x is not None and not is_float(x):
            raise not_a_float(what, labels(spec, name)[i], x)
    columns = [leaves, *(_column(what, name, leaves, spec, other) for other in rest)]
    return [[x if x is None else plain(x) for x in column] for column in columns], spec


def _column(
    what: str, name: str, leaves: list[Any], spec: Spec, other: tuple[str, Any]
) -> list[Any]:
    known, tree = other
    found, other_spec = flatten_with_none(tree)
    if other_spec != spec:
        where = unlike(name, other_spec, spec, found, leaves)
        raise UserError(
            f"{what}: the {name} and the {known} differ in structure: {where}",
            origin=user_origin(),
            remedy=REMEDY,
        )
    for i, (x, y) in enumerate(zip(leaves, found, strict=True)):
        if x is not None:
            _check_leaf(what, labels(spec, name)[i], x, known, y)
    return found


def _check_leaf(what: str, label: str, x: Any, known: str, y: Any) -> None:
    """A leaf and its partner have one shape, and there is a partner."""
    shape = shape_of(plain(x))
    if y is None:
        said = f"{label} is an array, and the {known} has none in its place"
        raise UserError(f"{what}: {said}", origin=user_origin(), remedy=REMEDY)
    if shape != shape_of(plain(y)):
        raise ShapeError(
            f"{what}: {label} has the shape {shown_shape(shape)}, and the {known} at its place "
            f"has {shown_shape(shape_of(plain(y)))}",
            origin=user_origin(),
            remedy=REMEDY,
        )


def not_a_float(what: str, label: str, x: Any) -> DTypeError:
    """The error for a leaf that can't be moved."""
    return DTypeError(
        f"{what}: {label} is {element_type(x)}; only floats are moved",
        origin=user_origin(),
        remedy="give None in its place, as gradients have it for leaves that are no floats",
    )


def count() -> Any:
    """The number of steps that were taken: none."""
    return xp.zeros((), "i64")


def increased(number: Any, by: Any = 1) -> Any:
    """A count after one more step."""
    return same(number + by)


def chosen(condition: Any, tree: Any, other: Any) -> Any:
    """One of two trees of the same types, by a truth value that may be staged."""

    def one(a: Any, b: Any) -> Any:
        return same(xp.where(condition, a, b))

    return map_leaves(one, tree, other)
