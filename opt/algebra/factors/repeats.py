"""Products with matrices whose rows, or columns, are all one: what repeats is multiplied once."""

from __future__ import annotations

from dlvm.ir import Value, rearrangement, splat
from dlvm.ops import Broadcast, Matmul, Mul, Permute, Reshape, Sum, transposed
from dlvm.ops.patterns import is_transpose


@rearrangement(
    Matmul,
    example=(
        lambda u, v, a: Matmul(Broadcast(u, a.shape, (1,)), a),
        lambda u, v, a: Matmul(Broadcast(u, a.shape, (0,)), a),
        lambda u, v, a: Matmul(splat(2, a.type), a),
        lambda u, v, a: Matmul(a, Broadcast(u, a.shape, (0,))),
        lambda u, v, a: Matmul(a, Broadcast(u, a.shape, (1,))),
        lambda u, v, a: Matmul(a, splat(2, a.type)),
    ),
    given=("n[N]", "n[N]", "n[N,N]"),
)
def repeated_times(op: Matmul) -> Value | None:
    """(1 v') A = 1 (v' A), and (u 1') A = u (1' A): sums of rows, repeated; and from the right."""
    if (found := _repeated_times(op.x, op.y)) is not None:
        return found
    found = _repeated_times(transposed(op.y), transposed(op.x))
    return None if found is None else transposed(found)


def _repeated_times(x: Value, y: Value) -> Value | None:
    found = _turned(x)
    if found is None:
        return None
    inner, axes = found
    rank = x.type.rank
    rows, columns = rank - 2, rank - 1
    shape = (*x.shape[:-1], y.shape[-1])
    if columns not in axes:  # every row of the product is a multiple of the sums of y's columns
        sums = Broadcast(Sum(y, (rows,)), shape, (*range(rows), columns))
        return Mul(Broadcast(inner, shape, axes), sums)
    if rows in axes:
        return None
    kept = Broadcast(inner, (*x.shape[:-2], 1, x.shape[-1]), axes)
    one = Matmul(kept, y)
    return Broadcast(Reshape(one, (*shape[:-2], shape[-1])), shape, (*range(rows), columns))


def _turned(x: Value) -> tuple[Value, tuple[int, ...]] | None:
    """What a matrix repeats, and the axes along which it does not; also through a transpose."""
    match x:
        case Broadcast(inner, _, axes):
            return inner, axes
        case Permute(Broadcast(inner, _, axes)) if is_transpose(x):
            last = x.type.rank - 1
            swapped = tuple({last: last - 1, last - 1: last}.get(a, a) for a in axes)
            return (inner, swapped) if swapped == tuple(sorted(swapped)) else None
        case _:
            return None
