"""The QR factorisation over products, in operations that all threads of a GPU share.

A panel of columns is reflected column by column, and the columns behind it take in the reflections
of the panel by products: ``I - V T V'`` with the reflectors ``V`` (Schreiber and Van Loan 1989),
where ``inv(T)`` is the upper triangle of ``V' V`` with the inverses of the factors on its diagonal
(Puglisi 1992). The host counts panels and columns, so a program has one body for all of them. A
trip changes the whole matrix, of which it leaves most as it is: that takes up to three times as
many products as are needed, and no kernel for each size that is left.
"""

from __future__ import annotations

from functools import partial

from dlvm.ir import I64, TensorType, Value, splat, zeros
from dlvm.ops.arrays.contraction import Matmul, transposed
from dlvm.ops.arrays.extremes import Max
from dlvm.ops.arrays.indexing import Gather
from dlvm.ops.arrays.movement import Permute, Reshape
from dlvm.ops.arrays.sections import Pad
from dlvm.ops.arrays.sums import Broadcast, Sum
from dlvm.ops.elements.logic import And, Equal, Less, LessEqual, Select
from dlvm.ops.elements.magnitude import Abs, CopySign
from dlvm.ops.elements.transcendental import Sqrt
from dlvm.ops.flow.loops import counted
from dlvm.ops.literals import Iota

from .triangles import block, diagonal_of, upper
from .triangular import TriangularSolve

PANEL = 32
"""Columns of a panel, at most."""


def qr_by_panels(a: Value, width: int) -> tuple[Value, Value]:
    """``Q`` and ``R`` of matrices of known sizes, with the signs of ``QR``."""
    m, n = map(int, a.shape[-2:])
    size = min(m, n)
    width = min(width, size)
    count = -(-size // width)
    x = padded(a, max(m, count * width), -(-n // width) * width)
    steps = Iota(count, I64)
    x, v, t = counted(partial(_panel, width=width, rows=m), count, (x,), (steps,))
    r = upper(block(x, (0, size), (0, n)))
    one = splat(1.0, x.type.with_shape((*x.shape[:-2], count * width)))
    square = padded(diagonal_of(one), int(x.shape[-2]), count * width)
    (q,) = counted(_taken_back, count, (square,), (v, t), reverse=True)
    return block(q, (0, m), (0, size)), r


def _panel(x: Value, p: Value, width: int, rows: int) -> tuple[Value, ...]:
    """The matrix after panel ``p``, whose columns hold its reflectors; these, and ``T``."""
    rank, (*batch, m, n) = x.type.rank, x.shape
    parts = (*batch, m, int(n) // width, width)
    panel = Gather(Reshape(x, parts), p, rank - 1, 0, "clip")
    start = p * width
    every = Iota(width, I64)
    step = partial(_column, rows=rows)
    panel, scales = counted(step, width, (panel,), (every,), (start,))
    factors = Permute(scales, (*range(1, rank - 1), 0))
    v, t = _reflectors(panel, factors, start)
    taken = Matmul(v, Matmul(transposed(t), Matmul(transposed(v), x)))
    row, column = along(x.type, rank - 2), along(x.type, rank - 1)
    first = everywhere(start, row.type)
    behind = And(LessEqual(first, row), LessEqual(first + width, column))
    wide, whole = Broadcast(panel, parts, (*range(rank - 1), rank)), Reshape(x, parts)
    here = Equal(along(whole.type, rank - 1), everywhere(p, whole.type))
    rest = Reshape(Select(here, wide, whole), x.shape)
    return Select(behind, x - taken, rest), v, t


def _column(panel: Value, j: Value, start: Value, rows: int) -> tuple[Value, Value]:
    """The reflection by column ``j`` of the panel, as ``QR`` has it, and its factor."""
    rank, at = panel.type.rank, start + j
    kept = tuple(range(rank - 2))
    column = Gather(panel, j, rank - 1, 0, "clip")
    row = along(column.type, rank - 2)
    here, end_of_rows = everywhere(at, row.type), splat(rows, row.type)
    below, nothing = And(Less(here, row), Less(row, end_of_rows)), zeros(column.type)
    first = Gather(column, at, rank - 2, 0, "clip")
    largest = Max(Abs(Select(LessEqual(here, row), column, nothing)), (rank - 2,))
    zero, one = zeros(first.type), splat(1.0, first.type)
    largest = Select(Equal(largest, zero), one, largest)
    whole = Broadcast(largest, column.shape, kept)
    parts = Select(below, column / whole, nothing)
    square, part = Sum(parts * parts, (rank - 2,)), first / largest
    none = Equal(square, zero)
    end = -CopySign(Sqrt(part * part + square), part)
    scale = Select(none, zero, (end - part) / end)
    idle, apart, diagonal = (
        Broadcast(x, column.shape, kept)
        for x in (none, part - end, Select(none, first, largest * end))
    )
    v = Select(idle, nothing, parts / apart)
    v = Select(Equal(here, row), splat(1.0, v.type), v)
    new = Select(Equal(here, row), diagonal, v)
    return _reflected(panel, v, scale, new, (at, j)), scale


def _reflected(panel: Value, v: Value, scale: Value, new: Value, at: tuple[Value, Value]) -> Value:
    """``X - t v (v' X)`` of the columns behind one, which becomes ``new`` from the diagonal on."""
    batch, rows, columns = _axes(panel.type)
    row, column = along(panel.type, rows), along(panel.type, columns)
    first, here = (everywhere(x, row.type) for x in at)
    below = LessEqual(first, row)
    wide = Broadcast(v, panel.shape, (*batch, rows))
    total = Sum(Select(below, wide * panel, zeros(panel.type)), (rows,))
    total = total * Broadcast(scale, total.shape, batch)
    taken = panel - wide * Broadcast(total, panel.shape, (*batch, columns))
    changed = Select(Equal(column, here), Broadcast(new, panel.shape, (*batch, rows)), taken)
    return Select(And(below, LessEqual(here, column)), changed, panel)


def _reflectors(panel: Value, scales: Value, start: Value) -> tuple[Value, Value]:
    """``V`` and ``T`` of a panel; where there is no reflection the reflector is zero."""
    batch, rows, columns = _axes(panel.type)
    row, column = along(panel.type, rows), along(panel.type, columns)
    first = everywhere(start, row.type) + column
    v = Select(Equal(first, row), splat(1.0, panel.type), panel)
    none = Equal(scales, zeros(scales.type))
    idle = Broadcast(none, panel.shape, (*batch, columns))
    v = Select(idle, zeros(v.type), Select(LessEqual(first, row), v, zeros(v.type)))
    one = splat(1.0, scales.type)
    inverse = upper(Matmul(transposed(v), v), 1) + diagonal_of(one / Select(none, one, scales))
    return v, TriangularSolve(inverse, diagonal_of(one), False)


def _axes(t: TensorType) -> tuple[tuple[int, ...], int, int]:
    return tuple(range(t.rank - 2)), t.rank - 2, t.rank - 1


def along(t: TensorType, axis: int) -> Value:
    """The place of each element along an axis."""
    return Broadcast(Iota(t.shape[axis], I64), t.shape, (axis,))


def everywhere(x: Value, t: TensorType) -> Value:
    """A number for each element."""
    return Broadcast(x, t.shape, ())


def _taken_back(q: Value, v: Value, t: Value) -> tuple[Value]:
    """The reflections of a panel, of all that later ones made of the identity."""
    return (q - Matmul(v, Matmul(t, Matmul(transposed(v), q))),)


def padded(x: Value, rows: int, columns: int) -> Value:
    """Zeros below and on the right, up to some rows and columns."""
    m, n = map(int, x.shape[-2:])
    if (m, n) == (rows, columns):
        return x
    none = (0,) * (x.type.rank - 2)
    return Pad(x, (*none, 0, 0), (*none, rows - m, columns - n))
