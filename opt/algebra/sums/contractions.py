"""Products that are written with broadcasts and a sum: ``(x[:, :, None] * y[None]).sum(1)``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from dlvm.ir import Dim, Value, rearrangement
from dlvm.ir.sizes.dims import product as size_of
from dlvm.ops import Broadcast, Matmul, Mul, Permute, Reshape, Sum, transposed
from dlvm.opt.algebra.factors.factors import turned_about

MOST = 8
"""Factors that are looked at."""


@rearrangement(
    Sum,
    example=(
        lambda x, y: Sum(_spread(x, 1) * _spread(turned_about(y), 1, columns=True), (1,)),
        lambda x, y: Sum(
            _spread(turned_about(y), 0, columns=True) * (_spread(x, 0) * _spread(x, 0)), (0,)
        ),
        lambda x, y: Sum(_spread(x, 2) * _spread(turned_about(y), 2, columns=True), (2,)),
    ),
    given=("n[3,K]", "n[K,2]"),
)
def sum_of_broadcast_products(op: Sum) -> Value | None:
    """sum_k x[i, k] y[k, j] is a product of matrices, however it is written."""
    factors = _factors(op.x)
    kept = [i for i in range(op.x.type.rank) if i not in op.axes]
    if len(kept) != 2:
        return None
    row, column = kept
    sides: tuple[list[Broadcast], list[Broadcast]] = ([], [])
    for f in factors:
        if {row, column} <= set(f.axes):
            return None
        sides[column in f.axes].append(f)
    if not all(any(at in f.axes for f in side) for side, at in zip(sides, kept, strict=True)):
        return None
    left, right = (_side(side, at, op) for side, at in zip(sides, kept, strict=True))
    return Matmul(left, transposed(right))


def _spread(x: Value, at: int, columns: bool = False) -> Value:
    """For the examples: a matrix of 3 rows, or of 2 ``columns``, where axis ``at`` is its last."""
    shape: list[Dim] = [3, 2]
    shape.insert(at, x.shape[1])
    kept = next(i for i, _ in enumerate(shape) if i != at) if not columns else 2 - (at == 2)
    axes = (kept, at) if kept < at else (at, kept)
    return Broadcast(x if kept < at else turned_about(x), tuple(shape), axes)


def _factors(value: Value) -> list[Broadcast]:
    """The factors of a product of elements, if all are repeated along some axis; else none."""
    factors: list[Broadcast] = []
    pending = [value]
    while pending and len(factors) <= MOST:
        match pending.pop():
            case Mul(x, y):
                pending += [x, y]
            case Broadcast() as factor:
                factors.append(factor)
            case _:
                return []
    return [] if len(factors) > MOST else factors


def _side(factors: Sequence[Broadcast], at: int, op: Sum) -> Value:
    """The product of the factors of one side, as a matrix of a kept axis by those that go."""
    axes = (at, *op.axes)
    order = tuple(sorted(axes))
    shape = tuple(op.x.shape[a] for a in order)
    each = (Broadcast(f.x, shape, tuple(order.index(a) for a in f.axes)) for f in factors)
    whole: Value = reduce(Mul, each)
    place = order.index(at)
    moved = Permute(whole, (place, *(i for i in range(len(order)) if i != place)))
    return Reshape(moved, (moved.shape[0], size_of(moved.shape[1:])))


@rearrangement(
    Sum,
    example=(
        lambda u, v: Sum(_outer(u, v), (0, 1)),
        lambda u, v: Sum(_outer(u, v) * _outer(u, v), (0, 1)),
        lambda u, v: Sum(_beside(_outer(u, v), _outer(u, u)), (1, 2)),
    ),
    given=("n[N]", "n[M]"),
)
def sum_of_separate_products(op: Sum) -> Value | None:
    """The sum over i and j of u[i] v[j] is the sum of u times that of v."""
    groups = _groups(_factors(op.x), op.axes)
    if len(groups) < 2:
        return None
    sums = [_summed(of, axes, op) for of, axes in groups]
    return reduce(Mul, sums)


def _outer(u: Value, v: Value) -> Value:
    """For the examples: an outer product."""
    shape = (*u.shape, *v.shape)
    return Broadcast(u, shape, (0,)) * Broadcast(v, shape, (1,))


def _beside(x: Value, y: Value) -> Value:
    """For the examples: two matrices with the same rows, along the first axis of three."""
    shape = (*x.shape, y.shape[1])
    return Broadcast(x, shape, (0, 1)) * Broadcast(y, shape, (0, 2))


Group = tuple[list[Broadcast], set[int]]
"""Factors that share axes that are summed over, and these axes."""


def _groups(factors: Sequence[Broadcast], axes: Sequence[int]) -> list[Group]:
    """The factors by the summed axes that connect them; none if an axis has no factor."""
    groups: list[Group] = []
    for f in factors:
        mine = set(f.axes) & set(axes)
        if not mine:
            return []
        touched = [g for g in groups if g[1] & mine]
        groups = [g for g in groups if not g[1] & mine]
        joined = [x for g in touched for x in g[0]]
        groups.append(([*joined, f], mine.union(*(g[1] for g in touched))))
    covered = {a for _, of in groups for a in of}
    return groups if covered == set(axes) else []


def _summed(factors: Sequence[Broadcast], axes: set[int], op: Sum) -> Value:
    """The sum over its axes of one group of factors, repeated along the kept axes of all."""
    used = sorted({a for f in factors for a in f.axes})
    shape = tuple(op.x.shape[a] for a in used)
    each = (Broadcast(f.x, shape, tuple(used.index(a) for a in f.axes)) for f in factors)
    total = Sum(reduce(Mul, each), tuple(used.index(a) for a in used if a in axes))
    kept = [a for a in range(op.x.type.rank) if a not in op.axes]
    left = tuple(kept.index(a) for a in used if a not in axes)
    return Broadcast(total, op.shape, left) if op.shape else total
