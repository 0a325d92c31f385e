"""The cost of an operation: operations on floats, bytes of memory, and about how long it takes.

The counts follow from facts that are stated elsewhere: the scalar formula of an element-wise
operation, the monoid of a reduction, the axes of a product. A scalar function with a float result
counts as one operation, and moving elements as none. A ``while`` counts as one trip; a branch
counts as its more expensive side, or as the sum of both if their order is unknown. This file knows
no target. Its times are those of a usual core, for choices between programs; how long a kernel
takes on the processor at hand is said in ``gen.schedule.cost``, by the same weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from dlvm.ir import BOOL, Dim, DType, Function, Op, TensorType
from dlvm.ir.scalar import FUNCTIONS
from dlvm.ir.sizes.dims import at_least, evaluate, symbols
from dlvm.ops import Factorisation, IndexMap, ScatterAdd, Slice, Structured
from dlvm.ops.families import Contraction, Creation, Elementwise, Reduction, Running

TYPICAL = 64
"""The value that a symbolic size counts as."""
WEIGHTS = {
    **dict.fromkeys(FUNCTIONS, 16),
    **dict.fromkeys(("log", "tanh", "cbrt", "asin", "acos", "atan"), 20),
    **dict.fromkeys(("log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh"), 25),
    **{"erf": 30, "erfc": 45, "erfinv": 40, "pow": 60, "lgamma": 240, "digamma": 170},
    **{"div": 4, "sqrt": 6, "floordiv": 30},
}
"""What scalar functions cost that take longer than one instruction, in instructions.

Measured of 4096 numbers of f32 in a cache, on an AMD Zen 3, in the time of an exponential's 16.
"""
PICOSECONDS = 1000
"""In a nanosecond; times are whole numbers, so that those of open sizes are expressions."""
STEP = 15
"""Picoseconds that a usual core takes for an operation, or for a byte that it moves."""
LAUNCH = 200_000
"""Picoseconds to start a product, to look at its sizes and to leave it, as far as it takes long.

Of 16 products of 4x4x4 in f64 each took 130 ns more than one of a batched product; of four products
of 1x64 and 64x64 in a scan each took 350 ns more than a quarter of a wide one (f32, one run).
"""
ACCESS = 2
"""Instructions in whose time an element is read or written, where it is not near."""
VECTORS = (16, 32, 64)
"""Bytes of the vectors of usual processors."""
THREAD = 2_000_000
"""Picoseconds of work that are worth a thread."""
WORTH = 20
"""A change is made, or told, where it saves more than one part in so many of the time.

So no rounding of costs decides.
"""
_COMPARISONS = ("lt", "le", "eq", "ne")


class Count:
    """An implementation of the scalar functions that only counts; a scalar is its element type."""

    def __init__(self) -> None:
        self.flops = self.instructions = 0

    def constant(self, number: float, dtype: DType) -> DType:
        """A constant costs nothing."""
        return dtype

    def dtype(self, x: DType) -> DType:
        """The type of the scalar."""
        return x

    def unary(self, word: str, x: DType) -> DType:
        """Counts one operation on a float."""
        self.instructions += WEIGHTS.get(word, 1)
        self.flops += x.is_float
        return x

    def binary(self, word: str, x: DType, y: DType) -> DType:
        """Counts one operation if the result is a float."""
        self.instructions += WEIGHTS.get(word, 1)
        if word in _COMPARISONS:
            return BOOL
        self.flops += x.is_float
        return x

    def select(self, condition: DType, x: DType, y: DType) -> DType:
        """A selection costs nothing."""
        return x

    def cast(self, x: DType, dtype: DType) -> DType:
        """A conversion costs nothing."""
        return dtype

    def reinterpret(self, x: DType, dtype: DType) -> DType:
        """A reinterpretation of bits costs nothing."""
        return dtype


def flops(op: Op) -> Dim:
    """The floating-point operations of one execution."""
    match op:
        case Elementwise():
            return _formula(op) * op.result_types[0].size
        case Reduction():
            return _monoid(op)
        case Running():
            return _steps(op)
        case Contraction():
            return op.type.size * op.operands[0].shape[-1] * (2 if op.dtype.is_float else 0)
        case ScatterAdd():
            return op.operands[-1].type.size * op.dtype.is_float
        case Factorisation():
            return op.flops()
        case Structured():
            body = reduce(_dearer, map(body_flops, op.giving)) * op.trips
            return body if op.test is None else body_flops(op.test) + body
        case _:
            return sum_of(body_flops(region) for region in op.regions.values())


def _formula(op: Elementwise) -> int:
    return _counted(op).flops


def instructions(op: Elementwise) -> int:
    """About how many instructions an element takes."""
    return _counted(op).instructions


def _counted(op: Elementwise) -> Count:
    count = Count()
    op.scalar(count, *(x.dtype.compute for x in op.operands))
    return count


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
    """The floating-point operations of one run of a body."""
    return sum_of(flops(op) for op in fn.ops)


def time(op: Op) -> Dim:
    """About how long one execution takes: picoseconds to compute, and to write what it gives."""
    return STEP * sum_of((flops(op), *(size_in_bytes(t) for t in op.result_types)))


@dataclass(frozen=True, slots=True)
class Work:
    """What is computed and what is moved, as numbers: 64 stands for every open size."""

    flops: int = 0
    bytes: int = 0

    @property
    def time(self) -> int:
        """About how long that takes, in picoseconds."""
        return STEP * (self.flops + self.bytes)

    def __sub__(self, other: Work) -> Work:
        return Work(self.flops - other.flops, self.bytes - other.bytes)

    def __str__(self) -> str:
        return f"{self.flops:,} flops and {self.bytes:,} bytes"

    @staticmethod
    def sum(of: Iterable[Work]) -> Work:
        """All of them together."""
        found = tuple(of)
        return Work(sum(w.flops for w in found), sum(w.bytes for w in found))


def work(op: Op) -> Work:
    """What one execution computes, writes, and reads where it does not read through.

    Kernels read through repetitions, permutations and reshapes, which cost nothing; but all of what
    a slice is a part of is written. Products and
    reductions read their operands; element-wise operations are taken to find them near.
    """
    if isinstance(op, Creation) or (
        isinstance(op, IndexMap) and op.everywhere and not isinstance(op, Slice)
    ):
        return Work()
    moved = [size_in_bytes(t) for t in op.result_types]
    if isinstance(op, Contraction | Reduction):
        moved += [size_in_bytes(v.type) for v in op.operands]
    return Work(typical(flops(op)), sum(map(typical, moved)))


def product_work(dtype: DType, count: int, rows: int, inner: int, columns: int) -> Work:
    """The work of so many matrix products of this size, as ``work`` counts it."""
    moved = rows * inner + inner * columns + rows * columns
    flops = 2 * rows * inner * columns if dtype.is_float else 0
    return Work(count * flops, count * dtype.bytes * moved)


def lanes_per_step(dtype: DType, rows: int, columns: int) -> int:
    """Lanes that a step along the sum of a product takes, those that are idle too.

    Vectors lie along columns. The lanes of all usual processors are added.
    """
    lanes = (max(1, size // max(4, dtype.compute.bytes)) for size in VECTORS)
    return rows * sum(columns + -columns % n for n in lanes)


def body_time(fn: Function) -> Dim:
    """The same of one run of a body, with what is inside its operations."""
    written = (size_in_bytes(r.type) for op in fn.walk() for r in op.results)
    return STEP * (body_flops(fn) + sum_of(written))


def size_in_bytes(t: TensorType) -> Dim:
    """The memory of a value of this type, in bytes."""
    return t.size * t.dtype.bytes


def sum_of(sizes: Iterable[Dim]) -> Dim:
    """The sum of the sizes."""
    total: Dim = 0
    for size in sizes:
        total = total + size
    return total


def typical(size: Dim) -> int:
    """The size with 64 for every symbol: for choices between versions, never for results."""
    return evaluate(size, dict.fromkeys(symbols(size), TYPICAL))


def exchange(kind: str, size: int, count: int, latency: float, bandwidth: float) -> float:
    """The seconds in which so many ranks exchange arrays of ``size`` bytes each, by rings.

    To ``gather`` each rank sends its array to all others, to ``scatter`` a sum a part to each, to
    ``reduce`` both; what is cut locally takes none.
    """
    if count == 1 or kind == "cut":
        return 0.0
    rounds, share = {
        "permute": (1, 1.0),
        "all_to_all": (count - 1, (count - 1) / count),
        "gather": (count - 1, float(count - 1)),
        "reduce": (2 * (count - 1), 2 * (count - 1) / count),
        "scatter": (count - 1, (count - 1) / count),
    }[kind]
    return rounds * latency + share * size / bandwidth
