"""Arithmetic on each element: operands of one type, no broadcasting (that is an op of its own)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from dlvm.ir import Array, TensorType, Value, rewrite, splat, zeros
from dlvm.ir.numerics import FAST
from dlvm.ir.properties import Of, Properties
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise
from dlvm.ops.literals import is_splat, never_negative_zero, scalar_value
from dlvm.ops.patterns import are_transposes, outer_properties

from .logic import Equal, LessEqual, Or, Select
from .meanings import larger, smaller


class Add(Elementwise):
    """Sum ``x + y``; integers wrap around."""

    name = "add"
    of_python = True
    commutes = True
    x: Value
    y: Value

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        return holds(self.x) or holds(self.y)

    def properties(self, of: Of) -> Properties:
        """What both terms have, but for orthogonality; sums of semidefinite ones are so."""
        x, y = of(self.x), of(self.y)
        kept = x & y & {"symmetric", "psd", "lower", "upper", "diagonal"}
        signs = x & y & {"nonnegative"} if self.dtype.is_float else frozenset[str]()
        grown = {"symmetric"} if are_transposes(self.x, self.y) else frozenset[str]()
        return kept | signs | grown

    def reference(self, *operands: Array) -> Any:
        return np.add(*operands)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return dy[0], dy[0]

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.binary("add", *x)


def _added_to_nothing(op: Add, zero: float) -> Value | None:
    """The other operand of a sum where one is a given zero."""
    match op:
        case Add(x, other) if is_splat(other, zero):
            return x
        case Add(other, x) if is_splat(other, zero):
            return x
        case _:
            return None


@rewrite(
    Add,
    example=(
        lambda x: x + (-0.0),
        lambda x: Add(splat(-0.0, x.type), x),
        lambda x: x * x + 0.0,
    ),
)
def add_zero(op: Add) -> Value | None:
    """x + -0 = x, and x + 0 = x where x is never -0, exactly; either zero of integers is 0."""
    if (found := _added_to_nothing(op, -0.0)) is not None:
        return found
    found = _added_to_nothing(op, 0.0)
    return found if found is not None and never_negative_zero(found) else None


@rewrite(
    Add,
    example=(lambda x: x + 0.0, lambda x: Add(splat(0.0, x.type), x)),
    given=("f[M,N]",),
    law_class=FAST,
)
def add_positive_zero(op: Add) -> Value | None:
    """x + 0 = x for floats; where x is -0 the sum is 0."""
    return _added_to_nothing(op, 0.0)


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
    of_python = True
    public = "subtract"
    x: Value
    y: Value

    def properties(self, of: Of) -> Properties:
        """The symmetry and the zeros of both terms."""
        return of(self.x) & of(self.y) & {"symmetric", "lower", "upper", "diagonal"}

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


@rewrite(Sub, example=lambda x: Sub(splat(-0.0, x.type), x))
def subtract_from_zero(op: Sub) -> Value | None:
    """-0 - x = -x, exactly; of integers 0 - x is."""
    return Neg(op.y) if is_splat(op.x, -0.0) else None


@rewrite(Sub, example=lambda x: 0.0 - x, given=("f[M,N]",), law_class=FAST)
def subtract_from_positive_zero(op: Sub) -> Value | None:
    """0 - x = -x for floats; where x is 0 the difference is 0, and not -0."""
    return Neg(op.y) if is_splat(op.x, 0) else None


@rewrite(Sub, example=lambda x: x - x, given=("i[M,N]",))
def subtract_itself(op: Sub) -> Value | None:
    """x - x = 0 for integers, exactly."""
    return zeros(op.type) if op.x is op.y and not op.dtype.is_float else None


@rewrite(Sub, example=lambda x: x - x, given=("f[M,N]",), law_class=FAST)
def subtract_itself_of_floats(op: Sub) -> Value | None:
    """x - x = 0 for floats; where x is NaN or infinite the difference is NaN."""
    return zeros(op.type) if op.x is op.y else None


class Mul(Elementwise):
    """Product ``x * y``; integers wrap around."""

    name = "mul"
    of_python = True
    commutes = True
    public = "multiply"
    x: Value
    y: Value

    def never_negative_zero(self, holds: Callable[[Value], bool]) -> bool:
        return self.x is self.y

    def properties(self, of: Of) -> Properties:
        """Zeros of either factor, symmetry of both; semidefinite as both are (Schur)."""
        x, y = of(self.x), of(self.y)
        zeros_of = (x | y) & {"lower", "upper", "diagonal"}
        both = x & y & {"symmetric", "psd"}
        positive = x & y & {"nonnegative"} if self.dtype.is_float else frozenset[str]()
        if self.x is self.y and self.dtype.is_float:
            positive = frozenset(("nonnegative",))
        return zeros_of | both | positive | outer_properties(self.x, self.y)

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


def _zero_factor(op: Mul) -> Value | None:
    """Zero, where a factor is zero."""
    return zeros(op.type) if is_splat(op.x, 0) or is_splat(op.y, 0) else None


@rewrite(Mul, example=(lambda x: x * 0, lambda x: Mul(zeros(x.type), x)), given=("i[M,N]",))
def multiply_by_zero(op: Mul) -> Value | None:
    """x * 0 = 0 for integers, exactly."""
    return None if op.dtype.is_float else _zero_factor(op)


@rewrite(
    Mul,
    example=(lambda x: x * 0.0, lambda x: Mul(zeros(x.type), x)),
    given=("f[M,N]",),
    law_class=FAST,
)
def multiply_floats_by_zero(op: Mul) -> Value | None:
    """x * 0 = 0 for floats; where x is NaN or infinite it is NaN, where x is negative -0."""
    return _zero_factor(op)


class Div(Elementwise):
    """Quotient ``x / y`` of floats, IEEE at zero: 1/0 is inf, 0/0 is NaN."""

    name = "div"
    of_python = True
    public = "divide"
    accepts = "f"
    x: Value
    y: Value

    def properties(self, of: Of) -> Properties:
        """The symmetry of both, and signs where nothing is divided by -0, which gives -inf."""
        both = of(self.x) & of(self.y) & {"symmetric", "nonnegative"}
        return both if never_negative_zero(self.y) else both - {"nonnegative"}

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


def _divisor(op: Div) -> float | None:
    """The constant divisor of something that is not constant, where it has a reciprocal."""
    found = scalar_value(op.y)
    if found is None or scalar_value(op.x) is not None or float(found) in (0, 1):
        return None
    with np.errstate(over="ignore"):  # which is what is asked
        finite = np.isfinite(found) and np.isfinite(op.dtype.numpy.type(1 / float(found)))
    return float(found) if finite else None


@rewrite(Div, example=(lambda x: x / 4.0, lambda x: x / -0.5), given=("f[M,N]",))
def divide_by_power_of_two(op: Div) -> Value | None:
    """x / 2**k = x * 2**-k, exactly, where the type has the number 2**-k."""
    divisor = _divisor(op)
    if divisor is None or abs(math.frexp(divisor)[0]) != 0.5:
        return None
    return op.x * splat(1 / divisor, op.type) if op.dtype.numpy.type(1 / divisor) else None


@rewrite(Div, example=lambda x: x / 3.0, given=("f[M,N]",), law_class=FAST)
def divide_by_constant(op: Div) -> Value | None:
    """x / c = x * (1 / c), which rounds twice, and may vanish or overflow where x / c does not."""
    return None if _divisor(op) is None else op.x * (splat(1, op.type) / op.y)


class Neg(Elementwise):
    """``-x``: the sign bit of a float flips; integers wrap."""

    name = "neg"
    of_python = True
    public = "negative"
    x: Value

    def properties(self, of: Of) -> Properties:
        """Symmetry and zeros."""
        return of(self.x) & {"symmetric", "lower", "upper", "diagonal"}

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
    from_passes = True
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
    """The larger of two, where -0 < 0; NaN if either is. A tie shares the cotangent evenly."""

    name = "maximum"
    commutes = True
    word = "max"

    def reference(self, *operands: Array) -> Any:
        return larger(*operands)


class Minimum(Extremum):
    """The smaller of two, where -0 < 0; NaN if either is. A tie shares the cotangent evenly."""

    name = "minimum"
    commutes = True
    word = "min"

    def reference(self, *operands: Array) -> Any:
        return smaller(*operands)


class Modf(Elementwise):
    """The fractional and the integral part of ``x``, both with its sign; ``x = f + i``.

    An infinity has fraction 0 (with its sign) and itself as integral part.
    """

    name = "modf"
    accepts = "f"
    x: Value

    def infer(self) -> tuple[TensorType, TensorType]:
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
