"""Bools of each element: comparisons, what joins their results, and selection by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.ir import BOOL, Array, TensorType, Value, rewrite, splat, zeros
from dlvm.ir.properties import Of, Properties
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise
from dlvm.ops.literals import is_splat, scalar_value
from dlvm.ops.patterns import mask_properties


class Comparison(Elementwise):
    """Operands of one type, a bool result; comparisons with NaN are false."""

    accepts = "biuf"
    nondifferentiable = "its result is bool"

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """As element-wise, with bool elements."""
        found = super().infer()
        assert isinstance(found, TensorType)
        return found.with_dtype(BOOL)


class Relation(Comparison):
    """A relation of two numbers, which has one name here and in NumPy."""

    of_python = True
    relation: ClassVar[str]
    x: Value
    y: Value

    def properties(self, of: Of) -> Properties:
        """What comparing rows with columns leaves out; symmetry of what is compared."""
        return mask_properties(self.relation, *self.operands) | super().properties(of)

    def reference(self, *operands: Array) -> Any:
        return getattr(np, self.name)(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary(self.relation, *x)


class Less(Relation):
    """``x < y``."""

    name = "less"
    relation = "lt"


class LessEqual(Relation):
    """``x <= y``."""

    name = "less_equal"
    relation = "le"


class Equal(Relation):
    """``x == y``; NaN equals nothing."""

    name = "equal"
    commutes = True
    relation = "eq"


class Bitwise(Elementwise):
    """A function of every bit, which is a scalar function here and public here and in NumPy."""

    accepts = "biu"
    of_python = True
    nondifferentiable = "it works on bools and integers"
    word: ClassVar[str]

    def reference(self, *operands: Array) -> Any:
        return getattr(np, self.public)(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary(self.word, *x)


class And(Bitwise):
    """Both: of bools, or of every bit of integers."""

    name = word = "and"
    commutes = True
    public = "bitwise_and"
    x: Value
    y: Value


class Or(Bitwise):
    """Either or both: of bools, or of every bit of integers."""

    name = word = "or"
    commutes = True
    public = "bitwise_or"
    x: Value
    y: Value


class Xor(Bitwise):
    """One of the two and not the other: of bools, or of every bit of integers."""

    name = word = "xor"
    commutes = True
    public = "bitwise_xor"
    x: Value
    y: Value


class Not(Bitwise):
    """The other truth of a bool; every bit of an integer flipped."""

    name = word = "not"
    public = "bitwise_invert"
    x: Value

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.unary("not", *x)


class Select(Elementwise):
    """``x`` where ``condition`` holds, else ``y``; both sides have been computed."""

    name = "select"
    public = "where"
    accepts = "biuf"
    condition: Value
    x: Value
    y: Value

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """A bool condition of the same shape as the two sides, which have one type."""
        condition, x, y = self.condition.type, self.x.type, self.y.type
        if condition.dtype != BOOL or x.dtype != y.dtype or x.dtype.kind not in self.accepts:
            raise DTypeError(
                f"select: expected bool and two equal types of numbers, found {condition}, {x}, {y}"
            )
        if not condition.shape == x.shape == y.shape:
            raise ShapeError(f"select: expected one shape, found {condition}, {x} and {y}")
        return x

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        return holds(self.x) and holds(self.y)

    def properties(self, of: Of) -> Properties:
        """Symmetry of all three, what both sides have, and the zeros where the mask is false."""
        mask, x, y = map(of, self.operands)
        both = x & y & {"lower", "upper", "diagonal", "nonnegative"}
        if is_splat(self.y, 0):
            both |= (mask | x) & {"lower", "upper", "diagonal"}
            both |= mask & {"identity"} if is_splat(self.x, 1) else frozenset[str]()
            both |= x & {"nonnegative"}
        return both | (mask & x & y & {"symmetric"})

    def reference(self, *operands: Array) -> Any:
        return np.where(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        zero = zeros(self.type)
        return None, Select(self.condition, dy[0], zero), Select(self.condition, zero, dy[0])

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.select(*x)


@rewrite(Select, example=lambda c, x: Select(c, x, x), given=("b[M,N]", "n[M,N]"))
def select_same(op: Select) -> Value | None:
    """select(c, x, x) = x, exactly."""
    return op.x if op.x is op.y else None


@rewrite(
    Select,
    example=lambda x, y: Select(splat(True, x.type.with_dtype(BOOL)), x, y),
    given=("n[M,N]", "n[M,N]"),
)
def select_known(op: Select) -> Value | None:
    """select(true, x, y) = x and select(false, x, y) = y, exactly."""
    known = scalar_value(op.condition)
    return None if known is None else op.x if known else op.y
