"""What operations that move elements, choose between them or count read, in every kind of form."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from dlvm import ops
from dlvm.ir import BOOL, F64, I64, Dim, Op, Value
from dlvm.ir.sizes.positions import Index
from dlvm.ops.arrays.sections import in_whole
from dlvm.ops.literals import Constant, DimSize, Iota

from .scope import UNKNOWN, Scope
from .terms import Factor, Form, chosen, factor, is_zero, not_negative, number, summed, times


class Reads(Protocol):
    """What a reader does for the operations of this file."""

    exact: bool
    scope: Scope

    def element(self, value: Value, index: Index) -> Form:
        """The element of a value at an index."""
        ...

    def canonical_element(self, value: Value, index: Index) -> Form:
        """Its canonical form."""
        ...

    def bound(self, extents: Iterable[Dim]) -> tuple[list[str], Index]:
        """New indices that a sum binds."""
        ...

    def function(self, op: Op, index: Index) -> Form:
        """A function of elements of which nothing is known."""
        ...


class Moves:
    """Elements of such operations; a reader reads those of their operands."""

    def __init__(self, reader: Reads) -> None:
        self.reader = reader

    def moved(self, op: Op, index: Index) -> Form | None:
        """The element of what such an operation makes; None of any other."""
        match op:
            case ops.Update():
                return self._updated(op, index)
            case ops.Select(condition, x, y):
                a, b = self.reader.element(x, index), self.reader.element(y, index)
                return chosen(
                    self.reader.element(condition, index), a, b, self.reader.scope.multiply
                )
            case ops.Assume(x):
                return self.reader.element(x, index)
            case ops.Cast(x):
                return self._cast(op, x, index)
            case Iota() if op.dtype in (I64, F64):
                return _counted(index[0])
            case DimSize():
                return _counted(op.size)
            case ops.Unpatch():
                return self._unpatched(op, index)
            case ops.IndexMap():
                return self._mapped(op, index)
            case ops.Gather():
                return self._gathered(op, index)
            case _:
                return None

    def _mapped(self, op: ops.IndexMap, index: Index) -> Form:
        """The element that is read; where there are several reads, at most one of them applies."""
        found: Form = ()
        for read in op.reads(index):
            part = self.reader.element(op.operands[read.operand], read.index)
            here = factor(*map(not_negative, read.where))
            found += self.reader.scope.multiply(here, part) if read.where else part
        return found

    def _updated(self, op: Any, index: Index) -> Form:
        """``sum over q of [i = start + q step]`` is whether i lies in the window, at q."""
        names, at = self.reader.bound(op.y.shape)
        here = factor(*(is_zero(i - j) for i, j in zip(index, in_whole(op, at), strict=True)))
        new = summed(self.reader.scope.multiply(here, self.reader.element(op.y, at)), names)
        old = self.reader.element(op.x, index)
        return (*new, *old, *times(self.reader.scope.multiply(summed(here, names), old), -1))

    def _unpatched(self, op: Any, index: Index) -> Form:
        """``sum over q of [i = q step + p dilation] x[.., q, .., p]`` at position i and tap p."""
        names, at = self.reader.bound(op.x.shape[a] for a in op.axes)
        taps = index[op.type.rank - len(op.axes) :]
        numbers = zip(op.axes, at, taps, op.steps, op.dilations, strict=True)
        apart: list[Dim] = [index[a] - q * s - p * d for a, q, p, s, d in numbers]
        here = factor(*map(is_zero, apart))
        places = list(index)
        for axis, q in zip(op.axes, at, strict=True):
            places[axis] = q
        return summed(
            self.reader.scope.multiply(here, self.reader.element(op.x, tuple(places))), names
        )

    def _cast(self, op: Any, x: Value, index: Index) -> Form:
        """Bools become 0 and 1; wider floats are the same reals."""
        same = x.dtype == op.dtype or x.dtype == BOOL
        real = not self.reader.exact and x.dtype.is_float and op.dtype.is_float
        return self.reader.element(x, index) if same or real else self.reader.function(op, index)

    def _gathered(self, op: Any, index: Index) -> Form:
        axis, rank = op.axis, op.indices.type.rank - op.batch
        found: Form = ()
        for at, here in self.picked(
            op, op.indices, (*index[: op.batch], *index[axis : axis + rank])
        ):
            picked = self.reader.element(op.x, (*index[:axis], at, *index[axis + rank :]))
            found += self.reader.scope.multiply(here, picked)
        return found

    def picked(self, op: Any, indices: Value, index: Index) -> Iterator[tuple[Dim, Form]]:
        """Where an index of a gather or scatter may point, and whether it does."""
        scope, size = self.reader.scope, op.x.shape[op.axis]
        if isinstance(indices, ops.Select):
            condition = self.reader.element(indices.condition, index)
            opposite = (*number(1), *times(condition, -1))
            for part, when in ((indices.x, condition), (indices.y, opposite)):
                for at, here in self.picked(op, part, index):
                    yield at, scope.multiply(when, here)
            return
        at = self.position(indices, index)
        if at is not None and scope.never_negative(at) and scope.never_negative(size - 1 - at):
            yield at, number(1)
        elif op.mode == "drop":
            at = self.compared(indices, index)
            yield at, _within((at,), (size,))
            yield at + size, factor(not_negative(-at - 1), not_negative(at + size))
        else:
            most = size - 1 if isinstance(size, int) else math.inf
            form = self.reader.canonical_element(indices, index)
            yield scope.read(form, f"{op.mode} {size}", (0, most)), number(1)

    def position(self, value: Value, index: Index) -> Dim | None:
        """An element of an integer value as an index, if only moving and counting make it."""
        index = tuple(0 if n == 1 else d for d, n in zip(index, value.shape, strict=True))
        match value:
            case Iota():
                return index[0] if value.dtype == I64 else None
            case DimSize():
                return value.size
            case Constant() if value.value.size == 1 and value.dtype.is_integer:
                return int(value.value.flat[0])
            case ops.IndexMap() if value.everywhere:
                (read,) = value.reads(index)
                return self.position(value.operands[0], read.index)
            case _:
                return None

    def compared(self, value: Value, index: Index) -> Dim:
        """An integer as an index expression, so that it may be compared."""
        known = self.position(value, index)
        if known is not None:
            return known
        return self.reader.scope.read(self.reader.canonical_element(value, index), "value", UNKNOWN)


def _counted(d: Dim) -> Form:
    """An index as a number."""
    return number(d) if isinstance(d, int) else factor(Factor("index", (d,)))


def _within(index: Sequence[Dim], shape: Sequence[Dim]) -> Form:
    """Whether an index lies inside."""
    return factor(
        *(not_negative(d) for i, n in zip(index, shape, strict=True) for d in (i, n - 1 - i))
    )
