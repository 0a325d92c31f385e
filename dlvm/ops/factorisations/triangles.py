"""Parts of matrices that derivatives and blocked forms of factorisations are made of.

Leading axes are batches.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm.ir import I64, Dim, TensorType, Value, splat, zeros
from dlvm.ops.arrays.contraction import transposed
from dlvm.ops.arrays.sections import Slice
from dlvm.ops.arrays.sums import Broadcast
from dlvm.ops.elements.logic import Equal, LessEqual, Select
from dlvm.ops.literals import Iota


def lower(x: Value, k: int = 0) -> Value:
    """Zeros right of the diagonal that lies ``k`` right of the main one."""
    right, bound = _right_of(x, k)
    return Select(_everywhere(LessEqual(right, bound), x), x, zeros(x.type))


def upper(x: Value, k: int = 0) -> Value:
    """Zeros left of the diagonal that lies ``k`` right of the main one."""
    right, bound = _right_of(x, k)
    return Select(_everywhere(LessEqual(bound, right), x), x, zeros(x.type))


def _right_of(x: Value, k: int) -> tuple[Value, Value]:
    """How far right of the main diagonal each place lies, and the number k."""
    shape = x.shape[-2:]
    row, column = (Broadcast(Iota(n, I64), shape, (i,)) for i, n in enumerate(shape))
    return column - row, splat(k, TensorType(I64, shape))


def _everywhere(mask: Value, x: Value) -> Value:
    rank = x.type.rank
    return mask if rank == 2 else Broadcast(mask, x.shape, (rank - 2, rank - 1))


def block(x: Value, rows: tuple[Dim, Dim], columns: tuple[Dim, Dim]) -> Value:
    """Some rows and columns: the first of them, and how many."""
    starts, sizes = zip(rows, columns, strict=True)
    batch = x.shape[:-2]
    if starts == (0, 0) and sizes == x.shape[-2:]:
        return x
    return Slice(x, (*(0,) * len(batch), *starts), (*batch, *sizes), (1,) * x.type.rank)


def spans(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Where each block of ``size`` rows starts, and its number of rows; the last may have fewer."""
    return ((start, min(size, count - start)) for start in range(0, count, size))


def half_diagonal(x: Value) -> Value:
    """``Phi(X)``: the lower triangle with half of the diagonal."""
    return (lower(x) + lower(x, -1)) * 0.5


def mirrored(x: Value) -> Value:
    """The symmetric matrix that has the lower triangle of ``X``."""
    return lower(x) + transposed(lower(x, -1))


def diagonal_of(x: Value) -> Value:
    """Square matrices with these numbers on the diagonal, and zeros beside them."""
    shape = (*x.shape, x.shape[-1])
    wide = Broadcast(x, shape, tuple(range(x.type.rank)))
    right, bound = _right_of(wide, 0)
    return Select(_everywhere(Equal(right, bound), wide), wide, zeros(wide.type))


def off_diagonal(x: Value) -> Value:
    """The matrix with zeros on the diagonal."""
    right, bound = _right_of(x, 0)
    return Select(_everywhere(Equal(right, bound), x), zeros(x.type), x)
