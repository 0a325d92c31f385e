"""The form of an element of a value: what each operation reads, and what it makes of that.

Operations that only move elements, choose between them or count are read in every form. Arithmetic
on integers is that of a ring. Arithmetic on floats is that of the reals in one kind of form, and in
the other, where every bit counts, a tree of functions of which nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from dlvm import ops
from dlvm.ir import BOOL, Array, Dim, Op, Param, Part, Value
from dlvm.ir.knowledge import properties_of
from dlvm.ir.sizes.positions import Index
from dlvm.ops.families import Elementwise
from dlvm.ops.literals import Constant

from .canonical import canonical
from .moves import Moves
from .scope import Scope
from .terms import (
    Factor,
    Form,
    TooLong,
    factor,
    is_zero,
    not_negative,
    number,
    shown,
    summed,
    times,
)

READ = 2000
"""Elements that are read for one form; a value that is used often is read as often."""


class NoForm(Exception):
    """An operation has no form."""


class Reader:
    """Forms of elements; ``exact`` leaves the arithmetic of floats as it is written."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.scope = Scope()
        self.moves = Moves(self)
        self.level = 0
        self.read = 0

    def form(self, value: Value) -> Form:
        """The canonical form of the element of a value at an index of symbols."""
        names = [self.scope.index(f"%i{a}", n) for a, n in enumerate(value.shape)]
        return self._canonical(self.element(value, tuple(map(self.scope.position, names))))

    def element(self, value: Value, index: Index) -> Form:
        """The element of a value at an index."""
        self.read += 1
        if self.read > READ:
            raise TooLong
        index = tuple(0 if n == 1 else d for d, n in zip(index, value.shape, strict=True))
        match value:
            case Param():
                return factor(Factor(f"%{value.name}", index, choice=value.dtype == BOOL))
            case Part():
                return self._whole(value.op, index, f".{value.index}")
            case Constant():
                return self._constant(value.value, index)
            case Op() if (moved := self.moves.moved(value, index)) is not None:
                return moved
            case Op() if (combined := self._combined(value, index)) is not None:
                return combined
            case Elementwise():
                return self.function(value, index)
            case Op():
                return self._whole(value, index)
            case _:
                raise NoForm(str(value))

    def _canonical(self, form: Form) -> Form:
        return canonical(form, self.scope)

    def canonical_element(self, value: Value, index: Index) -> Form:
        """The canonical form of the element of a value at an index."""
        return self._canonical(self.element(value, index))

    # -- arithmetic -------------------------------------------------------------------------------

    def _combined(self, op: Op, index: Index) -> Form | None:
        """Arithmetic as far as its laws may be used."""
        if not op.operands:
            return None
        match op:
            case ops.Max(x, ()) | ops.Min(x, ()):
                return self.element(x, index)
            case ops.Matmul(x) if x.shape[-1] == 0:
                return number(0)
            case _:
                pass
        if not op.operands[0].dtype.is_float:
            return self._of_integers(op, index) or self._in_a_ring(op, index)
        if self.exact:
            return None
        match op:
            case ops.Div():
                return self._quotient(op, index)
            case ops.Solve():
                return self._solved(op, index)
            case _:
                return self._in_a_ring(op, index)

    def _of_integers(self, op: Op, index: Index) -> Form | None:
        """Comparisons of integers, and functions of bools."""
        of_bools = op.operands[0].dtype == BOOL
        match op:
            case ops.Equal(x, y) if not of_bools:
                return factor(
                    is_zero(self.moves.compared(x, index) - self.moves.compared(y, index))
                )
            case ops.Less(x, y) if not of_bools:
                return factor(
                    not_negative(self.moves.compared(y, index) - self.moves.compared(x, index) - 1)
                )
            case ops.LessEqual(x, y) if not of_bools:
                return factor(
                    not_negative(self.moves.compared(y, index) - self.moves.compared(x, index))
                )
            case ops.And(x, y) if of_bools:
                return self.scope.multiply(self.element(x, index), self.element(y, index))
            case ops.Or(x, y) if of_bools:
                a, b = self.element(x, index), self.element(y, index)
                return (*a, *b, *times(self.scope.multiply(a, b), -1))
            case ops.Not(x) if of_bools:
                return (*number(1), *times(self.element(x, index), -1))
            case _:
                return None

    def _in_a_ring(self, op: Op, index: Index) -> Form | None:
        if op.operands[0].dtype == BOOL:
            return None
        match op:
            case ops.Add(x, y):
                return (*self.element(x, index), *self.element(y, index))
            case ops.Sub(x, y):
                return (*self.element(x, index), *times(self.element(y, index), -1))
            case ops.Neg(x):
                return times(self.element(x, index), -1)
            case ops.Mul(x, y):
                return self.scope.multiply(self.element(x, index), self.element(y, index))
            case ops.Sum(x):
                names, at = self._folded(op, index)
                return summed(self.element(x, at), names)
            case ops.Matmul(x, y):
                *batch, i, j = index
                (name,), (k,) = self.bound((x.shape[-1],))
                a, b = self.element(x, (*batch, i, k)), self.element(y, (*batch, k, j))
                return summed(self.scope.multiply(a, b), (name,))
            case ops.ScatterAdd():
                return self._scattered(op, index)
            case _:
                return None

    def _scattered(self, op: ops.ScatterAdd, index: Index) -> Form:
        axis, batch = op.axis, op.batch
        names, at = self.bound(op.indices.shape[batch:])
        new = self.element(op.updates, (*index[:axis], *at, *index[axis + 1 :]))
        found = self.element(op.x, index)
        for to, inside in self.moves.picked(op, op.indices, (*index[:batch], *at)):
            here = self.scope.multiply(inside, factor(is_zero(index[axis] - to)))
            found += summed(self.scope.multiply(here, new), names)
        return found

    def _quotient(self, op: ops.Div, index: Index) -> Form:
        """``x (1/y)``; a quotient by 0, and one of 0, is a function."""
        x, y = (self.canonical_element(v, index) for v in op.operands)
        if len(y) == 1 and not y[0].factors:
            return times(x, 1 / y[0].coefficient)
        if not x or not y:
            return self.function(op, index)
        return self.scope.multiply(x, factor(Factor("reciprocal", (), (y,))))

    def _solved(self, op: Any, index: Index) -> Form:
        """An element of ``inv(A) B``, where the factors of A say what A is."""
        *batch, i, j = index
        (name,), (k,) = self.bound((op.b.shape[-2],))
        at = (k, i) if op.transposed else (i, k)
        match op.packed, op.order:
            case Part(ops.LU(a)), Part(ops.LU(b)) if a is b:
                inverse = self._inverse(a, tuple(batch), at)
            case _:
                inverse = self._inverse_by_factors(op, tuple(batch), at)
        b = self.element(op.b, (*batch, k, j))
        return summed(self.scope.multiply(factor(inverse), b), (name,))

    def _inverse(self, a: Value, batch: Index, at: tuple[Dim, Dim]) -> Factor:
        """The inverse of a matrix; that of a symmetric one has its indices in order."""
        self.level += 1
        p, q = (self._level_index(i, n) for i, n in enumerate(a.shape[-2:]))
        forms = [self.canonical_element(a, (*batch, *pair)) for pair in ((p, q), (q, p))]
        self.level -= 1
        if forms[0] == forms[1] or "symmetric" in properties_of(a):
            return Factor("inverse", tuple(sorted(at, key=str)), (min(forms, key=shown),))
        turned = shown(forms[1]) < shown(forms[0])
        return Factor("inverse", at[::-1] if turned else at, (forms[turned],))

    def _inverse_by_factors(self, op: Any, batch: Index, at: tuple[Dim, Dim]) -> Factor:
        self.level += 1
        p, q = (self._level_index(i, n) for i, n in enumerate(op.packed.shape[-2:]))
        packed = self.canonical_element(op.packed, (*batch, p, q))
        order = self.canonical_element(op.order, (*batch, p))
        self.level -= 1
        return Factor("inverse by factors", at, (packed, order))

    # -- functions of which nothing is known ------------------------------------------------------

    def function(self, op: Op, index: Index) -> Form:
        """A function of elements at one index."""
        forms = [self.canonical_element(x, index) for x in op.operands]
        if getattr(op, "commutes", False):
            forms.sort(key=str)
        return factor(Factor(_name(op), (), tuple(forms), choice=op.dtype == BOOL))

    def _whole(self, op: Op, index: Index, part: str = "") -> Form:
        """A function of all elements of its operands."""
        if op.regions:
            raise NoForm(op.name)
        if isinstance(op, Elementwise):
            forms = tuple(self.canonical_element(x, index) for x in op.operands)
            return factor(Factor(_name(op) + part, (), forms))
        self.level += 1
        forms = tuple(self._of_all(x) for x in op.operands)
        self.level -= 1
        shapes = ",".join(str(x.type) for x in op.operands)
        return factor(Factor(f"{_name(op)}{part} of {shapes}", index, forms))

    def _of_all(self, value: Value) -> Form:
        index = (self._level_index(a, n) for a, n in enumerate(value.shape))
        return self.canonical_element(value, tuple(index))

    def _level_index(self, axis: int, extent: Dim) -> Dim:
        """An index of a function of whole arrays."""
        return self.scope.position(self.scope.index(f"%l{self.level}.{axis}:{extent}", extent))

    # -- indices ----------------------------------------------------------------------------------

    def bound(self, extents: Iterable[Dim]) -> tuple[list[str], Index]:
        """New indices that a sum binds: their names, and the index that they make."""
        names = [self.scope.fresh(n) for n in extents]
        return names, tuple(map(self.scope.position, names))

    def _folded(self, op: Any, index: Index) -> tuple[list[str], Index]:
        """New indices along the axes of a reduction, and the index with them."""
        names, new = self.bound(op.x.shape[a] for a in op.axes)
        at, rest = iter(new), iter(index)
        return names, tuple(next(at if a in op.axes else rest) for a in range(op.x.type.rank))

    def _constant(self, value: Array, index: Index) -> Form:
        """A number; an array of several ones is a function of the index."""
        if value.size == 0 or len({*map(repr, value.reshape(-1).tolist())}) > 1:
            return factor(Factor(f"constant {value.tolist()}", index))
        first = value.reshape(-1)[0].item()
        if isinstance(first, int):
            return number(int(first))
        special = not math.isfinite(first) or (self.exact and str(first) == "-0.0")
        return factor(Factor(f"the number {first}")) if special else number(Fraction(first))


def _name(op: Op) -> str:
    """The name of an operation with its attributes."""
    attributes = (
        (k, v.tolist() if isinstance(v, np.ndarray) else v) for k, v in op.attributes.items()
    )
    return op.name + "".join(f" {k}={v}" for k, v in sorted(attributes))
