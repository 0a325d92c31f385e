"""Loops written out: several steps of a scan in one trip, where its author asked for it.

The last pass before kernels are made. No law is applied from here on, so a step computes the same
bits wherever it stands; but steps that stand side by side may become one kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlvm.ir import Builder, Dim, Function, Op, Param, TensorType, Value, inline, splat
from dlvm.ir.rewrite import Env, mapped, transform, types_of
from dlvm.ir.sizes.dims import floordiv
from dlvm.ops import Concat, Reshape, Scan, Slice
from dlvm.passes import function_pass


@function_pass
def unroll(fn: Function) -> Function:
    """Take ``unroll`` steps of a scan in each trip; those that are left over are taken at its end.

    A scan of no more steps than that becomes straight-line code.
    """

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Scan)
        if op.unroll == 1:
            return None
        n, m = len(op.init), len(op.init) + len(op.xs)
        operands = mapped(op.operands, env)
        carried, stacked = _walked(op, operands[:n], operands[n:m], operands[m:])
        return (*carried, *stacked)

    return transform(fn, visit, on=Scan)


Walked = tuple[Sequence[Value], Sequence[Value]]


def _walked(
    op: Scan, carried: Sequence[Value], xs: Sequence[Value], captured: Sequence[Value]
) -> Walked:
    """What is carried and what is stacked, from whole trips and the steps that are left over."""
    if isinstance(op.length, int) and op.length <= op.unroll:
        return _one_by_one(op, carried, xs, captured, op.length)
    trips = floordiv(op.length, op.unroll)
    taken = trips * op.unroll
    left = op.length - taken
    if left == 0:
        return _trips(op, carried, xs, captured, trips)

    def whole(carried: Sequence[Value]) -> Walked:
        return _trips(op, carried, _part(xs, 0, taken), captured, trips)

    def rest(carried: Sequence[Value]) -> Walked:
        return _left_over(op, carried, _part(xs, taken, left), captured, left)

    first, last = (rest, whole) if op.reverse else (whole, rest)
    carried, before = first(carried)
    carried, after = last(carried)
    if op.reverse:
        before, after = after, before
    return carried, [Concat(pair, 0) for pair in zip(before, after, strict=True)]


def _part(xs: Sequence[Value], start: Dim, size: Dim) -> list[Value]:
    """Some of the slices of each input."""
    return [
        Slice(x, (start, *(0,) * (x.type.rank - 1)), (size, *x.shape[1:]), (1,) * x.type.rank)
        for x in xs
    ]


def _left_over(
    op: Scan, carried: Sequence[Value], xs: Sequence[Value], captured: Sequence[Value], left: Dim
) -> Walked:
    if isinstance(left, int):
        return _one_by_one(op, carried, xs, captured, left)
    groups = tuple(carried), tuple(xs), tuple(captured)
    results = Scan(*groups, op.body, left, op.reverse).results
    return results[: len(carried)], results[len(carried) :]


def _one_by_one(
    op: Scan, carried: Sequence[Value], xs: Sequence[Value], captured: Sequence[Value], count: int
) -> Walked:
    """Straight-line code for a known number of steps."""
    carried, rows = _steps(op, carried, xs, captured, count)
    types = [t.with_shape((count, *t.shape[1:])) for t in op.result_types[len(carried) :]]
    return carried, [_stacked(column, t) for column, t in zip(rows, types, strict=True)]


def _steps(
    op: Scan, carried: Sequence[Value], xs: Sequence[Value], captured: Sequence[Value], count: int
) -> tuple[Sequence[Value], list[list[Value]]]:
    """Some steps in their order: what is carried after them, and what each one stacks."""
    columns: list[list[Value]] = [[] for _ in op.result_types[len(carried) :]]
    for k in reversed(range(count)) if op.reverse else range(count):
        slices = [Reshape(x, x.shape[1:]) for x in _part(xs, k, 1)]
        found = inline(op.body, (*carried, *slices, *captured))
        carried = found[: len(op.init)]
        for column, y in zip(columns, found[len(op.init) :], strict=True):
            column.insert(0, y) if op.reverse else column.append(y)
    return carried, columns


def _stacked(rows: Sequence[Value], t: TensorType) -> Value:
    """Rows under each other."""
    if not rows:
        return splat(0, t)
    parts = tuple(Reshape(y, (1, *y.shape)) for y in rows)
    return parts[0] if len(parts) == 1 else Concat(parts, 0)


def _trips(
    op: Scan, carried: Sequence[Value], xs: Sequence[Value], captured: Sequence[Value], trips: Dim
) -> Walked:
    """A scan that takes ``unroll`` steps in each trip."""
    k, n = op.unroll, len(carried)
    blocks = tuple(Reshape(x, (trips, k, *x.shape[1:])) for x in xs)
    slices = [x.type.with_shape(x.shape[1:]) for x in blocks]
    types = (*types_of(carried), *slices, *types_of(captured))
    params = tuple(Param(t, p.name) for t, p in zip(types, op.body.params, strict=True))
    with Builder() as builder:
        groups = params[:n], params[n : n + len(xs)], params[n + len(xs) :]
        after, columns = _steps(op, *groups, k)
    flat = [y for column in columns for y in column]
    body = Function("body", params, tuple(builder.ops), (*after, *flat))
    found = Scan(tuple(carried), blocks, tuple(captured), body, trips, op.reverse).results
    stacks = [found[n + i : n + i + k] for i in range(0, len(flat), k)]
    return found[:n], [_interleaved(parts, trips * k) for parts in stacks]


def _interleaved(parts: Sequence[Value], count: Dim) -> Value:
    """Slice i of part j is slice i k + j of the whole."""
    inner = parts[0].shape[1:]
    columns = tuple(Reshape(y, (*y.shape[:1], 1, *inner)) for y in parts)
    return Reshape(Concat(columns, 1), (count, *inner))
