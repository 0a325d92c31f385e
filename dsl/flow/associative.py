"""``associative_scan``: running results of an associative function, in a logarithm of steps.

Neighbours are joined in pairs, the half as many results are scanned, and the places between are
joined with what the scan found for the pair before them: ``n`` elements take fewer than ``2 n``
joins, in ``2 log2 n`` calls of the function (Ladner and Fischer, *Parallel prefix computation*,
1980).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dlvm.base.errors import AxisError, DTypeError, ShapeError, TraceError
from dlvm.dsl.trace.comparing import mismatch
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import INDEX
from dlvm.dsl.trace.operands import known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import Spec, flatten, labels, unflatten
from dlvm.dsl.words.calling import called
from dlvm.dsl.words.namespace import xp

from .control import check_callable

WHAT = "associative_scan: the function"
Join = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


@facing_users
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """What ``fn`` makes of the first element, of the first two, and so on, along an axis.

    ``fn(a, b)`` joins arrays of elements, ``b`` after ``a``, and must be associative: it is called
    with slices of the tree that hold many elements along the axis. With ``reverse`` the scan goes
    from the last element to the first.

    >>> dlvm.associative_scan(dlvm.add, np.arange(5.0))
    array([ 0.,  1.,  3.,  6., 10.])
    """
    check_callable("associative_scan", fn)
    leaves, tree = flatten(elems)
    names = labels(tree, "elems")
    arrays = [_array(x) for x in leaves]
    axes = [_axis(x, axis, name) for x, name in zip(arrays, names, strict=True)]
    size = _size(arrays, axes, names)
    if reverse:
        arrays = [xp.flip(x, a) for x, a in zip(arrays, axes, strict=True)]
    found = _scanned(_joining(fn, tree, names), arrays, axes, size)
    if reverse:
        found = [xp.flip(x, a) for x, a in zip(found, axes, strict=True)]
    return unflatten(tree, found)


def _array(x: Any) -> Any:
    x = plain(x)
    return xp.asarray(x) if isinstance(x, bool | int | float) else x


def _axis(x: Any, axis: Any, name: str) -> int:
    """The axis of a leaf, counted from the front."""
    shape = shape_of(x)
    if not INDEX.fits(axis) or not -len(shape) <= axis < len(shape):
        raise AxisError(
            f"associative_scan: {name} has the shape {shown_shape(shape)}, and no axis "
            f"{axis!r:.40}",
            origin=user_origin(),
            remedy="give an axis that each leaf of elems has",
        )
    return int(axis) % len(shape)


def _size(arrays: Sequence[Any], axes: Sequence[int], names: Sequence[str]) -> int:
    """The number of elements, which is one for all leaves."""
    sizes = [shape_of(x)[a] for x, a in zip(arrays, axes, strict=True)]
    for size, name in zip(sizes, names, strict=True):
        if not isinstance(size, int):
            raise TraceError(
                f"associative_scan: {name} has {size} elements, which is not known while tracing",
                origin=user_origin(),
                remedy="write dlvm.scan, or leave out the option that opens this size",
            )
        if size != sizes[0]:
            raise ShapeError(
                f"associative_scan: {names[0]} has {sizes[0]} elements, {name} has {size}",
                origin=user_origin(),
                remedy="give leaves of one size along the axis",
            )
    return int(sizes[0]) if sizes else 0


def _joining(fn: Callable[[Any, Any], Any], tree: Spec, names: Sequence[str]) -> Join:
    """The function on leaves; what it returns must have the types that it takes."""

    def join(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        out, found = flatten(called(WHAT, "a, b", fn, unflatten(tree, a), unflatten(tree, b)))
        if found != tree:
            raise mismatch(
                f"{WHAT} must return the structure that it takes",
                "elems",
                tree,
                found,
                "return a tree with the same dicts and tuples as each argument",
            )
        given = [_array(x) for x in out]
        for x, y, name in zip(a, given, names, strict=True):
            _check_type(x, y, name)
        return given

    return join


def _check_type(x: Any, y: Any, name: str) -> None:
    if known_dtype(x.dtype) is not known_dtype(y.dtype):
        raise DTypeError(
            f"{WHAT} returns {known_dtype(y.dtype)} for {name}, which is {known_dtype(x.dtype)}",
            origin=user_origin(),
            remedy=f"convert what it returns: dlvm.astype(result, {str(known_dtype(x.dtype))!r})",
        )
    if shape_of(x) != shape_of(y):
        raise ShapeError(
            f"{WHAT} returns the shape {shown_shape(shape_of(y))} for {name}, and it was given "
            f"{shown_shape(shape_of(x))}",
            origin=user_origin(),
            remedy="return one element for each pair: the axis of the scan stays in each argument",
        )


def _scanned(join: Join, xs: list[Any], axes: Sequence[int], n: int) -> list[Any]:
    """The running results of ``n`` elements; it calls itself for half of them."""
    if n < 2:
        return xs

    def part(values: Sequence[Any], start: int, stop: int, step: int = 1) -> list[Any]:
        picked = slice(start, stop, step)
        return [x[(*(slice(None),) * a, picked)] for x, a in zip(values, axes, strict=True)]

    pairs = join(part(xs, 0, n - 1, 2), part(xs, 1, n, 2))
    odd = _scanned(join, pairs, axes, n // 2)
    before = part(odd, 0, (n - 1) // 2)
    even = join(before, part(xs, 2, n, 2)) if n > 2 else before
    rows = zip(part(xs, 0, 1), even, odd, axes, strict=True)
    return [_woven(xp.concat([first, later], a), o, a, n) for first, later, o, a in rows]


def _woven(even: Any, odd: Any, axis: int, n: int) -> Any:
    """Two arrays whose elements alternate along an axis, of ``n`` elements together."""
    half, before = n // 2, (slice(None),) * axis
    shape = shape_of(odd)
    pairs = xp.stack([even[(*before, slice(0, half))], odd], axis + 1)
    woven = xp.reshape(pairs, (*shape[:axis], 2 * half, *shape[axis + 1 :]))
    return xp.concat([woven, even[(*before, slice(half, None))]], axis) if n % 2 else woven
