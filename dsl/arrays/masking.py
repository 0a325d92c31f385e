"""Writing where a mask holds: ``x[mask] = v``, ``x[:, mask] = v``, ``x.at[mask].add(v)``.

How many places hold is not known while tracing, so a mask takes one value, or one slice, for
all of them, and the write is a selection.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.arithmetic import where
from dlvm.dsl.trace.operands import element, fresh, shape_of, shown_shape, spread, staged
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.views import reshaped
from dlvm.ir import Dim, TensorType, Value

from .indexing import check_mask, is_mask, items_of, takes

Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """A mask among basic indices: the same with slices in its place, and where it stands.

    ``axis`` is its first axis in what the slices show, ``place`` the axis that its places have
    in what NumPy assigns to.
    """

    index: tuple[Any, ...]
    mask: Any
    axis: int
    place: int

    def value(self, shape: Shape, rank: int) -> Shape | None:
        """The shape of one value for all places, spread over a view of this rank; or None."""
        count = rank - self.mask.ndim + 1
        while len(shape) > count and shape[0] == 1:
            shape = shape[1:]
        if len(shape) > count:
            return None
        full = (*(1,) * (count - len(shape)), *shape)
        if full[self.place] != 1:
            return None
        rest = (*full[: self.place], *full[self.place + 1 :])
        return (*rest[: self.axis], *(1,) * self.mask.ndim, *rest[self.axis :])

    def takes(self, new: Any, rank: int) -> bool:
        """Whether this is one value for all places; if not, the places of a mask must be known."""
        if self.value(shape_of(new), rank) is not None:
            return True
        if isinstance(self.mask, Tensor):
            raise ShapeError(
                "x[mask] = v takes one value for all places, found a value of shape "
                f"{shown_shape(shape_of(new))}",
                remedy="for a value of its own in each place: x[...] = dlvm.where(mask, v, x)",
            )
        return False

    def write(self, part: Value, new: Value) -> Value:
        """What the slices show, with a value where the mask holds."""
        before, after = (1,) * self.axis, (1,) * (part.type.rank - self.axis - self.mask.ndim)
        mask = reshaped(staged(self.mask).read(), (*before, *shape_of(self.mask), *after))
        return where(fresh(mask), fresh(new), fresh(part)).read()

    def spread(self, new: Any, part: Value) -> Value:
        """One value for all places in every place."""
        given = self.value(shape_of(new), part.type.rank)
        assert given is not None
        stretched = tuple(
            size if self.axis <= i < self.axis + self.mask.ndim else given[i]
            for i, size in enumerate(part.shape)
        )
        value = reshaped(element(new, part.dtype), given)
        return spread(spread(value, stretched), part.shape)


def selection(t: TensorType, index: Any) -> Selection | None:
    """The selection that an index means, if it is one mask among integers and slices."""
    items = items_of(index)
    spots = [n for n, item in enumerate(items) if is_mask(item)]
    if len(spots) != 1 or not all(map(_basic, items[: spots[0]] + items[spots[0] + 1 :])):
        return None
    (at,) = spots
    mask, fill = items[at], t.rank - sum(map(takes, items))
    if fill < 0 or sum(i is Ellipsis for i in items) > 1:
        return None
    widths = [fill if item is Ellipsis else takes(item) for item in items]
    check_mask(mask, t, sum(widths[:at]))
    axis = sum(map(_shows, items[:at], widths[:at]))
    picks = [n for n, item in enumerate(items) if n == at or isinstance(item, Integral)]
    together = picks == list(range(picks[0], picks[-1] + 1))
    whole = (*items[:at], *(slice(None),) * mask.ndim, *items[at + 1 :])
    return Selection(whole, mask, axis, axis if together else 0)


def _shows(item: Any, width: int) -> int:
    """The number of axes that an item leaves in the result: a new axis one, an integer none."""
    return 1 if item is None else 0 if isinstance(item, Integral) else width


def _basic(item: Any) -> bool:
    plain = item is None or item is Ellipsis or isinstance(item, slice)
    return plain or isinstance(item, Integral)
