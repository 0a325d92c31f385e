"""Adjoints of checkpoints and recomputation.

A checkpoint keeps its inputs, and what its policy saves: its adjoint is a ``Recompute`` of the
body, forward and back, in which what was saved takes the place of what would make it. A
recomputation is differentiated as a call of its body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlvm.ir import Function, Op, Value
from dlvm.ir.rewrite import Env, inline
from dlvm.ops import Checkpoint, Recompute

from .activity import Flags
from .control import picked, placed, seed_values
from .cotangents import mask_of
from .pairs import pair
from .reverse import ADJOINTS, Cotangents, Sweep, Way, again
from .saving import halves, known


def checkpoint_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Way:
    """Only the inputs are kept; ``Recompute`` runs the body forward and back once dy is there."""
    assert isinstance(op, Checkpoint)
    active, seeded = sweep.wanted(op)
    if op.policy == "everything":
        return _split(sweep, op.body, active, seeded, operands)
    engine = sweep.engine
    parts = engine.once(("halves", op.body, op.policy), lambda: halves(engine, op.body, op.policy))
    forward = Checkpoint(tuple(operands), parts.keeping, op.policy).results
    results, kept = forward[: len(op.results)], forward[len(op.results) :]

    def back(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        came = tuple(f and d is not None for f, d in zip(seeded, dy, strict=True))
        wrt = (*active, *(False,) * len(kept))
        seeds = {i: d for i, d in enumerate(dy) if came[i] and d is not None}
        masks = {i: m for i, d in seeds.items() if (m := mask_of(d)) is not None}
        body = known(again(engine, parts.again, wrt, came, masks))
        given = (*seeds.values(), *(condition for condition, _ in masks.values()))
        read, body = _read((*operands, *kept, *given), body)
        out = Recompute(read, tuple(seeds.values()), body).results
        return placed(out, picked(active), so_far)

    return Way(results, back)


def _read(xs: Sequence[Value], body: Function) -> tuple[tuple[Value, ...], Function]:
    """Only what the body reads: what it does not need counts as no residual."""
    read = {v for op in body.ops for v in op.operands} | set(body.results)
    pairs = [(x, p) for x, p in zip(xs, body.params, strict=True) if p in read]
    return tuple(x for x, _ in pairs), replace(body, params=tuple(p for _, p in pairs))


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
