"""Several arrays made one, and one made several."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import AxisError, CallError, DTypeError, IndexOutOfRange, ShapeError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.elementwise import note_widening, refuse_out
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.mistakes import unknown_length
from dlvm.dsl.trace.operands import (
    common,
    element,
    fresh,
    kind_of,
    known_dtype,
    plain,
    shape_of,
    staged,
)
from dlvm.dsl.trace.scopes import is_array
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Array, Expr
from dlvm.ir.sizes.dims import divide_exactly, floordiv, minimum, mod
from dlvm.ir.sizes.equations import unequal
from dlvm.ops import Concat

from .picking import getitem
from .shapes import atleast_1d, atleast_2d, atleast_3d, expand_dims, ravel, reshape


def alike(arrays: Sequence[Any], target: Any = None, casting: Any = "same_kind") -> list[Tensor]:
    """Arrays promoted to one element type, or cast to the one that the user names."""
    xs = [plain(a) for a in arrays]
    dtype = common(tuple(kind_of(x) for x in xs))
    if target is not None:
        found, dtype = dtype, known_dtype(target)
        if not np.can_cast(found.numpy, dtype.numpy, casting):
            raise DTypeError(
                f"{found} elements do not become {dtype} under casting={casting!r}",
                remedy='write casting="unsafe", or convert the arrays with x.astype(dtype)',
            )
    note_widening("concat", xs, [dtype] * len(xs), silent=target is not None)
    return [fresh(element(x, dtype)) for x in xs]


@public("concat")
def concat(
    arrays: Sequence[Any],
    axis: int | None = 0,
    out: None = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """Arrays one after the other along an axis; flattened first where it is None."""
    refuse_out(out)
    return _joined("concat", arrays, axis, dtype, casting)


def _joined(
    name: str, arrays: Sequence[Any], axis: int | None, dtype: Any = None, casting: Any = None
) -> Any:
    """Joins arrays along an axis; messages call the function ``name``."""
    _check_axis(name, axis)
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    xs = alike(arrays, dtype, casting)
    if not xs:
        raise ShapeError(f"{name}: expected at least one array, found none")
    if not -xs[0].ndim <= axis < xs[0].ndim:
        remedy = f"valid axes are {-xs[0].ndim} to {xs[0].ndim - 1}; x[None] adds an axis in front"
        raise AxisError(f"{name}: axis {axis} is out of range for {xs[0].type}", remedy=remedy)
    try:
        return fresh(Concat(tuple(x.read() for x in xs), axis % xs[0].ndim))
    except ShapeError as error:
        said = name + error.message.removeprefix("concat")
        raise ShapeError(said, sides=error.sides, remedy=_fitting(name, xs, axis)) from None


def _fitting(name: str, xs: Sequence[Tensor], axis: int) -> str:
    """What to write for arrays that differ on an axis along which they are not joined."""
    shapes = [x.type.shape for x in xs]
    ranks = {len(s) for s in shapes}
    if len(ranks) > 1:
        return f"give arrays of one number of axes, found {sorted(ranks)}: x[None] adds one"
    differing = [i for i in range(xs[0].ndim) if len({s[i] for s in shapes}) > 1]
    if name == "concat" and len(differing) == 1:
        return f"write axis={differing[0]}, along which their sizes may differ"
    others = ", ".join(str(i) for i in differing if i != axis % xs[0].ndim)
    return f"cut them to one size on axis {others}, as x[:n] does on axis 0, or fill up: dlvm.pad"


def _check_axis(name: str, axis: Any) -> None:
    """Refuse an array in the place of an axis, which is what a list was forgotten for."""
    if isinstance(axis, Tensor) or is_array(axis):
        raise CallError(
            f"{name}: expected a list of arrays, found a second array as axis",
            remedy=f"write dlvm.{name}([x, y])",
        )


@public("stack")
def stack(
    arrays: Sequence[Any],
    axis: int = 0,
    out: None = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """Arrays of one shape along a new axis."""
    refuse_out(out)
    _check_axis("stack", axis)
    xs = alike(arrays, dtype, casting)
    other = next((x for x in xs if x.type.shape != xs[0].type.shape), None)
    if other is not None:
        raise ShapeError(
            f"stack: expected arrays of one shape, found {xs[0].type} and {other.type}",
            sides=unequal(xs[0].type.shape, other.type.shape),
        )
    return _joined("stack", [expand_dims(x, axis) for x in xs], axis)


@public("block")
def block(arrays: Any) -> Any:
    """Nested lists of blocks as one array: the innermost beside, the others above one another."""
    depth = _depth(arrays)
    if not all(_filled(arrays)):
        raise ShapeError("block: found an empty list", remedy="leave out empty lists")
    return _blocks(arrays, depth, max(depth, *_ranks(arrays)))


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) and arrays else 0  # pyright: ignore[reportUnknownArgumentType]


def _filled(arrays: Any) -> Iterator[bool]:
    """Whether each of nested lists holds something."""
    if isinstance(arrays, list):
        yield bool(arrays)  # pyright: ignore[reportUnknownArgumentType]
        for row in arrays:  # pyright: ignore[reportUnknownVariableType]
            yield from _filled(row)


def _ranks(arrays: Any) -> list[int]:
    if not isinstance(arrays, list):
        return [0, len(shape_of(plain(arrays)))]
    return [rank for row in arrays for rank in _ranks(row)]  # pyright: ignore[reportUnknownVariableType]


def _blocks(arrays: Any, depth: int, rank: int) -> Any:
    if not depth:
        x = staged(arrays)
        return reshape(x, (*(1,) * (rank - x.ndim), *x.type.shape))
    return concat([_blocks(row, depth - 1, rank) for row in arrays], rank - depth)


@public("delete")
def delete(x: Any, obj: Any, axis: int | None = None) -> Any:
    """Without the elements at some places, which are known, along an axis."""
    x = ravel(x) if axis is None else staged(x)
    (axis,) = axes_of(x, 0 if axis is None else axis)
    size = operator.index(x.type.shape[axis])
    if np.asarray(obj).dtype == bool and np.shape(obj) != (size,):
        raise ShapeError(
            f"delete: a mask of the shape {np.shape(obj)} for axis {axis} of {x.type}",
            remedy=f"give a mask of {size} truths, or positions",
        )
    with _known_places("delete", x, axis, size - 1):
        kept: Array = np.delete(np.arange(size), obj)
    return xp.take(x, kept, axis=axis)


@contextlib.contextmanager
def _known_places(name: str, x: Tensor, axis: int, last: int) -> Generator[None]:
    """Tell NumPy's refusal of a position as ours: ``last`` is the largest that there is."""
    try:
        yield
    except IndexError as error:
        raise IndexOutOfRange(
            f"{name}: axis {axis} of {x.type}: {error}",
            remedy=f"give whole positions up to {last}" if last >= 0 else "leave it out",
        ) from None
    except ValueError as error:
        raise ShapeError(
            f"{name}: axis {axis} of {x.type}: {error}",
            remedy="give a vector of positions, or a mask as long as the axis",
        ) from None


@public("insert")
def insert(x: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """``x`` with ``values`` before the elements at some places, which are known, along an axis."""
    x = ravel(x) if axis is None else staged(x)
    (axis,) = axes_of(x, 0 if axis is None else axis)
    size = operator.index(x.type.shape[axis])
    spots: Array = (
        np.arange(size)[obj]
        if isinstance(obj, slice)
        else np.asarray(obj, None if np.size(obj) else int)
    )
    added = fresh(element(plain(values), x.element))
    if spots.ndim == 0:  # as NumPy: the first axis of the values lies along the axis
        added = reshape(added, (*(1,) * (x.ndim - added.ndim), *added.type.shape))
        added = xp.moveaxis(added, 0, axis)
        spots = np.full(operator.index(added.type.shape[axis]), int(spots))
    shape = (*x.type.shape[:axis], len(spots), *x.type.shape[axis + 1 :])
    added = xp.broadcast_to(added, shape)
    with _known_places("insert", x, axis, size):
        marks = np.insert(np.arange(size), spots, -1 - np.arange(len(spots)))
    order = np.where(marks < 0, size - 1 - marks, marks)
    return xp.take(concat([x, added], axis), order, axis=axis)


@public("hstack")
def hstack(arrays: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays beside one another: along the second axis, vectors along their only one."""
    xs = [atleast_1d(a) for a in arrays]
    return _joined("hstack", xs, 0 if xs and xs[0].ndim == 1 else 1, dtype, casting)


@public("vstack")
def vstack(arrays: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Arrays below one another; a vector is a row."""
    return _joined("vstack", [atleast_2d(a) for a in arrays], 0, dtype, casting)


@public("dstack")
def dstack(arrays: Sequence[Any]) -> Any:
    """Arrays one behind the other, along the third axis."""
    return _joined("dstack", [atleast_3d(a) for a in arrays], 2)


@public("column_stack")
def column_stack(arrays: Sequence[Any]) -> Any:
    """Vectors as columns, beside matrices."""
    xs = [staged(a) for a in arrays]
    return _joined("column_stack", [expand_dims(x, 1) if x.ndim == 1 else x for x in xs], 1)


@public("append")
def append(x: Any, values: Any, axis: int | None = None) -> Any:
    """``values`` behind ``x``; both flattened without an axis."""
    return _joined("append", [x, values], axis)


@public("unstack", views=True)
def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis of known size, as a tuple."""
    x = staged(x)
    (axis,) = axes_of(x, axis)
    size = x.type.shape[axis]
    if not isinstance(size, int):
        raise unknown_length(x, "unstack")
    return tuple(getitem(x, (*(slice(None),) * axis, i)) for i in range(size))


@public("split", views=True)
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Equal parts along an axis, as many as given, or parts that end at the positions given."""
    x = staged(x)
    (axis,) = axes_of(x, axis)
    if not isinstance(indices_or_sections, int):
        return _cut(x, axis, indices_or_sections)
    part = (
        divide_exactly(x.type.shape[axis], indices_or_sections) if indices_or_sections > 0 else None
    )
    if part is None:
        raise ShapeError(
            f"split: axis {axis} of {x.type} has no {indices_or_sections} equal parts",
            remedy="dlvm.array_split makes parts of different sizes",
        )
    return _cut(x, axis, [part * i for i in range(1, indices_or_sections)])


@public("array_split", views=True)
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis, of which the first are longer by one where they can't be equal."""
    x = staged(x)
    (axis,) = axes_of(x, axis)
    if not isinstance(indices_or_sections, int):
        return _cut(x, axis, indices_or_sections)
    size, count = x.type.shape[axis], indices_or_sections
    if count < 1:
        raise ShapeError(f"array_split: expected at least one part, found {count}")
    each, longer = floordiv(size, count), mod(size, count)
    return _cut(x, axis, [each * i + minimum(longer, i) for i in range(1, count)])


def _cut(x: Tensor, axis: int, stops: Sequence[Any]) -> list[Tensor]:
    """Views from each position to the next."""
    ends = [*(s if isinstance(s, Expr) else operator.index(s) for s in stops), None]
    full = (slice(None),) * axis
    return [getitem(x, (*full, slice(a, b))) for a, b in zip((0, *ends), ends, strict=False)]


@public("vsplit", views=True)
def vsplit(x: Any, indices_or_sections: Any) -> list[Any]:
    """Parts below one another."""
    return split(x, indices_or_sections, 0)


@public("hsplit", views=True)
def hsplit(x: Any, indices_or_sections: Any) -> list[Any]:
    """Parts beside one another."""
    x = staged(x)
    return split(x, indices_or_sections, 0 if x.ndim == 1 else 1)


@public("dsplit", views=True)
def dsplit(x: Any, indices_or_sections: Any) -> list[Any]:
    """Parts one behind the other, along the third axis."""
    x = staged(x)
    if x.ndim < 3:
        raise ShapeError(f"dsplit: expected an array of three axes or more, found {x.type}")
    return split(x, indices_or_sections, 2)
