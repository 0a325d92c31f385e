"""The interpreter of the loop level: what every schedule and target is checked against.

Turns of ``vector``, ``block`` and ``lane`` loops run side by side, as axes of NumPy arrays, one
statement after the other for all of them, so a barrier has nothing to do. An access outside of
its memory is an error here, whatever was proven.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from dlvm import ops
from dlvm.base.errors import CompilerError
from dlvm.ir import Array, Dim, DType, Expr, Param, TensorType
from dlvm.ir.scalar import FUNCTIONS
from dlvm.ir.sizes.dims import FUNCTIONS as OF_INDICES
from dlvm.ops import Cast
from dlvm.ops.elements.meanings import larger, meaning, smaller

from .statements import (
    Barrier,
    Bind,
    Body,
    Check,
    Define,
    Fill,
    Inside,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Memory,
    Multiply,
    Number,
    Operand,
    Product,
    Scalar,
    Search,
    Size,
    Sort,
    Statement,
    Store,
    Table,
    Where,
    Word,
    statements,
)
from .work import flops_of, flops_of_product


@dataclass(slots=True)
class Counts:
    """What a run has done."""

    flops: int = 0


def run_kernel(
    kernel: LoopKernel,
    arrays: Sequence[Array],
    symbols: Mapping[str, int],
    status: Array,
    counts: Counts,
) -> None:
    """Run a kernel on C-contiguous arrays, one for each buffer; it writes those that are out."""
    if any(isinstance(s, Multiply) for s in statements(kernel.body)):
        raise CompilerError(f"@{kernel.name}: only a GPU, or its emulator, has warps")
    with np.errstate(all="ignore"):
        _Run(kernel, arrays, dict(symbols), status, counts).body(kernel.body)


PIECE = 24
"""Rows and columns of the pieces that fill an operand."""


class _Run:
    def __init__(
        self,
        kernel: LoopKernel,
        arrays: Sequence[Array],
        index: dict[str, Any],
        status: Array,
        counts: Counts,
    ) -> None:
        self.index, self.status, self.counts = index, status, counts
        self.memory: dict[str, tuple[Array, Array]] = {}
        for buffer, array in zip(kernel.buffers, arrays, strict=True):
            if array.dtype != buffer.dtype.numpy or not array.flags.c_contiguous:
                raise CompilerError(f"%{buffer.name}: expected a dense {buffer.type}")
            self.memory[buffer.name] = array.reshape(-1), np.zeros((), np.int64)
        self.scalars: dict[Scalar, Array] = {}
        self.lanes: tuple[int, ...] = ()
        self.turning: Array = np.ones((), bool)
        """The lanes whose loops have not ended, where numbers of turns come from data."""

    def body(self, body: Body) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, s: Statement) -> None:
        match s:
            case Let(scalar, counted):
                self.scalars[scalar] = np.asarray(self.scalar(scalar), scalar.dtype.numpy)
                if counted:
                    self.counts.flops += flops_of(scalar) * int(np.prod(self.lanes, dtype=int))
            case Define(name, dim):
                self.index[name] = self.dim(dim)
            case Bind(name, scalar, _):
                self.index[name] = self.scalars[scalar]
            case Store():
                self.store(s)
            case Loop():
                self.loop(s)
            case Local():
                self.memory[s.name] = self.blank(s)
            case Product():
                self.product(s)
            case Sort():
                self.sort(s)
            case Check():
                self.check(s)
            case Barrier() | Fill() | Multiply():
                return

    # -- loops -----------------------------------------------------------------------------

    def loop(self, s: Loop) -> None:
        if s.kind == "serial":
            self.serial(s)
            return
        if s.kind == "parallel":
            self.parallel(s, int(self.dim(s.extent)))
            return
        each = np.asarray(self.dim(s.extent))  # lanes of a last block may be fewer
        extent = int(each.max(initial=0))
        if extent <= 0:
            return
        before, turning = self.lanes, self.turning
        self.lanes = (extent, *before)
        self.index[s.var] = np.arange(extent).reshape(extent, *(1 for _ in before))
        if each.ndim:
            self.turning = turning & (self.index[s.var] < each)
        self.body(s.body)
        self.lanes, self.turning = before, turning

    def serial(self, s: Loop) -> None:
        """As many turns as any lane has; the lanes that are through do nothing."""
        extent, before = np.asarray(self.dim(s.extent)), self.turning
        for i in range(int(extent.max(initial=0))):
            self.index[s.var] = i
            self.turning = before & (extent > i)
            self.body(s.body)
        self.turning = before

    def parallel(self, s: Loop, extent: int) -> None:
        """In an order that nobody may rely on; the first turn that fails is the one that counts."""
        outer, first = self.status, np.zeros_like(self.status)
        for i in reversed(range(extent)):
            self.status = np.zeros_like(outer)
            self.index[s.var] = i
            self.body(s.body)
            first = self.status if self.status[0] else first
        self.status = outer
        if first[0] and not outer[0]:
            outer[:] = first

    def product(self, s: Product) -> None:
        m, n, k = int(self.dim(s.m)), int(self.dim(s.n)), int(self.dim(s.k))
        x, y = _operand(self, s, s.x, m, k), _operand(self, s, s.y, k, n)
        total = in_chunks(x, y, s.tile.dtype.numpy, s.chunk)
        self.counts.flops += int(self.dim(flops_of_product(s)))
        height = s.tile.size // s.width
        for row in range(0, m, height):
            for col in range(0, n, s.width):
                self.tile(s, row, col, total[row : row + height, col : col + s.width])

    def matrix(self, x: Operand, rows: int, cols: int) -> Array:
        """The matrix in the type of the sum."""
        row, col = np.ogrid[:rows, :cols]
        start, step = int(self.dim(x.offset)), int(self.dim(x.step))
        far, near = (col, row) if x.transposed else (row, col)
        flat, place = self.memory[x.buffer.name][0], start + far * step + near
        if place.size and not (place.min() >= 0 and place.max() < flat.size):
            raise CompilerError(f"a matrix goes outside of the {flat.size} of %{x.buffer.name}")
        return flat[place].astype(x.buffer.dtype.compute.numpy)

    def tile(self, s: Product, row: int, col: int, part: Array) -> None:
        memory, lanes = self.blank(s.tile)
        memory.reshape(-1, s.width)[: part.shape[0], : part.shape[1]] = part
        self.memory[s.tile.name] = memory, lanes
        self.index.update(zip(s.spot, (row, col, *part.shape), strict=True))
        self.body(s.finish)

    # -- order -----------------------------------------------------------------------------

    def rows(self, s: Sort | Search) -> Iterator[tuple[tuple[int, ...], slice]]:
        """Each lane in which it takes place, and the elements that it is about."""
        count, active = int(self.dim(s.count)), self.inside(s.where)
        starts = np.broadcast_to(np.asarray(self.dim(s.offset)), self.lanes)
        for lane in np.ndindex(*self.lanes):
            if active[lane]:
                yield lane, slice(int(starts[lane]), int(starts[lane]) + count)

    def sort(self, s: Sort) -> None:
        """By the meaning of the operation; what is spare is spoilt."""
        flat = {b: self.memory[b.name][0] for b in s.touched}
        for _, row in self.rows(s):
            values = flat[s.values][row]
            if row.start < 0 or row.stop > flat[s.values].size:
                raise CompilerError(f"%{s.values.name}[{s.offset}] goes outside of its elements")
            x = Param(TensorType(s.values.dtype, values.shape))
            in_order, order = ops.Sort(x, s.descending).reference(values)
            values[...] = in_order
            if s.order is not None:
                flat[s.order][row] = flat[s.order][row][order]
            for b in s.spare:
                flat[b][row] = np.zeros((), flat[b].dtype)

    def search(self, s: Search) -> Array:
        """By the meaning of the operation."""
        flat = (
            s.memory.array.reshape(-1)
            if isinstance(s.memory, Table)
            else self.memory[s.memory.name][0]
        )
        out, keys = np.zeros(self.lanes, np.int64), np.broadcast_to(self.scalars[s.key], self.lanes)
        for lane, place in self.rows(s):
            a, v = flat[place], np.asarray(keys[lane])
            row, one = (Param(TensorType(s.memory.dtype, x.shape)) for x in (a, v))
            out[lane] = ops.SearchSorted(row, one, s.right).reference(a, v)
        return out

    # -- indices ---------------------------------------------------------------------------

    def dim(self, d: Dim) -> Any:
        if not isinstance(d, Expr):
            return d
        total: Any = 0
        for mono, k in d.terms:
            term: Any = k
            for atom, power in mono:
                value = self.index[atom] if isinstance(atom, str) else self.call(atom)
                for _ in range(power):
                    term = term * value
            total = total + term
        return total

    def call(self, call: Any) -> Any:
        a, b = self.dim(call.lhs), self.dim(call.rhs)
        if isinstance(a, int) and isinstance(b, int):
            return OF_INDICES[call.function](a, b) if b or call.function in ("min", "max") else 0
        named = {"floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum}
        return named[call.function](a, b)

    def inside(self, where: Where) -> Array:
        out = np.ones(self.lanes, bool) & self.turning
        for d in where:
            out = out & (np.asarray(self.dim(d)) >= 0)
        return out

    # -- memory ----------------------------------------------------------------------------

    def blank(self, local: Local) -> tuple[Array, Array]:
        """An array for each turn of the loops that are open, of nothing that has a meaning."""
        count = int(np.prod(self.lanes, dtype=int))
        junk = np.full(local.size * count, 77).astype(local.dtype.numpy)
        if local.dtype.is_float:
            junk = np.full_like(junk, np.nan)
        return junk, np.arange(count).reshape(self.lanes)

    def places(self, memory: Memory, offset: Dim, where: Where) -> tuple[Array, Array, Array]:
        """The flat array, and for each lane its place there and whether it is active."""
        if isinstance(memory, Table):
            array, own = memory.array.reshape(-1), np.zeros((), np.int64)
        else:
            array, own = self.memory[memory.name]
        active = self.inside(where)
        spot = np.broadcast_to(np.asarray(self.dim(offset)), self.lanes)
        size = array.size // max(own.size, 1) if own.shape else array.size
        if bool(np.any(active & ((spot < 0) | (spot >= size)))):
            raise CompilerError(f"%{memory.name}[{offset}] goes outside of {size} elements")
        return array, np.where(active, spot * max(own.size, 1) + own, 0), active

    def load(self, s: Load) -> Array:
        array, place, active = self.places(s.memory, s.offset, s.where)
        if array.size == 0:
            return np.zeros(self.lanes, array.dtype)
        found = array[place]
        return np.where(active, found, np.zeros((), array.dtype))

    def store(self, s: Store) -> None:
        array, place, active = self.places(s.memory, s.offset, s.where)
        value = np.broadcast_to(self.scalars[s.scalar], self.lanes)
        array[place[active]] = value[active]

    def check(self, s: Check) -> None:
        bad = self.inside(s.where) & ~self.scalars[s.ok]
        if bad.any() and self.status[0] == 0:
            index = np.broadcast_to(self.scalars[s.index], self.lanes)[bad].reshape(-1)[0]
            self.status[:3] = s.code, index, self.dim(s.size)

    # -- scalars ---------------------------------------------------------------------------

    def scalar(self, s: Scalar) -> Any:
        match s:
            case Number(dtype, value):
                return np.asarray(value).astype(dtype.numpy)
            case Size(dim):
                return self.dim(dim)
            case Inside(where):
                return self.inside(where)
            case Load():
                return self.load(s)
            case Search():
                return self.search(s)
            case Word(word="fma", operands=xs):
                return fma(*(self.scalars[x] for x in xs))
            case Word(word="cast", operands=(x,)):
                return _cast(x.dtype, s.dtype).reference(self.scalars[x])
            case Word(word="reinterpret", operands=(x,)):
                return np.asarray(self.scalars[x]).view(s.dtype.numpy)
            case Word(word=word, operands=xs):
                return WORDS[word](*(self.scalars[x] for x in xs))
            case _:
                raise CompilerError(f"no meaning for {s!r}")


def _operand(run: _Run, s: Product, x: Operand, rows: int, cols: int) -> Array:
    """A matrix of a product, from memory or computed."""
    fill = s.fill(x)
    if fill is None:
        return run.matrix(x, rows, cols)
    found = _filled(run, fill, *((cols, rows) if x.transposed else (rows, cols)))
    return found.T if x.transposed else found


def _filled(run: _Run, s: Fill, far: int, near: int) -> Array:
    """All of a matrix, in several pieces."""
    whole = np.zeros((far, near), s.piece.dtype.numpy)
    units, some = near // s.unit, max(1, PIECE // s.unit)
    for row in range(0, far, PIECE):
        for unit in range(0, units, some):
            rows, here = min(PIECE, far - row), min(some, units - unit)
            memory, _ = run.blank(replace(s.piece, size=rows * here * s.unit))
            run.memory[s.piece.name] = memory, np.zeros((), np.int64)
            spot = row, unit, rows, here, here * s.unit
            run.index.update(zip(s.spot, spot, strict=True))
            run.body(s.body)
            part = whole[row : row + rows, unit * s.unit : (unit + here) * s.unit]
            part[...] = memory.reshape(part.shape)
    return whole


@cache
def _cast(source: DType, to: DType) -> Cast:
    return Cast(Param(TensorType(source)), to)


def _floordiv(x: Array, y: Array) -> Array:
    whole = np.floor_divide(x, np.where(y == 0, 1, y).astype(y.dtype))
    return np.where(y == 0, np.zeros_like(x), whole)


WORDS: dict[str, Any] = {
    "neg": np.negative,
    "abs": np.abs,
    "not": np.invert,
    "sqrt": np.sqrt,
    "trunc": np.trunc,
    "floor": np.floor,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": _floordiv,
    "copysign": np.copysign,
    "max": larger,
    "min": smaller,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "fmod": np.fmod,
    "ceil": np.ceil,
    "round": np.rint,
    "select": np.where,
    "pow": np.power,
    **{word: meaning(word) for word in FUNCTIONS},
}


def in_chunks(x: Array, y: Array, dtype: np.dtype[Any], chunk: int) -> Array:
    """``x @ y``: a chain over each chunk of k, whose sums are added from first to last."""
    total = zero = np.zeros((x.shape[0], y.shape[1]), dtype)
    for start in range(0, x.shape[1], chunk):
        part = zero
        for i in range(start, min(start + chunk, x.shape[1])):
            part = multiply_add(x[:, i : i + 1], y[i : i + 1], part)
        total = total + part if start else part
    return total


def multiply_add(x: Array, y: Array, z: Array) -> Array:
    """``x * y + z`` as a product takes it."""
    return fma(x, y, z) if z.dtype.kind == "f" else x * y + z


def fma(x: Array, y: Array, z: Array) -> Array:
    """``x * y + z`` with one rounding; in f64 it may miss a tie.

    The product of two f32 is exact in f64; their sum is rounded to odd there, so that rounding
    it to f32 is right (Boldo and Melquiond 2008). In f64 errors are carried along (Dekker 1971).
    """
    if x.dtype == np.float32:
        product = x.astype(np.float64) * y.astype(np.float64)
        total, error = _two_sum(product, np.asarray(z, np.float64))
        even = (np.asarray(total).view(np.int64) & 1) == 0
        towards = np.where(error > 0, np.inf, -np.inf)
        odd = np.where((error != 0) & even, np.nextafter(total, towards), total)
        return odd.astype(np.float32)
    product = x * y
    (a, b), (c, d) = _halves(x), _halves(y)
    low = ((a * c - product) + a * d + b * c) + b * d
    total, error = _two_sum(product, np.asarray(z))
    return np.where(np.isfinite(product) & np.isfinite(low), total + (error + low), product + z)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _halves(x: Array) -> tuple[Array, Array]:
    big = x * 134217729.0
    high = big - (big - x)
    return high, x - high
