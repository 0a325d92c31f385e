"""Jacobi rotations of all rows at once, in operations that all threads of a GPU share.

In each round every row has a partner, and after one round for each other row it has met all: the
schedule of a tournament, in which player i meets ``(r - i) mod (n - 1)`` in round r, and the last
player the one who would meet itself. An odd number of rows gets one of zeros, which no rotation
reaches. Angles, and when sweeps end, are those of ``rotations``, ``eigh`` and ``svd``. A block that
solves small problems one rotation after the other would need fewer rounds, and more time for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from dlvm.ir import BOOL, I64, TensorType, Value, splat, zeros
from dlvm.ops.arrays.extremes import Max
from dlvm.ops.arrays.indexing import Gather
from dlvm.ops.arrays.movement import Diagonal, Reshape
from dlvm.ops.arrays.ordering import Sort
from dlvm.ops.arrays.sums import Broadcast, Sum
from dlvm.ops.elements.division import Remainder
from dlvm.ops.elements.elementwise import Maximum
from dlvm.ops.elements.logic import And, Equal, Less, LessEqual, Not, Or, Select, Xor
from dlvm.ops.elements.magnitude import Abs, CopySign, IsFinite
from dlvm.ops.elements.transcendental import Sqrt
from dlvm.ops.flow.loops import counted, repeated
from dlvm.ops.literals import Iota

from .panels import along, everywhere, padded
from .rotations import SWEEPS
from .triangles import block, diagonal_of
from .tridiagonal import bound

BEHIND = 0.618
"""What a negative number on a diagonal counts beside a positive one. Sweeps over all rows at once
come to an end slowly where small eigenvalues stand before large ones (36 sweeps of 200 rows whose
eigenvalues are from 1 to 1e-10, and 15 in the other order), and where equal ones are not in groups:
23 sweeps of 200 rows for 1 and -1 if only magnitudes count, and 14 if these are told apart."""


@dataclass(frozen=True)
class Meeting:
    """The partner of each row, and whether it is the second of the two."""

    partner: Value
    first: Value

    @staticmethod
    def of(r: Value, n: int) -> Meeting:
        """Round r of an even number of rows."""
        row = Iota(n, I64)
        rest, last = splat(n - 1, row.type), everywhere(r, row.type)
        other = Remainder(last - row, rest)
        idle = Remainder(last * (n // 2), rest)
        other = Select(Equal(other, row), rest, other)
        partner = Select(Equal(row, rest), idle, other)
        return Meeting(partner, Less(row, partner))

    def of_rows(self, x: Value) -> Value:
        """The row of the partner, for each row."""
        return Gather(x, self.partner, x.type.rank - 2, 0, "clip")

    def of_columns(self, x: Value) -> Value:
        """The element of the partner, for each element of a row."""
        return Gather(x, self.partner, x.type.rank - 1, 0, "clip")

    def ordered(self, x: Value) -> tuple[Value, Value]:
        """The number of the first of both, and that of the second."""
        other = self.of_columns(x)
        first = Broadcast(self.first, x.shape, (x.type.rank - 1,))
        return Select(first, x, other), Select(first, other, x)


@dataclass(frozen=True)
class Turn:
    """A rotation for each row: what it keeps of itself, takes of its partner, and its diagonal."""

    keeps: Value
    takes: Value
    diagonal: Value

    @staticmethod
    def of(meeting: Meeting, a: Value, b: Value, c: Value) -> Turn:
        """The one that makes ``[[a, c], [c, b]]`` diagonal, as ``rotations.angle`` has it.

        Of the two rotations it is the one after which the larger ``_rank`` comes first.
        """
        one, zero = splat(1.0, a.type), zeros(a.type)
        none = Equal(c, zero)
        slope = (b * 0.5 - a * 0.5) / Select(none, one, c)
        tangent = CopySign(one, slope) / (Abs(slope) + Sqrt(slope * slope + 1.0))
        tangent = Select(none, zero, tangent)
        root = Sqrt(tangent * tangent + 1.0)
        sine = tangent / root
        cosine = one - sine * (tangent / (root + 1.0))
        low, high = a - tangent * c, b + tangent * c
        swapped = And(Not(none), Less(_rank(low), _rank(high)))
        first = Broadcast(meeting.first, a.shape, (a.type.rank - 1,))
        keeps, takes = Select(swapped, sine, cosine), Select(swapped, -cosine, sine)
        diagonal = Select(Xor(swapped, first), low, high)
        return Turn(keeps, Select(first, -takes, takes), diagonal)

    def rows(self, meeting: Meeting, x: Value) -> Value:
        """Each row, turned."""
        kept = tuple(range(x.type.rank - 1))
        keeps, takes = (Broadcast(v, x.shape, kept) for v in (self.keeps, self.takes))
        return keeps * x + takes * meeting.of_rows(x)

    def columns(self, meeting: Meeting, x: Value) -> Value:
        """Each column, turned."""
        rank = x.type.rank
        kept = (*range(rank - 2), rank - 1)
        keeps, takes = (Broadcast(v, x.shape, kept) for v in (self.keeps, self.takes))
        return keeps * x + takes * meeting.of_columns(x)


def _rank(x: Value) -> Value:
    """Large magnitudes first, and of equal ones the positive."""
    return Select(Less(x, zeros(x.type)), x * -BEHIND, x)


Round = Callable[[Meeting, Value, Value, Value], tuple[Turn, Value, Value]]
"""From partners, the matrix, which matrices are not done and what counts as nothing: the turns,
where one was needed, and the matrix after them."""


def eigenpairs(a: Value, accurate: bool) -> tuple[Value, Value, Value]:
    """Eigenvalues of symmetric matrices in no order, their vectors as rows, and where sweeps ended.

    Elements are finite.
    """
    n, batch = int(a.shape[-1]), tuple(range(a.type.rank - 2))
    x, scale = _scaled(a, 8)
    least = _largest(x) * _eps(a)
    turned = partial(_of_symmetric, accurate=accurate)
    x, rows, ended = _swept(padded(x, n + n % 2, n + n % 2), least, turned)
    values = Diagonal(block(x, (0, n), (0, n)))
    return values * Broadcast(scale, values.shape, batch), block(rows, (0, n), (0, n)), ended


def _of_symmetric(
    meeting: Meeting, x: Value, again: Value, least: Value, accurate: bool
) -> tuple[Turn, Value, Value]:
    """Rows and columns turn; ``accurate`` as in ``Eigh``."""
    rank, shape, n = x.type.rank, x.shape, int(x.shape[-1])
    batch, wide = tuple(range(rank - 2)), x.shape[:-1]
    a, b = meeting.ordered(Diagonal(x))
    row = Iota(n, I64)
    low = Select(meeting.first, row, meeting.partner)
    high = Select(meeting.first, meeting.partner, row)
    flat = Reshape(x, (*shape[:-2], n * n))
    c = Gather(flat, low * n + high, rank - 2, 0, "clip")
    limit = Broadcast(least, wide, batch)
    if accurate:
        small = splat(float(bound(x.dtype.numpy, 1)), a.type)
        limit = Maximum(Sqrt(Abs(a)) * Sqrt(Abs(b)) * _eps(x), small)
    needed = And(Broadcast(again, wide, batch), Less(limit, Abs(c)))
    turn = Turn.of(meeting, a, b, Select(needed, c, zeros(c.type)))
    new = turn.columns(meeting, turn.rows(meeting, x))
    i, j = along(x.type, rank - 2), along(x.type, rank - 1)
    partner = Broadcast(meeting.partner, shape, (rank - 2,))
    met = And(Equal(j, partner), Broadcast(needed, shape, (*batch, rank - 2)))
    new = Select(met, zeros(x.type), new)
    diagonal = Broadcast(turn.diagonal, shape, (*batch, rank - 2))
    return turn, needed, Select(Equal(i, j), diagonal, new)


def orthogonal_rows(a: Value) -> tuple[Value, Value, Value, Value]:
    """Rows turned until they are orthogonal, what turned them, by what they were divided before,
    and where sweeps ended. Elements are finite.
    """
    n, m = map(int, a.shape[-2:])
    x, scale = _scaled(a, 4)
    x, rows, ended = _swept(padded(x, n + n % 2, m), _largest(x), _of_rows)
    return block(x, (0, n), (0, m)), block(rows, (0, n), (0, n)), scale, ended


def _of_rows(meeting: Meeting, x: Value, again: Value, least: Value) -> tuple[Turn, Value, Value]:
    """Rows turn that are not orthogonal, as far as their lengths can tell."""
    last, (_, m), eps = x.type.rank - 1, x.shape[-2:], _eps(x)
    a, b = meeting.ordered(Sum(x * x, (last,)))
    c = Sum(x * meeting.of_rows(x), (last,))
    small = splat(float(bound(x.dtype.numpy, 1)), a.type)
    lengths = Sqrt(Maximum(a, small)) * Sqrt(Maximum(b, small))
    nothing = Maximum(small, Maximum(a, b) * float(bound(x.dtype.numpy, 2)))
    limit = Maximum(lengths * (math.sqrt(int(m)) * eps), nothing)
    needed = And(Broadcast(again, a.shape, tuple(range(last - 1))), Less(limit, Abs(c)))
    turn = Turn.of(meeting, a, b, Select(needed, c, zeros(c.type)))
    return turn, needed, turn.rows(meeting, x)


def _swept(x: Value, least: Value, turned: Round) -> tuple[Value, Value, Value]:
    """Sweeps until one needed no turn: the matrix, what took in the turns, and whether they ended.

    A matrix that is done turns no more, so that its bits do not depend on the others of a batch.
    """
    *batch, n, _ = map(int, x.shape)
    leading = tuple(range(len(batch)))
    rows = diagonal_of(splat(1.0, x.type.with_shape((*batch, n))))
    again = splat(True, TensorType(BOOL, tuple(batch)))

    def round_(*given: Value) -> tuple[Value, ...]:
        x, rows, found, r, again, least = given
        meeting = Meeting.of(r, n)
        turn, needed, x = turned(meeting, x, again, least)
        return x, turn.rows(meeting, rows), Or(found, needed)

    def sweep(*given: Value) -> tuple[Value, ...]:
        x, rows, again, count, least = given
        none = splat(False, TensorType(BOOL, (*batch, n)))
        every = Iota(n - 1, I64)
        x, rows, found = counted(round_, n - 1, (x, rows, none), (every,), (again, least))
        return x, rows, Max(found, (len(batch),)), count + 1

    def left(*given: Value) -> Value:
        _, _, again, count, _ = given
        return And(Max(again, leading) if batch else again, Less(count, splat(SWEEPS, count.type)))

    start = (x, rows, again, splat(0, TensorType(I64)))
    x, rows, again, _ = repeated(left, sweep, start, (least,))
    return x, rows, Not(again)


def _scaled(x: Value, root: int) -> tuple[Value, Value]:
    """Matrices divided by what ``tridiagonal.scale_of`` says, and that."""
    most = _largest(x)
    low = float(bound(x.dtype.numpy, root))
    one = splat(1.0, most.type)
    ordinary = And(LessEqual(one * low, most), LessEqual(most, one / low))
    scale = Select(Or(ordinary, Equal(most, zeros(most.type))), one, most)
    return x / Broadcast(scale, x.shape, tuple(range(x.type.rank - 2))), scale


def _largest(x: Value) -> Value:
    return _most(Abs(x))


def _most(x: Value) -> Value:
    """The maximum of each matrix: of rows first, which many blocks share."""
    return Max(Max(x, (x.type.rank - 1,)), (x.type.rank - 2,))


def _eps(x: Value) -> float:
    return float(np.finfo(x.dtype.numpy).eps)


def sorted_by(keys: Value, *rows: Value) -> tuple[Value, ...]:
    """Keys ascending, and the rows that belong to them."""
    keys, order = Sort(keys).results
    batch = order.type.rank - 1
    return keys, *(Gather(x, order, batch, batch, "clip") for x in rows)


def finite_or_zero(x: Value) -> tuple[Value, Value]:
    """Matrices of which those with an infinity or NaN are zero, and which are not."""
    rank = x.type.rank
    finite = Not(_most(Not(IsFinite(x))))
    wide = Broadcast(finite, x.shape, tuple(range(rank - 2)))
    return Select(wide, x, zeros(x.type)), finite


def where_solved(solved: Value, x: Value) -> Value:
    """A result for each matrix, or NaN."""
    wide = Broadcast(solved, x.shape, tuple(range(solved.type.rank)))
    return Select(wide, x, splat(math.nan, x.type))
