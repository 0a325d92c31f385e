"""Sorting, searching and quantiles: compositions of one stable sort along the last axis.

NaN comes last and equals keep their order, ascending or ``descending``; so NumPy's kinds of
sort are all this one. What NumPy leaves open is defined: a partition is a full sort.
"""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ArgumentError, ShapeError, TraceError
from dlvm.dsl.elements.eager import like, public
from dlvm.dsl.elements.elementwise import note_widening
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.operands import element, fresh, kind_of, numpy_common, plain, staged, strong
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import named
from dlvm.dsl.words.views import inverse, permuted
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import at_least
from dlvm.ops import Gather, SearchSorted, Slice, Sort


def ordered(x: Tensor, axis: int | None, descending: bool) -> tuple[Tensor, Tensor]:
    """The elements along an axis (or all of them) in order, and the places they had."""
    if axis is None:
        x, axis = named("ravel")(x), 0
    (axis,) = axes_of(x, axis)
    perm = (*(i for i in range(x.ndim) if i != axis), axis)
    op = Sort(permuted(x.read(), perm), bool(descending))
    values, order = (fresh(permuted(r, inverse(perm))) for r in op.results)
    return values, order


@public("sort")
def sort(
    x: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = None,
) -> Any:
    """The elements along an axis in order, NaN last; of all elements where the axis is None."""
    _no_fields(order)
    x = staged(x)
    found = ordered(x, axis, descending)[0]
    return found if axis is None else like(found, x)


@public("argsort")
def argsort(
    x: Any,
    axis: int | None = -1,
    kind: Any = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = None,
) -> Any:
    """The places of the elements along an axis in order, NaN last; equals keep their order."""
    _no_fields(order)
    return ordered(staged(x), axis, descending)[1]


@public("_sort_in_place")
def sort_in_place(x: Tensor, axis: int = -1, kind: Any = None, order: None = None) -> None:
    """``x.sort()``: the array itself in order, as every alias of it sees."""
    x.check_assignable()
    x.assign(sort(x, axis, kind, order).read())


def _no_fields(order: Any) -> None:
    if order is not None:
        raise ArgumentError(
            "order= names fields, and staged arrays have none", origin=user_origin()
        )


@public("partition")
def partition(x: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: None = None) -> Any:
    """The elements along an axis with those up to any place before the others: all in order."""
    return sort(x, axis, kind, order)


@public("argpartition")
def argpartition(
    x: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: None = None
) -> Any:
    """The places of the elements of a partition: all in order."""
    return argsort(x, axis, kind, order)


@public("top_k")
def top_k(x: Any, k: Any, axis: int = -1) -> tuple[Any, Any]:
    """The k largest along an axis, largest first, and their places; equals keep their order.

    NaN is not larger than any number, so it comes only after all of them.
    """
    x = staged(x)
    (axis,) = axes_of(x, axis)
    size = x.type.shape[axis]
    if not at_least(size, k) or not at_least(k, 0):
        raise _too_few(x, axis, size, k)
    sizes = (*x.type.shape[:axis], k, *x.type.shape[axis + 1 :])
    found = ordered(x, axis, True)
    values, places = (fresh(Slice(r.read(), (0,) * x.ndim, sizes, (1,) * x.ndim)) for r in found)
    return values, places


def _too_few(x: Tensor, axis: int, size: Dim, k: Any) -> ShapeError:
    """The error for an axis that has no k elements, or may have fewer in a call."""
    if isinstance(size, int) or at_least(k - 1, size):
        return ShapeError(f"top_k: an axis of size {size} in {x.type} has no {k} largest")
    return ShapeError(
        f"top_k: axis {axis} of {x.type} may have fewer than {k} elements",
        remedy=f'say that it has them: dynamic={{"x": "N+{k}"}} for an argument x; or take what '
        f"there is: dlvm.flip(dlvm.sort(x, {axis}), {axis}) has the largest first",
    )


@public("searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Where elements would go in an array that is in order, to keep it so: counts from 0 to n."""
    if side not in ("left", "right"):
        raise ArgumentError(f'searchsorted: side is "left" or "right", found {side!r}')
    a, v = plain(a), fresh(staged(v).read())
    dtype = numpy_common((kind_of(a), kind_of(v)))  # f32 holds fewer whole numbers
    note_widening("searchsorted", (a, v), (dtype, dtype), silent=True)
    row = element(a, dtype)
    if row.type.rank != 1:
        raise ShapeError(
            f"searchsorted: expected a vector in order, found {row.type}",
            remedy="dlvm.vmap(dlvm.searchsorted) searches each row for its own elements",
        )
    if sorter is not None:
        row = Gather(row, staged(sorter).read(), 0)
    return fresh(SearchSorted(row, element(v, dtype), side == "right"))


@public("digitize")
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """For each element the bin that it lies in; the borders of bins rise, or they fall.

    ``right`` says that a bin holds its right border, in place of its left one. Borders whose last
    is below their first are taken to fall.
    """
    bins = strong(bins)
    falls = named("any")(bins[-1:] < bins[:1])
    rising = named("where")(falls, named("flip")(bins), bins)
    found = searchsorted(rising, x, "left" if right else "right")
    return named("where")(falls, named("size")(bins) - found, found)


def _shapeless(name: str) -> None:
    """Refused: how many elements differ, and so the shape, is known only in a call."""

    def refuse(x: Any, *args: Any, **kwargs: Any) -> Any:
        raise TraceError(
            f"{name}: the shape of the result depends on the elements, which are not known yet",
            origin=user_origin(),
            remedy="sort, and mark what differs from its neighbour: y[1:] != y[:-1]",
        )

    refuse.__doc__ = _shapeless.__doc__
    public(name)(refuse)


for _name in ("", "_all", "_counts", "_inverse", "_values"):
    _shapeless(f"unique{_name}")
