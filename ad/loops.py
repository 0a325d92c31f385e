"""Adjoints of loops.

The adjoint of ``scan`` is a scan in the other direction over the stacked residuals. It carries the
cotangents of the carried values and a sum for each captured value, and stacks the cotangents of the
slices. ``while`` pushes its residuals on the tape and counts its trips; its adjoint is a while that
pops until the count is zero. An inner loop pushes on the same tape before the outer trip pushes its
own residuals, so everything is popped in exactly the opposite order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.ir import (
    BOOL,
    I64,
    TAPE,
    Builder,
    Dim,
    Function,
    Op,
    Param,
    TensorType,
    Value,
    splat,
    zeros,
)
from dlvm.ops import DimSize, Less, Pop, Push, Scan, While

from .activity import both
from .control import picked
from .cotangents import added
from .pairs import Pair, pair
from .reverse import ADJOINTS, Cotangents, Forwarded, Sweep, or_zeros

COUNT = TensorType(I64)
TAPE_TYPE = TensorType(TAPE)


@dataclass(frozen=True, slots=True)
class Trip:
    """The pair of one trip of a loop; positions are those of the body's parameters."""

    pair: Pair
    carries: tuple[int, ...]
    slices: tuple[int, ...]
    captured: tuple[int, ...]

    def reread(self, first: int, last: int) -> list[int]:
        """The parameters from ``first`` up to ``last`` that the backward pass reads again."""
        return [i for i in self.pair.reread if first <= i < last]

    def start(self, dy: Cotangents, so_far: Cotangents, types: Sequence[TensorType]) -> list[Value]:
        """The initial carry of the backward loop: cotangents of carried values, then sums."""
        captured = self.params(self.captured)
        return [
            *(or_zeros(dy[i], types[i]) for i in self.carries),
            *(or_zeros(so_far[i], p.type) for i, p in zip(self.captured, captured, strict=True)),
        ]

    def totals(self, out: Sequence[Value], so_far: Cotangents) -> list[Value | None]:
        """The new sums of the operands, from the results of the backward loop.

        The backward loop of a captured value started from the sum so far; for a carried value its
        result is added.
        """
        found = list(so_far)
        for i, total in zip((*self.carries, *self.captured), out, strict=True):
            found[i] = total if i in self.captured else added(so_far[i], total)
        return found

    def params(self, positions: Sequence[int]) -> list[Param]:
        """The parameters at these positions."""
        return [self.pair.params[i] for i in positions]


def split_trip(sweep: Sweep, op: While | Scan, slices: int) -> Trip:
    """The pair of a loop's body; the backward pass may reread all but the carried values."""
    activity = sweep.engine.activity
    n, count = len(op.init), len(op.body.params)
    leaving = activity.leaving(op, sweep.active(op.results))
    varied = activity.entering(op, sweep.vary(op.operands))
    useful = activity.useful(op.body, leaving)
    carries = both(varied[:n], leaving[:n])
    wanted = (*carries, *both(varied[n:], tuple(p in useful for p in op.body.params[n:])))
    seeded = (*carries, *sweep.active(op.results)[n:])
    parts = pair(
        sweep.engine,
        op.body,
        wanted,
        seeded,
        reread=range(n, count),
        summed=range(n + slices, count),
        returned=range(n, len(seeded)),
        invariant=range(n + slices, count),
    )
    active = picked(wanted)
    return Trip(
        parts,
        carries=tuple(i for i in active if i < n),
        slices=tuple(i for i in active if n <= i < n + slices),
        captured=tuple(i for i in active if i >= n + slices),
    )


# -- scan ------------------------------------------------------------------------------------------


def scan_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """Runs the scan with stacked residuals; the pullback is a scan in the other direction."""
    assert isinstance(op, Scan)
    n, m = len(op.init), len(op.init) + len(op.xs)
    trip = split_trip(sweep, op, len(op.xs))
    split = trip.pair
    init, xs, captured = operands[:n], operands[n:m], operands[m:]
    init, body = (*init, *sweep.tape_operand(split.taped)), _scan_forward(split, n)
    groups, how = (init, tuple(xs), tuple(captured)), (op.length, op.reverse, op.unroll)
    forward = Scan(*groups, body, *how).results
    carried = sweep.without_tape(forward[: len(init)], split.taped)
    results, kept = split.unpacked((*carried, *forward[len(init) :]))

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        start = (*trip.start(dy, so_far, op.result_types), *sweep.tape_operand(split.taped))
        seeds = [or_zeros(dy[i], op.result_types[i]) for i in split.seeds if i >= n]
        again = [operands[i] for i in trip.reread(n, m)]
        reread = (
            *(operands[i] for i in trip.reread(m, len(operands))),
            *split.write_hoisted(operands, _reached(op.length)),
        )
        body, xs = _scan_backward(trip, n, m), (*kept, *again, *seeds)
        out = Scan(start, xs, reread, body, op.length, not op.reverse, op.unroll).results
        sums = trip.totals(sweep.without_tape(out[: len(start)], split.taped), so_far)
        for i, part in zip(trip.slices, out[len(start) :], strict=True):
            sums[i] = added(so_far[i], part)
        return sums

    return Forwarded(results, pullback)


def _reached(length: Dim) -> Value | None:
    """Whether the scan makes a step; None if it is known to."""
    if isinstance(length, int):
        return None if length else splat(False, TensorType(BOOL))
    return Less(zeros(COUNT), DimSize(length))


def _scan_forward(split: Pair, n: int) -> Function:
    tape = (split.tape,) if split.taped else ()
    after = (split.tape_after,) if split.taped else ()
    params = (*split.params[:n], *tape, *split.params[n:])
    results = (*split.results[:n], *after, *split.results[n:], *split.extra)
    return Function("body", params, split.ops, results)


def _scan_backward(trip: Trip, n: int, m: int) -> Function:
    split = trip.pair
    kept = [Param(r.type, "kept") for r in split.residuals]
    hoisted = split.hoisted_params()
    with Builder() as builder:
        out = split.write_pullback(kept, hoisted)
    active = (*trip.carries, *trip.slices, *trip.captured)
    cotangents = dict(zip(active, out, strict=False))
    carried = [cotangents[i] for i in (*trip.carries, *trip.captured)]
    params = (
        *(split.seeds[i] for i in trip.carries),
        *(split.sums[i] for i in trip.captured),
        *((split.tape_back,) if split.taped else ()),
        *kept,
        *trip.params(trip.reread(n, m)),
        *(p for i, p in split.seeds.items() if i >= n),
        *trip.params(trip.reread(m, len(split.params))),
        *hoisted.values(),
    )
    after = out[len(active) :]
    results = (*carried, *after, *(cotangents[i] for i in trip.slices))
    return Function("body", params, tuple(builder.ops), results)


# -- while -----------------------------------------------------------------------------------------


def while_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """Counts the trips and pushes residuals; the pullback pops until the count is zero."""
    assert isinstance(op, While)
    n = len(op.init)
    trip = split_trip(sweep, op, 0)
    split = trip.pair
    taped = split.taped or bool(split.residuals)
    start = (*operands[:n], splat(0, COUNT), *sweep.tape_operand(taped))
    condition, body = _while_forward(op, split, taped)
    forward = While(start, tuple(operands[n:]), condition, body).results
    *results, count = sweep.without_tape(forward, taped)

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        start = (count, *trip.start(dy, so_far, op.result_types), *sweep.tape_operand(taped))
        reread = (
            *(operands[i] for i in trip.reread(n, len(operands))),
            *split.write_hoisted(operands, Less(zeros(COUNT), count) if split.hoisted else None),
        )
        condition, body = _while_backward(trip, n, taped)
        out = sweep.without_tape(While(start, reread, condition, body).results, taped)
        return trip.totals(out[1:], so_far)

    return Forwarded(results, pullback)


def _while_forward(op: While, split: Pair, taped: bool) -> tuple[Function, Function]:
    n = len(op.init)
    count, tape = Param(COUNT, "count"), (split.tape,) if taped else ()
    with Builder(split.ops) as builder:
        more = count + 1
        after = split.tape_after
        if split.residuals:
            after = Push(after, split.residuals)
    params = (*split.params[:n], count, *tape, *split.params[n:])
    results = (*split.results, more, *((after,) if taped else ()))
    old = op.condition
    unread = (Param(COUNT, "count"), *(Param(TAPE_TYPE, "tape") for _ in tape))
    head = (*old.params[:n], *unread, *old.params[n:])
    condition = Function("condition", head, old.ops, old.results)
    return condition, Function("body", params, tuple(builder.ops), results)


def _while_backward(trip: Trip, n: int, taped: bool) -> tuple[Function, Function]:
    split = trip.pair
    count, tape = Param(COUNT, "count"), Param(TAPE_TYPE, "tape")
    hoisted = split.hoisted_params()
    with Builder() as builder:
        less = count + -1
        rest, kept = _popped(tape, split)
        out = split.write_pullback(kept, {split.tape_back: rest, **hoisted})
    active = (*trip.carries, *trip.captured)
    after = (out[len(active)] if split.taped else rest,) if taped else ()
    params = (
        count,
        *(split.seeds[i] for i in trip.carries),
        *(split.sums[i] for i in trip.captured),
        *((tape,) if taped else ()),
        *trip.params(trip.reread(n, len(split.params))),
        *hoisted.values(),
    )
    results = (less, *out[: len(active)], *after)
    return _until_zero(params), Function("body", params, tuple(builder.ops), results)


def _popped(tape: Value, split: Pair) -> tuple[Value, Sequence[Value]]:
    if not split.residuals:
        return tape, ()
    rest, *kept = Pop(tape, (TAPE_TYPE, *(r.type for r in split.residuals))).results
    return rest, kept


def _until_zero(params: Sequence[Param]) -> Function:
    fresh = tuple(Param(p.type, p.name) for p in params)
    with Builder() as builder:
        more = Less(zeros(COUNT), fresh[0])
    return Function("condition", fresh, tuple(builder.ops), (more,))


ADJOINTS[Scan] = scan_adjoint
ADJOINTS[While] = while_adjoint
