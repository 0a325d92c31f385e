"""Batching of branches and loops in which each lane decides for itself.

If a predicate is batched, both branches run and each lane selects its result. If the condition of a
while is batched, the loop runs until every lane is done, and lanes that are done keep their values.
All lanes share one tape: a loop that pushes also pushes which lanes were idle in the trip, and the
loop that pops reads from there which lanes run, so the backward pass stays in step with the forward
pass in every lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.ir import BOOL, TAPE, Builder, Function, Op, Param, TensorType, Value, splat, zeros
from dlvm.ir.rewrite import inline
from dlvm.ops import And, Broadcast, Cond, Not, Pop, Push, Select, While

from .activity import Flags, carried_count, is_tape, region_arguments
from .batch import BATCHED, Batch, Body, Lanes, any_of, enters_again, inside, needs_mask
from .batch_control import batched_parameters
from .live import live
from .reverse import Engine


def cond(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A predicate shared by all lanes stays a cond; with one per lane each lane selects."""
    assert isinstance(op, Cond)
    guard = b.guard(op)
    if flags[0]:
        return _both(b, op, xs, flags)
    bodies = [b.body(fn, flags[1:], bool(guard)) for fn in (op.then, op.otherwise)]
    batched = tuple(any(f) for f in zip(*(body.batched for body in bodies), strict=True))
    then, otherwise = (b.spread_results(body, batched) for body in bodies)
    return Cond(xs[0], (*xs[1:], *guard), then, otherwise).results, batched


def _both(b: Batch, op: Cond, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Runs both branches in sequence on the same tapes, each under the mask of its lanes."""
    tapes = [i for i, v in enumerate(op.captured) if is_tape(v.type)]
    ends = {i: _end_of(b.engine, op, i) for i in tapes}
    given = list(xs[1:])
    sides: list[list[Value]] = [[], []]
    ways = [(0, op.then, xs[0]), (1, op.otherwise, Not(xs[0]))]
    for k, fn, lanes in reversed(ways) if op.otherwise_first else ways:
        masked = needs_mask(b.engine, fn.ops)
        mask = lanes if b.mask is None else And(lanes, b.mask)
        body = b.body(fn, flags[1:], masked)
        held = (*given, *((mask,) if masked else ()))
        if any(enters_again(b.engine, inner) for inner in inside(b.engine, fn.ops)):
            sides[k] = found = list(_if_any(b, body, held, ends))
        else:
            found = inline(body.fn, held)
            sides[k] = b.spread_all(found, body.batched)
        for i, end in ends.items():
            given[i] = found[end]
    out = [_choose(xs[0], x, y) for x, y in zip(*sides, strict=True)]
    for i, end in ends.items():
        out[end] = given[i]
    return out, (True,) * len(out)


def _if_any(b: Batch, body: Body, held: Sequence[Value], ends: dict[int, int]) -> Sequence[Value]:
    """A branch that calls a recursive function, run only if some lane takes the branch."""
    then = b.spread_results(body, (True,) * len(body.batched))
    params = tuple(Param(p.type, p.name) for p in then.params)
    tapes = {end: params[i] for i, end in ends.items()}
    with Builder() as builder:
        nothing = tuple(tapes.get(j) or zeros(r.type) for j, r in enumerate(then.results))
    otherwise = Function("otherwise", params, tuple(builder.ops), nothing)
    return Cond(any_of(held[-1]), tuple(held), then, otherwise).results


def _end_of(engine: Engine, op: Cond, i: int) -> int:
    """The result of a branch that is the tape which came in as parameter ``i``."""
    found = (_tape_of(engine, fn, fn.params[i])[1] for fn in (op.then, op.otherwise))
    return next(end for end in found if end is not None)


def _choose(lanes: Value, x: Value, y: Value) -> Value:
    return x if is_tape(x.type) else Select(Broadcast(lanes, x.shape, (0,)), x, y)


# -- while -----------------------------------------------------------------------------------------


def while_loop(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A condition that all lanes share stays a while; else it runs until every lane is done."""
    assert isinstance(op, While)
    n, guard = len(op.init), b.guard(op)
    settled = batched_parameters(b, op.body, flags, n, masked=False)
    by_lane = bool(guard) or b.body(op.condition, settled).batched[0]
    if by_lane:
        settled = (*(True,) * n, *settled[n:])
    condition = b.body(op.condition, settled, bool(guard))
    test = b.spread_results(condition, (by_lane,))
    step = _trip(b, op, test, settled, by_lane)
    if by_lane:
        test = _any_lane(test, guard)
    init = [b.spread(x, f) if s else x for x, f, s in zip(xs, flags, settled[:n], strict=False)]
    return While(tuple(init), (*xs[n:], *guard), test, step).results, settled[:n]


def _any_lane(condition: Function, guard: Sequence[Value]) -> Function:
    with Builder(condition.ops) as builder:
        (running,) = condition.results
        some = any_of(And(running, condition.params[-1]) if guard else running)
    return Function("condition", condition.params, tuple(builder.ops), (some,))


def _trip(b: Batch, op: While, test: Function, settled: Flags, by_lane: bool) -> Function:
    """One trip for the lanes that run.

    Which lanes were idle is pushed after the trip if the body pushes, popped before it if it pops.
    """
    n, count = len(op.init), len(settled)
    uses = [
        _tape_of(b.engine, op.body, p)[0] if is_tape(p.type) else None for p in op.body.params[:n]
    ]
    masked = by_lane and needs_mask(b.engine, op.body.ops)
    step = b.spread_results(b.body(op.body, settled, masked), settled[:n])
    lanes = TensorType(BOOL, (b.size,))
    params = [Param(p.type, p.name) for p in step.params[:count]]
    guard = [Param(lanes, "lanes")] if b.guard(op) else []
    with Builder() as builder:
        held: list[Value] = list(params)
        (running,) = inline(test, (*held, *guard)) if by_lane else (splat(True, lanes),)
        for i, use in enumerate(uses):
            if use is Pop:
                held[i], idle = Pop(held[i], (TensorType(TAPE), lanes)).results
                running = And(running, Not(idle))
        if guard and Pop not in uses:
            running = And(running, guard[0])
        new = list(inline(step, (*held, *((running,) if masked else ()))))
        if by_lane:
            new = [_choose(running, x, old) for x, old in zip(new, params, strict=False)]
        for i, use in enumerate(uses):
            if use is Push:
                new[i] = Push(new[i], (Not(running),))
    return Function("body", (*params, *guard), live(builder.ops, new), tuple(new))


def _tape_of(
    engine: Engine, fn: Function, tape: Value, open_: frozenset[str] = frozenset()
) -> tuple[type[Op] | None, int | None]:
    """What a body does first with a tape, push or pop or None, and the result that returns it.

    None stands for what only a function under examination, one that calls itself, could tell.
    """
    first: type[Op] | None = None
    for op in fn.ops:
        if tape not in op.operands:
            continue
        end: int | None = 0
        if isinstance(op, Push | Pop):
            first = first or type(op)
        else:
            place = op.operands[region_arguments(op)].index(tape)
            use, end = _through(engine, op, place, open_)
            first = first or use
        if end is None:
            return first, None
        tape = op.results[end]
    return first, fn.results.index(tape)


def _through(
    engine: Engine, op: Op, place: int, open_: frozenset[str]
) -> tuple[type[Op] | None, int | None]:
    """The same as ``_tape_of`` for the bodies that an operation holds or calls."""
    if op.called is not None:
        if op.called.name in open_:
            return None, None
        open_ |= {op.called.name}
    bodies = engine.activity.bodies(op)
    found = [_tape_of(engine, body, body.params[place], open_) for body in bodies]
    use = next((use for use, _ in found if use), None)
    if place < carried_count(op):
        return use, place
    return use, next((end for _, end in found if end is not None), None)


BATCHED.update({Cond: cond, While: while_loop})
