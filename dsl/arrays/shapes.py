"""The same elements in another shape or order: views where NumPy makes views."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from dlvm.base.errors import ArgumentError, AxisError, ShapeError
from dlvm.dsl.elements.datatypes import reading_order
from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import (
    as_array,
    element,
    fresh,
    made,
    plain,
    shape_of,
    shown_shape,
    staged,
)
from dlvm.dsl.trace.operands import broadcast_shapes as stretched
from dlvm.dsl.trace.scopes import is_array, is_sequence
from dlvm.dsl.trace.sizes import Shown, bare, shown, shown_sizes
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.layout import layout
from dlvm.dsl.words.names import PUBLIC, named
from dlvm.dsl.words.views import Reordered, Reshaped, Stretched, reshaped
from dlvm.ir import I64, Dim, Expr
from dlvm.ir.sizes.dims import divide_exactly, product


def sizes(shape: Any) -> tuple[Dim, ...]:
    """A shape as a tuple; a single size is a vector."""
    if is_array(shape) and shape.ndim == 1 and shape.dtype.kind in "iu":  # as NumPy takes it
        shape = tuple(shape)
    given = shape if is_sequence(shape) else (shape,)
    return tuple(d if isinstance(d, Expr) else operator.index(d) for d in map(bare, given))


@public("reshape", views=True)
def reshape(x: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """The elements in row-major order in another shape; one size may be -1.

    ``order="F"`` reads and writes in column-major order; ``"A"`` does so where ``x`` lies in
    column-major order in the same program of NumPy. The result shares elements with ``x`` where
    NumPy's would; ``copy=True`` makes new ones, and ``copy=False`` is an error where elements can't
    be shared.
    """
    x = staged(x)
    wanted = _whole(x, sizes(shape))
    if _column_major(x, order):
        return transpose(_reshaped(transpose(x), wanted[::-1], copy))
    return _reshaped(x, wanted, copy)


def _reshaped(x: Tensor, shape: tuple[Dim, ...], copy: bool | None) -> Tensor:
    step = Reshaped(shape)
    if copy is False and x.copies(step):
        raise ArgumentError(
            f"reshape: {x.type} can't take the shape {shown_shape(shape)} without a copy",
            remedy="write copy=None, with which a copy is made where one is needed",
        )
    found = (as_array(x) if shape else x).part(step)  # a scalar without axes stays one
    return made(found.read()) if copy else found


def _column_major(x: Tensor, order: str) -> bool:
    """Whether an order, given for an array, is the column-major order."""
    axes = reading_order(x, order, "CFA") if order != "C" else ()
    return order == "F" or (len(axes) > 1 and axes[0] > axes[-1])


def _whole(x: Tensor, wanted: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """A shape in which the size -1 is replaced by what the other sizes leave."""
    if wanted.count(-1) == 1:
        known = product(tuple(d for d in wanted if d != -1))
        rest = divide_exactly(x.type.size, known) if known != 0 else None
        if rest is None:
            said = f"reshape: {x.type} does not divide into {list(wanted)}"
            remedy = f"write sizes beside the -1 whose product divides {x.type.size}, such as (-1,)"
            raise ShapeError(said, sides=(x.type.size, known), remedy=remedy)
        wanted = tuple(rest if d == -1 else d for d in wanted)
    if product(wanted) != x.type.size:
        found = f"{list(wanted)} has {product(wanted)}"
        raise ShapeError(
            f"reshape: {x.type} has {x.type.size} elements, the shape {found}",
            sides=(x.type.size, product(wanted)),
            remedy=_another_shape(x.type.size, wanted),
        )
    return wanted


def _another_shape(size: Dim, wanted: tuple[Dim, ...]) -> str:
    """A shape that an array has, as near as can be to one that it has not."""
    first = product(wanted[:-1])
    if wanted and first != 0 and divide_exactly(size, first) is not None:
        return f"write -1 for the last size, which takes what is left: {(*wanted[:-1], -1)}"
    return f"write a shape of {size} elements, such as ({size},)"


@public("ravel", views=True)
def ravel(x: Any, order: str = "C") -> Any:
    """All elements in row-major order as a vector; orders are ``C``, ``F``, ``A``, ``K``.

    It is a view where the elements lie one after the other in that order in the same program of
    NumPy, and a copy elsewhere.
    """
    x = _read_in(x, order)
    step = Reshaped((x.type.size,))
    alias = x.laid is None or layout(x.placed).row_major
    return x.part(step) if alias else fresh(step.read(x.read()))


@public("flatten")
def flatten(x: Any, order: str = "C") -> Any:
    """All elements in row-major order as a vector of its own; orders are those of ``ravel``."""
    x = _read_in(x, order)
    return fresh(reshaped(x.read(), (x.type.size,)))


def _read_in(x: Any, order: str) -> Tensor:
    """An array whose row-major order is the order in which another one is read."""
    x = staged(x)
    return x if order == "C" else permute_dims(x, reading_order(x, order, "CFAK"))


@public("permute_dims", views=True)
def permute_dims(x: Any, axes: Sequence[int]) -> Any:
    """Axis ``i`` of the result is axis ``axes[i]`` of ``x``."""
    x = staged(x)
    if len(axes) != x.ndim:
        raise ShapeError(f"permute_dims: {len(axes)} axes for {x.type}")
    axes_of(x, axes)
    return x.part(Reordered(tuple(a % x.ndim for a in axes)))


@public("transpose", views=True)
def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """All axes in reverse order, or in the order given."""
    x = staged(x)
    return permute_dims(x, tuple(reversed(range(x.ndim))) if axes is None else axes)


@public("matrix_transpose", views=True)
def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged."""
    x = staged(x)
    if x.ndim < 2:
        raise ShapeError(f"a matrix transpose needs two axes, found {x.type}")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@public("swapaxes", views=True)
def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    x = staged(x)
    (first,), (second,) = axes_of(x, axis1), axes_of(x, axis2)
    exchanged = {first: second, second: first}
    return permute_dims(x, [exchanged.get(a, a) for a in range(x.ndim)])


@public("moveaxis", views=True)
def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int]) -> Any:
    """Axes moved to other places; the others stay in order."""
    x = staged(x)
    froms, tos = (_each(x, axes) for axes in (source, destination))
    if len(froms) != len(tos):
        raise ShapeError(f"moveaxis: {len(froms)} axes do not go to {len(tos)} places")
    order = [a for a in range(x.ndim) if a not in froms]
    for to, axis in sorted(zip(tos, froms, strict=True)):
        order.insert(to, axis)
    return permute_dims(x, order)


@public("rollaxis", views=True)
def rollaxis(x: Any, axis: int, start: int = 0) -> Any:
    """An axis moved to the place before the axis ``start``; the others stay in order."""
    x = staged(x)
    (axis,) = axes_of(x, axis)
    if not -x.ndim <= start <= x.ndim:
        raise AxisError(f"rollaxis: start {start} is out of range for {x.type}")
    before = start + x.ndim if start < 0 else start
    return moveaxis(x, axis, before - (axis < before))


def _each(x: Tensor, axes: int | Sequence[int]) -> list[int]:
    """Axes in the order given, each once."""
    given = [axes] if isinstance(axes, int) else list(axes)
    axes_of(x, given)
    return [a % x.ndim for a in given]


@public("broadcast_to", views=True)
def broadcast_to(x: Any, shape: Any) -> Any:
    """``x`` stretched to a shape: a view that can't be assigned into."""
    x, wanted = staged(x), sizes(shape)
    if len(wanted) < x.ndim or stretched([x.type.shape, wanted]) != wanted:
        raise ShapeError(f"broadcast_to: {x.type} does not stretch to {list(wanted)}")
    return x.part(Stretched(wanted))


@public("broadcast_arrays", views=True)
def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """Arrays stretched to one shape: views that can't be assigned into where one is stretched."""
    xs = [as_array(staged(a)) for a in arrays]
    shape = stretched([x.type.shape for x in xs]) if xs else ()
    if all(x.type.shape == shape for x in xs):
        return tuple(xs)
    return tuple(x.part(Stretched(shape)) for x in xs)


@public("expand_dims", views=True)
def expand_dims(x: Any, axis: int | Sequence[int] = 0) -> Any:
    """New axes of size 1, at these places of the result."""
    x = staged(x)
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    rank = x.ndim + len(given)
    places = {a % rank for a in given if -rank <= a < rank}
    if len(places) != len(given):
        raise AxisError(f"expand_dims: axis {axis} is out of range for {x.type}, or twice there")
    rest = iter(x.type.shape)
    return x.part(Reshaped(tuple(1 if a in places else next(rest) for a in range(rank))))


@public("squeeze", views=True)
def squeeze(x: Any, axis: Any = None) -> Any:
    """Without axes of size 1: those given, or all whose size is 1 for certain."""
    x = staged(x)
    axes = (
        axes_of(x, axis) if axis is not None else [i for i, d in enumerate(x.type.shape) if d == 1]
    )
    for a in axes:
        if x.type.shape[a] != 1:
            said = f"squeeze: axis {a} of {x.type} has size {x.type.shape[a]}, not 1"
            ones = [i for i, d in enumerate(x.type.shape) if d == 1]
            index = ", ".join([":"] * a + ["0"])
            taken = f"write x[{index}] to take the first element of axis {a}"
            remedy = f"write axis={ones[0]}" if ones else taken
            raise ShapeError(said, remedy=remedy, sides=(x.type.shape[a], 1))
    return x.part(Reshaped(tuple(d for i, d in enumerate(x.type.shape) if i not in axes)))


@facing_users
def shape(x: Any) -> tuple[Shown, ...]:
    """The sizes of ``x``; unknown ones are symbols."""
    return shown_sizes(shape_of(plain(x)))


@facing_users
def ndim(x: Any) -> int:
    """How many axes there are."""
    return len(shape(x))


@facing_users
def size(x: Any, axis: int | None = None) -> Shown:
    """How many elements there are, or how many along an axis."""
    sizes = shape_of(plain(x))
    if axis is None:
        return shown(product(sizes))
    if not -len(sizes) <= axis < len(sizes):
        raise ShapeError(
            f"size: axis {axis} is out of range for {len(sizes)} axes",
            remedy="leave the axis out for the number of all elements",
        )
    return shown(sizes[axis])


@facing_users
def broadcast_shapes(*shapes: Any) -> tuple[Shown, ...]:
    """The shape to which arrays of these shapes stretch."""
    return shown_sizes(stretched([(), *map(sizes, shapes)]))


PUBLIC.update(shape=shape, ndim=ndim, size=size, broadcast_shapes=broadcast_shapes)


def _at_least(x: Tensor, shape: tuple[Dim, ...]) -> Tensor:
    return x.part(Reshaped(shape)) if len(shape) > x.ndim else x


def _single(xs: list[Tensor]) -> Any:
    return xs[0] if len(xs) == 1 else tuple(xs)


@public("atleast_1d", views=True)
def atleast_1d(*arrays: Any) -> Any:
    """Scalars as vectors of one element."""
    return _single([_at_least(x, x.type.shape or (1,)) for x in map(staged, arrays)])


@public("atleast_2d", views=True)
def atleast_2d(*arrays: Any) -> Any:
    """Vectors as one row, scalars as one of one element."""
    return _single(
        [_at_least(x, (*(1,) * (2 - x.ndim), *x.type.shape)) for x in map(staged, arrays)]
    )


@public("atleast_3d", views=True)
def atleast_3d(*arrays: Any) -> Any:
    """Vectors and matrices with new axes, as NumPy places them: ``(1, n, 1)``, ``(m, n, 1)``."""
    return _single([_at_least(x, _as_three(x.type.shape)) for x in map(staged, arrays)])


def _as_three(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return (*(1,) * (len(shape) < 2), *shape, 1, 1)[: max(3, len(shape))]


@public("unravel_index")
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """The place along each axis of ``shape`` of elements that are counted in row-major order."""
    rest, places = fresh(element(staged(indices), I64)), list[Any]()
    for size in reversed(sizes(shape)):
        places.append(rest % size)
        rest = rest // size
    return tuple(reversed(places))


@public("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Any:
    """The number of an element in row-major order, from its place along each axis of ``dims``.

    ``mode`` says what becomes of places outside of their axis: ``"wrap"`` or ``"clip"``; with
    ``"raise"`` the result for them means nothing, as no error can be raised while tracing.
    """
    if order != "C" or mode not in ("raise", "wrap", "clip"):
        raise ArgumentError(
            f"ravel_multi_index: mode={mode!r} with order={order!r} is not supported"
        )
    number: Any = 0
    if len(multi_index) != len(sizes(dims)):
        raise ShapeError(
            f"ravel_multi_index: {len(multi_index)} places for {len(sizes(dims))} axes",
            remedy="give one array of places for each of dims",
        )
    for place, size in zip(multi_index, sizes(dims), strict=True):
        index = staged(place)
        if mode == "wrap":
            index = index % size
        elif mode == "clip":
            index = named("clip")(index, 0, size - 1)
        number = number * size + index
    return number


@public("ediff1d")
def ediff1d(x: Any) -> Any:
    """The differences of neighbours in an array taken as flat."""
    flat = ravel(staged(x))
    return flat[1:] - flat[:-1]
