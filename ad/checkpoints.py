"""Adjoints of checkpoints and recomputation.

A checkpoint keeps its inputs, and what its policy saves: its adjoint is a ``Recompute`` of the
body, forward and back, in which what was saved takes the place of what would make it. A
recomputation is differentiated as a call of its body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dlvm.ir import Function, Op, Param, Value
from dlvm.ir.rewrite import Env, inline, mapped, transform, types_of
from dlvm.ir.unify import unify
from dlvm.ops import Call, Checkpoint, Contraction, Custom, Named, Recompute

from .activity import Flags
from .control import picked, placed, seed_values
from .live import live
from .pairs import pair
from .reverse import ADJOINTS, Cotangents, Engine, Sweep, Way, again

MARK = "saved "


def checkpoint_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Way:
    """Only the inputs are kept; ``Recompute`` runs the body forward and back once dy is there."""
    assert isinstance(op, Checkpoint)
    active, seeded = sweep.wanted(op)
    if op.policy == "everything":
        return _split(sweep, op.body, active, seeded, operands)
    marked, saved = sweep.engine.once(
        ("saved", op.body, op.policy), lambda: _marked(sweep.engine, op.body, op.policy)
    )
    body = replace(marked, results=(*marked.results, *saved))
    forward = Checkpoint(tuple(operands), body, op.policy).results
    results, kept = forward[: len(op.results)], forward[len(op.results) :]

    def back(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        came = tuple(f and d is not None for f, d in zip(seeded, dy, strict=True))
        body = _given(again(sweep.engine, marked, active, came), len(operands))
        seeds = [d for d, f in zip(dy, came, strict=True) if f and d is not None]
        out = Recompute((*operands, *kept, *seeds), tuple(seeds), body).results
        return placed(out, picked(active), so_far)

    def _given(fn: Function, n: int) -> Function:
        """What was saved is a parameter, after those of the body."""
        params = [Param(v.type, f"saved_{i}") for i, v in enumerate(kept)]

        def visit(op: Op, env: Env) -> Iterable[Value] | None:
            assert isinstance(op, Named)
            mark = op.label.removeprefix(MARK)
            return (params[int(mark)],) if mark != op.label else None

        known = transform(fn, visit, on=Named)
        every = (*fn.params[:n], *params, *fn.params[n:])
        return replace(known, params=every, ops=live(known.ops, known.results))

    return Way(results, back)


def _marked(engine: Engine, body: Function, policy: str) -> tuple[Function, tuple[Value, ...]]:
    """The body with calls written out and marks on what the policy saves; the marked values."""
    saves = saved_by(policy)
    if saves is None:
        return body, ()
    found: list[Value] = []

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        if saves(op):
            found.append(Named(op.rebuild(mapped(op.operands, env)), f"{MARK}{len(found)}"))
            return found[-1:]
        return None

    marked = transform(_with_bodies(engine, body), visit)
    return marked, tuple(found)


def saved_by(policy: str) -> Callable[[Op], bool] | None:
    """Which operations' results a policy saves; None where none."""
    if policy == "nothing":
        return None
    if policy == "products":
        return lambda op: isinstance(op, Contraction)
    names = {name.strip() for name in policy.removeprefix("names:").split(",")}
    return lambda op: isinstance(op, Named) and op.label in names


def _with_bodies(engine: Engine, fn: Function) -> Function:
    """Calls written out, so that what they compute can be saved."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        if not isinstance(op, Call) or isinstance(op, Custom):
            return None
        callee = _with_bodies(engine, engine.lent(op.callee.name))
        sizes = unify(types_of(callee.params), types_of(op.operands))
        return inline(callee, mapped(op.operands, env), sizes)

    return transform(fn, visit, on=Call)


def recompute_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Way:
    """The second derivative through a checkpoint: forward with residuals, back in line."""
    assert isinstance(op, Recompute)
    active, seeded = sweep.wanted(op)
    n = len(op.xs)
    return _split(sweep, op.body, active[:n], seeded, operands[:n], operands[n:])


def _split(
    sweep: Sweep,
    body: Function,
    active: Flags,
    seeded: Flags,
    xs: Sequence[Value],
    triggers: Sequence[Value] | None = None,
) -> Way:
    """Forward with residuals, a recomputation where there are triggers; back in line."""
    lent, shown = range(len(xs)), range(len(body.results))
    split = pair(sweep.engine, body, active, seeded, lent=lent, shown=shown)
    given, forward = (*xs, *sweep.threaded(split.taped)), split.forward("body")
    found = (
        inline(forward, given)
        if triggers is None
        else Recompute(given, tuple(triggers), forward).results
    )
    results, kept = split.unpacked(sweep.untied(found, split.taped))

    def back(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        env: Env = dict(zip(split.params, xs, strict=True))
        env.update(zip(split.seeds.values(), seed_values(split, dy), strict=True))
        env[split.tape_back] = sweep.tape
        out = sweep.untied(split.write_back(kept, env), split.taped)
        return placed(out, picked(active), so_far)

    return Way(results, back)


ADJOINTS[Checkpoint] = checkpoint_adjoint
ADJOINTS[Recompute] = recompute_adjoint
