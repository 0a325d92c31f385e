"""Arithmetic on each element: operands of one type, no broadcasting (that is an op of its own)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dlvm.ir import Array, TensorType, Value, rewrite, splat, zeros
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise
from dlvm.ops.literals import is_splat

from .logic import Equal, LessEqual, Or, Select


class Add(Elementwise):
    """Sum ``x + y``; integers wrap around."""

    name = "add"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.add(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return dy[0], dy[0]

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("add", *x)


@rewrite(Add, example=(lambda x: x + 0.0, lambda x: Add(splat(0.0, x.type), x)), exact=False)
def add_zero(op: Add) -> Value | None:
    """x + 0 = x (over the reals: IEEE would turn -0 into 0)."""
    match op:
        case Add(x, zero) if is_splat(zero, 0):
            return x
        case Add(zero, x) if is_splat(zero, 0):
            return x
        case _:
            return None


@rewrite(Add, example=(lambda x, y: x + (-y), lambda x, y: (-y) + x), given=("f[M,N]", "f[M,N]"))
def add_negative(op: Add) -> Value | None:
    """x + (-y) = x - y, exactly."""
    match op:
        case Add(x, Neg(y)) | Add(Neg(y), x):
            return Sub(x, y)
        case _:
            return None


@rewrite(
    Select,
    example=lambda c, d, x, y: Select(
        Or(c, d), Select(c, x, zeros(x.type)) + Select(d, y, zeros(y.type)), zeros(x.type)
    ),
    given=("b[M,N]", "b[M,N]", "n[M,N]", "n[M,N]"),
)
def select_sum_of_selected(op: Select) -> Value | None:
    """select(c or d, s, 0) = s for s = select(c, x, 0) + select(d, y, 0), exactly."""
    match op:
        case Select(Or(c, d), Add(Select(e, _, a), Select(f, _, b)) as s, zero) if (
            e is c and f is d and is_splat(a, 0) and is_splat(b, 0) and is_splat(zero, 0)
        ):
            return s
        case _:
            return None


class Sub(Elementwise):
    """Difference ``x - y``; integers wrap around."""

    name = "sub"
    public = "subtract"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.subtract(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return dy[0], -dy[0]

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("sub", *x)


@rewrite(Sub, example=lambda x: x - 0.0)
def subtract_zero(op: Sub) -> Value | None:
    """x - 0 = x, exactly."""
    return op.x if is_splat(op.y, 0) else None


@rewrite(Sub, example=lambda x: 0.0 - x, exact=False)
def subtract_from_zero(op: Sub) -> Value | None:
    """0 - x = -x (over the reals: IEEE gives 0 - 0 = 0, not -0)."""
    return Neg(op.y) if is_splat(op.x, 0) else None


@rewrite(Sub, example=lambda x: x - x, exact=False)
def subtract_itself(op: Sub) -> Value | None:
    """x - x = 0 (over the reals: IEEE keeps NaN, and infinity minus itself is NaN)."""
    return zeros(op.type) if op.x is op.y else None


class Mul(Elementwise):
    """Product ``x * y``; integers wrap around."""

    name = "mul"
    public = "multiply"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.multiply(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return dy[0] * self.y, dy[0] * self.x

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("mul", *x)


@rewrite(Mul, example=(lambda x: x * 1.0, lambda x: Mul(splat(1.0, x.type), x)))
def multiply_by_one(op: Mul) -> Value | None:
    """x * 1 = x, exactly."""
    match op:
        case Mul(x, one) if is_splat(one, 1):
            return x
        case Mul(one, x) if is_splat(one, 1):
            return x
        case _:
            return None


@rewrite(Mul, example=lambda x: x * 0.0, exact=False)
def multiply_by_zero(op: Mul) -> Value | None:
    """x * 0 = 0 (over the reals: IEEE keeps NaN, infinity and the sign)."""
    return zeros(op.type) if is_splat(op.x, 0) or is_splat(op.y, 0) else None


class Div(Elementwise):
    """Quotient ``x / y`` of floats, IEEE at zero: 1/0 is inf, 0/0 is NaN."""

    name = "div"
    public = "divide"
    accepts = "f"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.divide(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return dy[0] / self.y, -(dy[0] * (self / self.y))

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("div", *x)


@rewrite(Div, example=lambda x: x / 1.0, given=("f[M,N]",))
def divide_by_one(op: Div) -> Value | None:
    """x / 1 = x, exactly."""
    return op.x if is_splat(op.y, 1) else None


class Neg(Elementwise):
    """``-x``: the sign bit of a float flips; integers wrap."""

    name = "neg"
    public = "negative"
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.negative(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (-dy[0],)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.unary("neg", *x)


@rewrite(Neg, example=lambda x: Neg(Neg(x)))
def negate_twice(op: Neg) -> Value | None:
    """-(-x) = x, exactly."""
    match op:
        case Neg(Neg(x)):
            return x
        case _:
            return None


class StopGradient(Elementwise):
    """``x`` itself, through which no derivative flows."""

    name = "stop_gradient"
    accepts = "biuf"
    nondifferentiable = "it is there to stop derivatives"
    x: Value

    def reference(self, *operands: Array) -> Any:
        return operands[0]

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return x[0]


class Named(Elementwise):
    """``x`` itself, under a name by which a checkpoint may keep it."""

    name = "named"
    accepts = "biuf"
    x: Value
    label: str = ""

    def reference(self, *operands: Array) -> Any:
        return operands[0]

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0],)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return x[0]


class Saved(Elementwise):
    """``x``, which the policy of a checkpoint kept: it is known as ``kept`` as well.

    It stands where a derivative is being written, which is that of ``x`` and reads ``kept``.
    """

    name = "saved"
    accepts = "biuf"
    x: Value
    kept: Value
    policy: str = ""

    def reference(self, *operands: Array) -> Any:
        return operands[0]

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0], None)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return x[0]


class Extremum(Elementwise):
    """One of two, by order; NaN if either is. A tie shares the cotangent evenly."""

    accepts = "biuf"
    word: ClassVar[str]
    x: Value
    y: Value

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        share, zero = Select(Equal(self.x, self.y), dy[0] * 0.5, dy[0]), zeros(self.type)
        x_is_less, y_is_less = LessEqual(self.x, self.y), LessEqual(self.y, self.x)
        mine, other = (y_is_less, x_is_less) if self.word == "max" else (x_is_less, y_is_less)
        return Select(mine, share, zero), Select(other, share, zero)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary(self.word, *x)


class Maximum(Extremum):
    """The larger of two; NaN if either is. A tie shares the cotangent evenly."""

    name = "maximum"
    word = "max"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.maximum(*operands)


class Minimum(Extremum):
    """The smaller of two; NaN if either is. A tie shares the cotangent evenly."""

    name = "minimum"
    word = "min"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.minimum(*operands)


class Modf(Elementwise):
    """The fractional and the integral part of ``x``, both with its sign; ``x = f + i``.

    An infinity has fraction 0 (with its sign) and itself as integral part.
    """

    name = "modf"
    accepts = "f"
    x: Value

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """Two results of the operand's type."""
        found = super().infer()
        assert isinstance(found, TensorType)
        return found, found

    def reference(self, *operands: Array) -> Any:
        return np.modf(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0],)

    def scalar(self, s: Scalars[S], *x: S) -> tuple[S, ...]:
        whole = s.unary("trunc", *x)
        zero = s.constant(0.0, s.dtype(whole))
        exact = s.binary("eq", whole, x[0])
        fraction = s.select(exact, zero, s.binary("sub", x[0], whole))
        return s.binary("copysign", fraction, x[0]), whole
