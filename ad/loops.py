"""Adjoints of loops.

``scan`` goes back as a scan the other way over stacked residuals; it carries the cotangents of
the carried values and a sum for each captured value, and stacks those of the slices. ``while``
pushes its residuals on the tape and counts its trips; it goes back as a while that pops until
the count is zero. An inner loop pushes on the same tape before its trip's own residuals are
pushed, so that all is popped in exactly the opposite order.
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
from .reverse import ADJOINTS, Cotangents, Sweep, Way, or_zeros

COUNT = TensorType(I64)
TAPE_TYPE = TensorType(TAPE)


@dataclass(frozen=True, slots=True)
class Trip:
    """One trip of a loop, split; positions are those of the body's parameters."""

    pair: Pair
    carries: tuple[int, ...]
    slices: tuple[int, ...]
    captured: tuple[int, ...]

    def lent(self, first: int, last: int) -> list[int]:
        """Which parameters between two positions the way back reads again."""
        return [i for i in self.pair.lent if first <= i < last]

    def start(self, dy: Cotangents, so_far: Cotangents, types: Sequence[TensorType]) -> list[Value]:
        """What the way back carries at first: cotangents of carried values, then sums."""
        captured = self.params(self.captured)
        return [
            *(or_zeros(dy[i], types[i]) for i in self.carries),
            *(or_zeros(so_far[i], p.type) for i, p in zip(self.captured, captured, strict=True)),
        ]

    def totals(self, out: Sequence[Value], so_far: Cotangents) -> list[Value | None]:
        """What the operands have after it: the sums came from the sums so far, the rest adds."""
        found = list(so_far)
        for i, total in zip((*self.carries, *self.captured), out, strict=True):
            found[i] = total if i in self.captured else added(so_far[i], total)
        return found

    def params(self, positions: Sequence[int]) -> list[Param]:
        """The parameters at these positions."""
        return [self.pair.params[i] for i in positions]


def split_trip(sweep: Sweep, op: While | Scan, slices: int) -> Trip:
    """The pair of a loop's body: all but the carried values may be read again on the way back."""
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
        lent=range(n, count),
        summed=range(n + slices, count),
        shown=range(n, len(seeded)),
        still=range(n + slices, count),
    )
    active = picked(wanted)
    return Trip(
        parts,
        carries=tuple(i for i in active if i < n),
        slices=tuple(i for i in active if n <= i < n + slices),
        captured=tuple(i for i in active if i >= n + slices),
    )


# -- scan ------------------------------------------------------------------------------------------


def scan_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Way:
    """Forward with stacked residuals; the way back is a scan in the other direction."""
    assert isinstance(op, Scan)
    n, m = len(op.init), len(op.init) + len(op.xs)
    trip = split_trip(sweep, op, len(op.xs))
    split = trip.pair
    init, xs, captured = operands[:n], operands[n:m], operands[m:]
    init, body = (*init, *sweep.threaded(split.taped)), _scan_forward(split, n)
    groups, how = (init, tuple(xs), tuple(captured)), (op.length, op.reverse, op.unroll)
    forward = Scan(*groups, body, *how).results
    carried = sweep.untied(forward[: len(init)], split.taped)
    results, kept = split.unpacked((*carried, *forward[len(init) :]))

    def back(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        start = (*trip.start(dy, so_far, op.result_types), *sweep.threaded(split.taped))
        seeds = [or_zeros(dy[i], op.result_types[i]) for i in split.seeds if i >= n]
        again = [operands[i] for i in trip.lent(n, m)]
        reread = (
            *(operands[i] for i in trip.lent(m, len(operands))),
            *split.write_before(operands, _reached(op.length)),
        )
        body, xs = _scan_backward(trip, n, m), (*kept, *again, *seeds)
        out = Scan(start, xs, reread, body, op.length, not op.reverse, op.unroll).results
        sums = trip.totals(sweep.untied(out[: len(start)], split.taped), so_far)
        for i, part in zip(trip.slices, out[len(start) :], strict=True):
            sums[i] = added(so_far[i], part)
        return sums

    return Way(results, back)


def _reached(length: Dim) -> Value | None:
    """Whether a step is made; None where it surely is."""
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
    steady = split.steady_params()
    with Builder() as builder:
        out = split.write_back(kept, steady)
    active = (*trip.carries, *trip.slices, *trip.captured)
    found = dict(zip(active, out, strict=False))
    carried = [found[i] for i in (*trip.carries, *trip.captured)]
    params = (
        *(split.seeds[i] for i in trip.carries),
        *(split.sums[i] for i in trip.captured),
        *((split.tape_back,) if split.taped else ()),
        *kept,
        *trip.params(trip.lent(n, m)),
        *(p for i, p in split.seeds.items() if i >= n),
        *trip.params(trip.lent(m, len(split.params))),
        *steady.values(),
    )
    after = out[len(active) :]
    results = (*carried, *after, *(found[i] for i in trip.slices))
    return Function("body", params, tuple(builder.ops), results)


# -- while -----------------------------------------------------------------------------------------


def while_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Way:
    """Forward counts trips and pushes residuals; the way back pops until the count is zero."""
    assert isinstance(op, While)
    n = len(op.init)
    trip = split_trip(sweep, op, 0)
    split = trip.pair
    taped = split.taped or bool(split.residuals)
    start = (*operands[:n], splat(0, COUNT), *sweep.threaded(taped))
    condition, body = _while_forward(op, split, taped)
    forward = While(start, tuple(operands[n:]), condition, body).results
    *results, count = sweep.untied(forward, taped)

    def back(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        start = (count, *trip.start(dy, so_far, op.result_types), *sweep.threaded(taped))
        reread = (
            *(operands[i] for i in trip.lent(n, len(operands))),
            *split.write_before(operands, Less(zeros(COUNT), count) if split.steady else None),
        )
        condition, body = _while_backward(trip, n, taped)
        out = sweep.untied(While(start, reread, condition, body).results, taped)
        return trip.totals(out[1:], so_far)

    return Way(results, back)


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
    steady = split.steady_params()
    with Builder() as builder:
        less = count + -1
        rest, kept = _popped(tape, split)
        out = split.write_back(kept, {split.tape_back: rest, **steady})
    active = (*trip.carries, *trip.captured)
    after = (out[len(active)] if split.taped else rest,) if taped else ()
    params = (
        count,
        *(split.seeds[i] for i in trip.carries),
        *(split.sums[i] for i in trip.captured),
        *((tape,) if taped else ()),
        *trip.params(trip.lent(n, len(split.params))),
        *steady.values(),
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
