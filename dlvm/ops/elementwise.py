"""Arithmetic on each element: operands of one type, no broadcasting (that is an op of its own)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm.errors import DTypeError, ShapeError
from dlvm.ir import BOOL, Array, TensorType, Value, rewrite, splat, zeros
from dlvm.ir.scalar import S, Scalars

from .families import Elementwise
from .literals import is_splat, scalar_value


class Add(Elementwise):
    """Sum ``x + y``; integers wrap around, bool is refused."""

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


class FloorDiv(Elementwise):
    """Floor of the integer quotient; x // 0 is 0 and MIN // -1 is MIN (it wraps)."""

    name = "floordiv"
    public = "floor_divide"
    accepts = "iu"
    nondifferentiable = "it works on integers"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        x, y = operands
        quotient = np.floor_divide(x, np.where(y == 0, 1, y).astype(y.dtype))
        return np.where(y == 0, np.zeros_like(x), quotient)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("floordiv", *x)


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


class Exp(Elementwise):
    """``e**x``; exp(-inf) is 0."""

    name = "exp"
    accepts = "f"
    ulp = 2.6
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.exp(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * self,)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.unary("exp", *x)


class Log(Elementwise):
    """Natural logarithm; log(0) is -inf, NaN below 0."""

    name = "log"
    accepts = "f"
    ulp = 2.6
    domain = (0.0, math.inf)
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.log(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / self.x,)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.unary("log", *x)


class Tanh(Elementwise):
    """Hyperbolic tangent ``(e**x - e**-x) / (e**x + e**-x)``."""

    name = "tanh"
    accepts = "f"
    ulp = 2.6
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.tanh(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (1 - self * self),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.unary("tanh", *x)


class Sqrt(Elementwise):
    """Square root, correctly rounded; NaN below 0."""

    name = "sqrt"
    accepts = "f"
    domain = (0.0, math.inf)
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.sqrt(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] / (self * 2.0),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.unary("sqrt", *x)


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


class Maximum(Elementwise):
    """The larger of two; NaN if either is. A tie shares the cotangent evenly."""

    name = "maximum"
    accepts = "iuf"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.maximum(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        share, zero = Select(Equal(self.x, self.y), dy[0] * 0.5, dy[0]), zeros(self.type)
        return (
            Select(LessEqual(self.y, self.x), share, zero),
            Select(LessEqual(self.x, self.y), share, zero),
        )

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("max", *x)


class Comparison(Elementwise):
    """Operands of one type, a bool result; comparisons with NaN are false."""

    accepts = "biuf"
    nondifferentiable = "its result is bool"

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """As element-wise, with bool elements."""
        found = super().infer()
        assert isinstance(found, TensorType)
        return found.with_dtype(BOOL)


class Less(Comparison):
    """``x < y``."""

    name = "less"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.less(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("lt", *x)


class LessEqual(Comparison):
    """``x <= y``."""

    name = "less_equal"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.less_equal(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("le", *x)


class Equal(Comparison):
    """``x == y``; NaN equals nothing."""

    name = "equal"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.equal(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("eq", *x)


class And(Elementwise):
    """Both, of bools."""

    name = "and"
    public = "logical_and"
    accepts = "b"
    nondifferentiable = "it works on bool"
    x: Value
    y: Value

    def reference(self, *operands: Array) -> Any:
        return np.logical_and(*operands)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("and", *x)


class Not(Elementwise):
    """Negation of bools."""

    name = "not"
    public = "logical_not"
    accepts = "b"
    nondifferentiable = "it works on bool"
    x: Value

    def reference(self, *operands: Array) -> Any:
        return np.logical_not(*operands)

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
