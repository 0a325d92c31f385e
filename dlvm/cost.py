"""What an operation costs: floating-point operations and bytes of memory, as sizes.

Counts follow from facts that stand elsewhere: the scalar formula of an element-wise operation,
the monoid of a reduction, the axes of a product. A word that gives a float counts one, moving
elements counts nothing; a ``while`` counts one trip, a branch its dearer side where that is
known and else both. This room knows no target: seconds are the business of gen/.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm.ir import BOOL, Dim, DType, Function, Op, TensorType
from dlvm.ir.dims import at_least, evaluate, symbols
from dlvm.ops import Cond, Matmul, Scan, While
from dlvm.ops.families import Elementwise, Reduction, Running

TYPICAL = 64
"""What an open size counts as."""
_COMPARISONS = ("lt", "le", "eq", "ne")


class Count:
    """Scalar words that only count; a scalar is its element type."""

    def __init__(self) -> None:
        self.flops = 0

    def constant(self, number: float, dtype: DType) -> DType:
        """A number costs nothing."""
        return dtype

    def dtype(self, x: DType) -> DType:
        """The type of a scalar."""
        return x

    def unary(self, word: str, x: DType) -> DType:
        """One, on floats."""
        self.flops += x.is_float
        return x

    def binary(self, word: str, x: DType, y: DType) -> DType:
        """One, where the result is a float."""
        if word in _COMPARISONS:
            return BOOL
        self.flops += x.is_float
        return x

    def select(self, condition: DType, x: DType, y: DType) -> DType:
        """A choice is no arithmetic."""
        return x

    def cast(self, x: DType, dtype: DType) -> DType:
        """Neither is a conversion."""
        return dtype

    def reinterpret(self, x: DType, dtype: DType) -> DType:
        """Nor looking at bits."""
        return dtype


def flops(op: Op) -> Dim:
    """Floating-point operations of one execution."""
    match op:
        case Elementwise():
            return _formula(op) * op.result_types[0].size
        case Reduction():
            return _monoid(op)
        case Running():
            return _steps(op)
        case Matmul(x):
            return op.type.size * x.shape[-1] * (2 if op.dtype.is_float else 0)
        case Scan():
            return body_flops(op.body) * op.length
        case While():
            return body_flops(op.condition) + body_flops(op.body)
        case Cond():
            return _dearer(body_flops(op.then), body_flops(op.otherwise))
        case _:
            return sum_of(body_flops(region) for region in op.regions.values())


def _formula(op: Elementwise) -> int:
    count = Count()
    op.scalar(count, *(x.dtype.compute for x in op.operands))
    return count.flops


def _monoid(op: Reduction) -> Dim:
    each, once = Count(), Count()
    state = op.states()
    lifted = op.lift(each, BOOL, *(x.dtype.compute for x in op.operands))
    op.combine(each, state, lifted)
    op.project(once, state)
    return op.operands[0].type.size * each.flops + op.result_types[0].size * once.flops


def _steps(op: Running) -> Dim:
    each = Count()
    state = op.step(each, BOOL, op.states(), *(x.dtype.compute for x in op.operands))
    op.project(each, state)
    return op.type.size * each.flops


def _dearer(a: Dim, b: Dim) -> Dim:
    if at_least(a, b):
        return a
    return b if at_least(b, a) else a + b


def body_flops(fn: Function) -> Dim:
    """Floating-point operations of one run of a body."""
    return sum_of(flops(op) for op in fn.ops)


def size_in_bytes(t: TensorType) -> Dim:
    """The memory that a value of a type takes."""
    return t.size * t.dtype.bytes


def sum_of(sizes: Iterable[Dim]) -> Dim:
    """The sum of several sizes."""
    total: Dim = 0
    for size in sizes:
        total = total + size
    return total


def typical(size: Dim) -> int:
    """A size, or what it is where every open one is 64: to choose by, never to compute with."""
    return evaluate(size, dict.fromkeys(symbols(size), TYPICAL))
