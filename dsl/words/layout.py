"""The strides that arrays have in the same program of NumPy, which decide what is a view.

Strides are counted in elements. An argument, a captured array and the result of most functions lie
in row-major order; a view has the strides of the array that it shows, and the result of an
element-wise function lies in the order of its operands (NumPy's order "K"). An open size counts as
a large number here, neither 0 nor 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Protocol

from dlvm.ir import Array, Dim
from dlvm.ir.sizes.dims import evaluate, product, symbols

Shape = tuple[Dim, ...]
Strides = tuple[Dim, ...]
Axes = tuple[int, ...]

LARGE = 1 << 20
"""What an open size counts as where two strides are compared."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The shape and the strides of an array."""

    shape: Shape
    strides: Strides

    @property
    def row_major(self) -> bool:
        """Whether the elements lie one after the other in row-major order (``C_CONTIGUOUS``)."""
        dense = row_major(self.shape)
        columns = zip(self.shape, self.strides, dense, strict=True)
        return 0 in self.shape or all(s == n for d, s, n in columns if d != 1)

    @property
    def column_major(self) -> bool:
        """Whether the elements lie one after the other in column-major order."""
        return self.transposed(tuple(reversed(range(len(self.shape))))).row_major

    def transposed(self, perm: Axes) -> Layout:
        """The layout with the axes in another order."""
        return Layout(tuple(self.shape[a] for a in perm), tuple(self.strides[a] for a in perm))

    def reading_order(self, order: str) -> Axes:
        """The order of axes in which ``order`` reads the elements, the slowest axis first."""
        forwards = tuple(range(len(self.shape)))
        if order == "C" or (order in "AK" and self.row_major):
            return forwards
        if order == "F" or self.column_major:
            return forwards[::-1]
        return forwards if order == "A" else order_of_axes(self.shape, [self])


# -- where a layout comes from ---------------------------------------------------------------------


class Moves(Protocol):
    """A step from an array to a view of it."""

    in_order: ClassVar[bool]
    """Whether the view of an array in row-major order lies in row-major order too."""

    def strides(self, shape: Shape, of: Strides) -> Strides | None:
        """The strides of the view, from the array's shape and strides; None if it is a copy."""
        ...


class Laid:
    """Where the layout of an array comes from, if it isn't row-major; found when it is needed."""

    __slots__ = ("found",)

    found: Strides | None
    """The strides, once they were needed."""

    def sources(self) -> Sequence[Laid | None]:
        """What must be found before."""
        raise NotImplementedError

    def find(self) -> Strides:
        """The strides, from those of the sources."""
        raise NotImplementedError


Placed = tuple[Shape, Laid | None]
"""The shape of an array, and where its layout comes from; None is row-major."""


class Given(Laid):
    """Of an array that exists while tracing."""

    __slots__ = ()

    def __init__(self, array: Array) -> None:
        self.found = tuple(s // array.itemsize for s in array.strides)


class Viewed(Laid):
    """Of a view, after a step from another array."""

    __slots__ = ("base", "step")

    def __init__(self, base: Placed, step: Moves) -> None:
        self.found, self.base, self.step = None, base, step

    def sources(self) -> Sequence[Laid | None]:
        """The array that the view shows."""
        return (self.base[1],)

    def find(self) -> Strides:
        """The strides after the step."""
        found = self.step.strides(self.base[0], _known(self.base))
        assert found is not None  # else it were no view
        return found


class Ordered(Laid):
    """Of the result of an element-wise function, which lies in the order of its operands."""

    __slots__ = ("operands", "shape")

    def __init__(self, shape: Shape, operands: Sequence[Placed]) -> None:
        self.found, self.shape, self.operands = None, shape, operands

    def sources(self) -> Sequence[Laid | None]:
        """The operands."""
        return [laid for _, laid in self.operands]

    def find(self) -> Strides:
        """Dense strides in the order of the operands."""
        return kept_order(self.shape, [Layout(x[0], _known(x)) for x in self.operands])


class Copied(Ordered):
    """Of a copy, and of an array made in the likeness of another one."""

    __slots__ = ()

    def find(self) -> Strides:
        """Dense strides with the axes by the size of their strides."""
        steps = _step_sizes(len(self.shape), Layout(self.shape, _known(self.operands[0])))
        return dense(self.shape, sorted(range(len(steps)), key=lambda a: -steps[a]))


ARRAY = Ordered((), ())
"""Of an array without axes, which can be assigned into; NumPy's scalars can't."""


def viewed(base: Placed, step: Moves, shape: Shape) -> Laid | None:
    """Where the layout of a view of some shape comes from, after a step from another array."""
    if base[1] is None and step.in_order:
        return None if shape else ARRAY
    return Viewed(base, step)


def existing(array: Array) -> Laid | None:
    """Where the layout of an array that exists while tracing comes from."""
    return None if array.flags.c_contiguous else Given(array)


def _known(x: Placed) -> Strides:
    shape, laid = x
    if laid is None:
        return row_major(shape)
    assert laid.found is not None
    return laid.found


def layout(x: Placed) -> Layout:
    """The shape and the strides of an array."""
    pending = [x[1]]
    while pending:  # a program may be too long for recursion
        laid = pending[-1]
        if laid is None or laid.found is not None:
            pending.pop()
        elif missing := [s for s in laid.sources() if s is not None and s.found is None]:
            pending += missing
        else:
            laid.found = laid.find()
    return Layout(x[0], _known(x))


# -- rules -----------------------------------------------------------------------------------------


def row_major(shape: Shape) -> Strides:
    """The strides of an array whose last axis is dense."""
    return tuple(product(shape[i + 1 :]) for i in range(len(shape)))


def regrouped(shape: Shape, strides: Strides, new: Shape) -> Strides | None:
    """The strides in another shape; None where no strides reach the elements in that order.

    Axes fall into groups of equal size, old and new; within a group the old axes must be dense.
    """
    if 0 in shape:
        return row_major(new)
    old = [(d, s) for d, s in zip(shape, strides, strict=True) if d != 1]
    sizes = [d for d in new if d != 1]
    ends = {product(tuple(sizes[:j])): j for j in range(1, len(sizes) + 1)}
    found: list[Dim] = []
    first = 0
    for i in range(1, len(old) + 1):
        stop = ends.get(product(tuple(d for d, _ in old[:i])))
        if stop is not None:
            group, first = old[first:i], i
            if any(s != d * t for (_, s), (d, t) in pairwise(group)):
                return None
            dense = row_major(tuple(sizes[len(found) : stop]))
            found += [n * group[-1][1] for n in dense]
    return among_ones(found, new)


def among_ones(strides: list[Dim], shape: Shape) -> Strides:
    """Strides of a shape from those of the axes whose size is not 1; the others have none."""
    rest = iter(strides)
    return tuple(0 if d == 1 else next(rest) for d in shape)


# -- the order of a result -------------------------------------------------------------------------


def kept_order(shape: Shape, operands: Sequence[Layout]) -> Strides:
    """The strides of the result of an element-wise function of operands that stretch to a shape."""
    return dense(shape, order_of_axes(shape, operands))


def dense(shape: Shape, perm: Sequence[int]) -> Strides:
    """The strides of an array without gaps, from the order of its axes, the slowest first."""
    steps = row_major(tuple(shape[a] for a in perm))
    return tuple(steps[perm.index(a)] for a in range(len(shape)))


def order_of_axes(shape: Shape, operands: Sequence[Layout]) -> Axes:
    """The axes as NumPy's iterator orders them for operands, the slowest first.

    An axis goes before another if its stride is larger in an operand, and not smaller in any; where
    operands disagree, the axes stay in order. Axes along which an operand is stretched don't count.
    """
    rows = [_step_sizes(len(shape), operand) for operand in operands]
    perm: list[int] = []
    for axis in reversed(range(len(shape))):  # from the fastest
        perm.insert(_place(axis, perm, rows), axis)
    return tuple(reversed(perm))


def _place(axis: int, perm: Sequence[int], rows: Sequence[Sequence[int]]) -> int:
    """Where an axis goes among those that are sorted, the fastest first."""
    place = len(perm)
    for i in reversed(range(len(perm))):
        pairs = [(row[axis], row[perm[i]]) for row in rows if row[axis] and row[perm[i]]]
        if not pairs:
            continue
        if any(other <= own for own, other in pairs):
            break
        place = i
    return place


def _step_sizes(rank: int, operand: Layout) -> list[int]:
    """The distance between neighbours along each axis; 0 where the operand is stretched."""
    own = [
        0 if d == 1 else abs(_counted(s))
        for d, s in zip(operand.shape, operand.strides, strict=True)
    ]
    return [0] * (rank - len(own)) + own


def _counted(stride: Dim) -> int:
    """A stride as a number."""
    return evaluate(stride, dict.fromkeys(symbols(stride), LARGE))
