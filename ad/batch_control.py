"""Batching of calls, branches, loops and recomputation.

A loop is asked again until it is settled which carried values are batched. Where a predicate
is batched, both branches run and each lane selects; a while runs until every lane is done, and
lanes that are done keep their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.errors import UserError
from dlvm.ir import I32, Builder, Dim, Function, FunctionRef, Op, Param, Value, zeros
from dlvm.ir.dims import symbol, symbols
from dlvm.ir.rewrite import inline, types_of
from dlvm.ir.verify import unify
from dlvm.ops import (
    Broadcast,
    Call,
    Cast,
    Checkpoint,
    Cond,
    Kernel,
    Less,
    Max,
    Permute,
    Recompute,
    Scan,
    Select,
    While,
)

from .activity import Flags, is_tape
from .batch import BATCHED, Batch, Body, Lanes


@dataclass(frozen=True, slots=True)
class Callee:
    """A function of the module for all lanes."""

    body: Body
    ref: FunctionRef


def call(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A call of the batched callee, which has a symbol of its own for an unknown size."""
    assert isinstance(op, Call)
    fn = b.engine.lent(op.callee.name)
    size = b.size if isinstance(b.size, int) else _fresh(fn)

    def make() -> Callee:
        body = Batch(b.engine, size).body(fn, flags)
        return Callee(body, b.engine.define(f"{fn.name}_batched", body.fn))

    callee = b.engine.once(("callee", fn, flags, size), make)
    body = callee.body
    sizes = unify(types_of(body.fn.params), types_of(xs))
    types = tuple(r.type.substitute(sizes) for r in body.fn.results)
    return Call(tuple(xs), callee.ref, types).results, body.batched


def _fresh(fn: Function) -> Dim:
    taken = {s for p in fn.params for d in p.type.shape for s in symbols(d)}
    return symbol(next(n for i in range(len(taken) + 1) if (n := f"L{i or ''}") not in taken))


def cond(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """One predicate for all lanes stays a cond; one for each lane selects."""
    assert isinstance(op, Cond)
    bodies = [b.body(fn, flags[1:]) for fn in (op.then, op.otherwise)]
    if flags[0]:
        _refuse(op, "cond", (op.then, op.otherwise))
        sides = [b.every(inline(body.fn, xs[1:]), body.batched) for body in bodies]
        found = [_choose(b, xs[0], x, y) for x, y in zip(*sides, strict=True)]
        return found, (True,) * len(found)
    batched = tuple(any(f) for f in zip(*(body.batched for body in bodies), strict=True))
    then, otherwise = (b.demand(body, batched) for body in bodies)
    return Cond(xs[0], tuple(xs[1:]), then, otherwise).results, batched


def _choose(b: Batch, lanes: Value, x: Value, y: Value) -> Value:
    return Select(Broadcast(lanes, x.shape, (0,)), x, y)


def _refuse(op: Op, name: str, bodies: Sequence[Function]) -> None:
    """What can't run for lanes that have not asked for it."""
    reason = ""
    if any(body.has_effect or body.may_raise for body in bodies):
        reason = "its body can fail or be seen, and would run for lanes that do not take it"
    elif any(is_tape(t) for t in op.result_types):
        reason = "it is the derivative of a loop, whose lanes made different numbers of trips"
    if reason:
        raise UserError(
            f"{name} on a predicate that vmap batches: {reason}",
            origin=op.origin,
            remedy="batch before differentiating, use mode='clip' for indices, "
            "or make the predicate the same for all lanes",
        )


def _settle(b: Batch, body: Function, flags: Flags, n: int) -> Flags:
    """Which parameters of a loop's body are batched after any number of trips."""
    while True:
        out = b.body(body, flags).batched
        grown = (*(a or o for a, o in zip(flags[:n], out[:n], strict=True)), *flags[n:])
        if grown == flags:
            return flags
        flags = grown


def scan(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Lanes are the second axis of what is sliced and stacked."""
    assert isinstance(op, Scan)
    n, m = len(op.init), len(op.init) + len(op.xs)
    flags = tuple(f or is_tape(v.type) for f, v in zip(flags, xs, strict=True))
    settled = _settle(b, op.body, flags, n)
    body = b.body(op.body, settled)
    batched = (*settled[:n], *body.batched[n:])
    step = b.demand(body, batched)
    init = [b.spread(x, f) if s else x for x, f, s in zip(xs, flags, settled[:n], strict=False)]
    slices = [_swapped(x) if f else x for x, f in zip(xs[n:m], flags[n:m], strict=True)]
    found = Scan(tuple(init), tuple(slices), tuple(xs[m:]), step, op.length, op.reverse).results
    stacked = [_swapped(y) if f else y for y, f in zip(found[n:], batched[n:], strict=True)]
    return (*found[:n], *stacked), batched


def _swapped(x: Value) -> Value:
    return Permute(x, (1, 0, *range(2, x.type.rank)))


def while_loop(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """One condition for all lanes stays a while; else it runs until every lane is done."""
    assert isinstance(op, While)
    n = len(op.init)
    settled = _settle(b, op.body, flags, n)
    if by_lane := b.body(op.condition, settled).batched[0]:
        _refuse(op, "while", (op.condition, op.body))
        settled = (*(True,) * n, *settled[n:])
    condition = b.body(op.condition, settled).fn
    step = b.demand(b.body(op.body, settled), settled[:n])
    if by_lane:
        condition, step = _any_lane(condition), _where(b, condition, step)
    init = [b.spread(x, f) if s else x for x, f, s in zip(xs, flags, settled[:n], strict=False)]
    return While(tuple(init), tuple(xs[n:]), condition, step).results, settled[:n]


def _any_lane(condition: Function) -> Function:
    with Builder(condition.ops) as builder:
        last = Max(Cast(condition.results[0], I32), (0,))
        some = Less(zeros(last.type), last)
    return Function("condition", condition.params, tuple(builder.ops), (some,))


def _where(b: Batch, condition: Function, step: Function) -> Function:
    params = tuple(Param(p.type, p.name) for p in step.params)
    with Builder() as builder:
        (running,) = inline(condition, params)
        new = inline(step, params)
        out = [_choose(b, running, x, old) for x, old in zip(new, params, strict=False)]
    return Function("body", params, tuple(builder.ops), tuple(out))


def checkpoint(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A checkpoint of the batched body."""
    assert isinstance(op, Checkpoint)
    body = b.body(op.body, flags)
    return Checkpoint(tuple(xs), body.fn).results, body.batched


def recompute(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A recomputation of the batched body, on the same triggers."""
    assert isinstance(op, Recompute)
    n = len(op.xs)
    body = b.body(op.body, flags[:n])
    return Recompute(tuple(xs[:n]), tuple(xs[n:]), body.fn).results, body.batched


def kernel(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A kernel is inlined."""
    assert isinstance(op, Kernel)
    return b.write(op.body, xs, flags)


BATCHED.update(
    {
        Call: call,
        Cond: cond,
        Scan: scan,
        While: while_loop,
        Checkpoint: checkpoint,
        Recompute: recompute,
        Kernel: kernel,
    }
)
